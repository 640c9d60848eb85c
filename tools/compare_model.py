#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks `fovea ask` and transformers the same questions with random small models, and compares the answers.

    .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python tools/compare_model.py --count 20 [--seed 0] [--tokenizer DIR]

Each model, its pictures (sizes, one to three of them) and its question are drawn from the seed. Fovea runs the
uniform level-0 plan. Greedy tokens must be equal and log-probabilities within 1e-4, up to a step whose two most
likely tokens lie closer than 1e-3 together; such ends are counted.
"""
import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

ROOT = Path(__file__).resolve().parent.parent
STEPS, LIKELY, TOLERANCE, NEAR_TIE = 64, 5, 1e-4, 1e-3
WORDS = "what is on the left right of picture sign read who where color how many and why not table 7 ?".split()


def draw_config(draw, tokenizer):
    """Sizes that Qwen3-VL allows: GQA of any ratio, head sizes apart from hidden sizes, tied or not."""
    half = draw.choice([4, 8, 16, 32])
    section = [0, draw.randint(0, half // 3), draw.randint(0, half // 3)]
    section[0] = half - section[1] - section[2]
    kv_heads = draw.choice([1, 2, 3])
    hidden = draw.choice([16, 40, 64, 96])
    vision_heads = draw.choice([1, 2, 4])
    depth = draw.randint(1, 4)
    taps = sorted(draw.sample(range(depth), draw.randint(0, min(3, depth))))
    ids = {name: tokenizer.token_to_id(f"<|{name}|>") for name in ("image_pad", "vision_start", "vision_end", "im_end")}
    return Qwen3VLConfig(
        image_token_id=ids["image_pad"], video_token_id=ids["image_pad"] + 1, vision_start_token_id=ids["vision_start"],
        vision_end_token_id=ids["vision_end"], tie_word_embeddings=draw.random() < 0.5,
        text_config=dict(vocab_size=tokenizer.get_vocab_size() + draw.randint(0, 20), hidden_size=hidden,
                         intermediate_size=draw.choice([24, 64, 130]), num_hidden_layers=draw.randint(1, 4),
                         num_attention_heads=kv_heads * draw.choice([1, 2, 4, 8]), num_key_value_heads=kv_heads,
                         head_dim=2 * half, attention_bias=draw.random() < 0.3, max_position_embeddings=8192,
                         rms_norm_eps=10 ** draw.uniform(-7, -5), eos_token_id=ids["im_end"],
                         rope_parameters=dict(rope_type="default", rope_theta=10 ** draw.uniform(4, 7),
                                              mrope_interleaved=True, mrope_section=section)),
        vision_config=dict(depth=depth, hidden_size=vision_heads * draw.choice([8, 16, 20, 32]),
                           intermediate_size=draw.choice([24, 72]), num_heads=vision_heads, out_hidden_size=hidden,
                           num_position_embeddings=draw.choice([4, 16, 144, 625]), deepstack_visual_indexes=taps))


def draw_model(draw, config):
    torch.manual_seed(draw.randrange(1 << 30))
    model = Qwen3VLForConditionalGeneration(config).eval()
    for name, tensor in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            tensor.data.uniform_(0.5, 1.5)
        elif tensor.ndim == 1:
            tensor.data.normal_(0, 0.1)
        else:
            tensor.data.normal_(0, 0.3 if "embed_tokens" in name else 1.2 / tensor[0].numel() ** 0.5)
    return model


def draw_picture(draw, path):
    width, height = (max(8, int(2 ** draw.uniform(4, 9))) for _ in range(2))
    if draw.random() < 0.3:  # kept as it is
        width, height = (max(1, side // 32) * 32 for side in (width, height))
    random_state = np.random.default_rng(draw.randrange(1 << 30))
    small = random_state.integers(0, 256, (height // 9 + 2, width // 9 + 2, 3), np.uint8)
    Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(path)


def ask_transformers(model, processor, tokenizer, pictures, question):
    placeholder = "<|vision_start|><|image_pad|><|vision_end|>"
    text = f"<|im_start|>user\n{placeholder * len(pictures)}{question}<|im_end|>\n<|im_start|>assistant\n"
    inputs = processor(images=[Image.open(path) for path in pictures], return_tensors="pt") if pictures else {}
    counts = [int(grid.prod()) // 4 for grid in inputs.get("image_grid_thw", [])]
    pad, ids = model.config.image_token_id, []
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        ids += [pad] * counts.pop(0) if token == pad else [token]
    with torch.inference_mode():
        out = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                             mm_token_type_ids=torch.tensor([[int(token == pad) for token in ids]]), **inputs,
                             do_sample=False, max_new_tokens=STEPS, min_new_tokens=STEPS, eos_token_id=None,
                             pad_token_id=0, output_logits=True, return_dict_in_generate=True)
    top = torch.log_softmax(torch.cat(out.logits).double(), -1).topk(LIKELY)
    return len(ids), top.indices.numpy(), top.values.numpy()


def ask_fovea(program, folder, pictures, question, weights):
    command = [program, "ask", *pictures, question, "--model", folder, "--plan", "uniform", "--json", "--logprobs",
               str(LIKELY), "--max-tokens", str(STEPS), "--ignore-end", "--weights", weights]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    usage = answer["usage"]
    ids = np.array([[likely["id"] for likely in step["top_logprobs"]] for step in answer["logprobs"]])
    values = np.array([[likely["logprob"] for likely in step["top_logprobs"]] for step in answer["logprobs"]])
    return usage["text_tokens"] + usage["image_tokens"], ids, values


def compare(expected, got):
    """-> (steps compared, largest difference of log-probabilities, what is wrong or nothing)"""
    if expected[0] != got[0]:
        return 0, 0.0, f"a prompt of {got[0]} tokens, not {expected[0]}"
    worst = 0.0
    for step in range(STEPS):
        worst = max(worst, float(np.abs(expected[2][step] - got[2][step]).max()))
        if worst > TOLERANCE:
            return step, worst, f"step {step}: log-probabilities {got[2][step]}, not {expected[2][step]}"
        if expected[1][step][0] != got[1][step][0]:
            gap = expected[2][step][0] - expected[2][step][1]
            return step, worst, "" if gap < NEAR_TIE else f"step {step}: another token"
    return STEPS, worst, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the first model; the others follow")
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "tests/fixtures/tokenizer",
                        help="a folder with tokenizer.json (and its chat template)")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    wrong = ties = 0
    overall = 0.0
    for seed in range(args.seed, args.seed + args.count):
        draw = random.Random(seed)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = draw_model(draw, draw_config(draw, tokenizer))
            model.save_pretrained(folder, max_shard_size=draw.choice(["5GB", "100KB"]))
            for file in ("tokenizer.json", "tokenizer_config.json"):
                if (args.tokenizer / file).exists():
                    shutil.copy(args.tokenizer / file, folder)
            processor = Qwen2VLImageProcessorPil(patch_size=16, temporal_patch_size=2, merge_size=2,
                                                 image_mean=[0.5] * 3, image_std=[0.5] * 3,
                                                 size={"shortest_edge": 2048, "longest_edge": 1 << 17})
            processor.save_pretrained(folder)
            pictures = [folder / f"{i}.png" for i in range(draw.choice([0, 1, 1, 1, 2, 3]))]
            for path in pictures:
                draw_picture(draw, path)
            question = " ".join(draw.choices(WORDS, k=draw.randint(1, 20)))
            expected = ask_transformers(model, processor, tokenizer, pictures, question)
            got = ask_fovea(args.program, folder, pictures, question, "f32")
            steps, worst, problem = compare(expected, got)
        overall = max(overall, worst)
        ties += not problem and steps < STEPS
        wrong += bool(problem)
        print(f"seed {seed}: {len(pictures)} pictures, {expected[0]} tokens, {steps} steps equal, "
              f"log-probabilities within {worst:.1e} {problem}", flush=True)
    print(f"{args.count - wrong} of {args.count} equal, {ties} of them up to a near tie; largest difference {overall:.1e}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
