#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small random checkpoint and what transformers answers with it, for tests of the whole path.

    .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python tools/golden/ask.py           # writes tests/fixtures/ask
    .venv/bin/python tools/golden/ask.py --check   # makes it again and compares with what is there

Pictures (PNG) -> transformers' image processor -> Qwen3-VL in float32, every cell of level 0 -> greedy tokens with
the log-probabilities of the most likely ones. The conversations have one to three pictures, with text before,
between and after them.
"""
import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests/fixtures/ask"
TOKENIZER = ROOT / "tests/fixtures/tokenizer/tokenizer.json"
START, END, PAD, IM_END = 703, 704, 705, 702
STEPS, LIKELY = 64, 5
SEED = 5
LEAST_GAP = 1e-3  # between the two most likely tokens of every step: no test hangs on a near tie
PICTURES = {"wide.png": (224, 96), "tall.png": (64, 160), "odd.png": (150, 131)}  # the last is resized
# Each turn: role, then parts; a part that names a picture is that picture.
CHATS = {
    "one": [("user", ["wide.png", "What is on the table?"])],
    "resized": [("user", ["odd.png", "Where is it?"])],
    "two": [("user", ["wide.png", "tall.png", "What changed between these?"])],
    "between": [("system", ["Answer in one word."]),
                ("user", ["Look at ", "tall.png", " and then at ", "odd.png", ", also at ", "wide.png", ". Which?"])],
    "follow_up": [("user", ["wide.png", "What is this?"]), ("assistant", ["A field."]), ("user", ["Are you sure?"])],
    "text": [("user", ["Say something."])],
}
CONFIG = dict(
    image_token_id=PAD, video_token_id=706, vision_start_token_id=START, vision_end_token_id=END,
    tie_word_embeddings=True,
    text_config=dict(vocab_size=720, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
                     num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=2048,
                     rms_norm_eps=1e-6, eos_token_id=IM_END,
                     rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_interleaved=True,
                                          mrope_section=[4, 2, 2])),
    vision_config=dict(depth=2, hidden_size=24, intermediate_size=40, num_heads=2, out_hidden_size=64,
                       num_position_embeddings=144, deepstack_visual_indexes=[0, 1]))


def random_model():
    torch.manual_seed(SEED)
    model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**CONFIG)).eval()
    for name, tensor in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            tensor.data.uniform_(0.5, 1.5)
        elif tensor.ndim == 1:
            tensor.data.normal_(0, 0.1)
        elif "embed_tokens" in name:
            tensor.data.normal_(0, 0.2)
        else:
            tensor.data.normal_(0, 1.2 / (tensor[0].numel() ** 0.5))
    return model


def random_pictures(folder):
    """Soft blobs: every cell differs, and a PNG stays small."""
    for number, (name, (width, height)) in enumerate(PICTURES.items()):
        small = np.random.default_rng(number).integers(0, 256, (height // 12 + 2, width // 12 + 2, 3), np.uint8)
        Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(folder / name, optimize=True)


def prompt_of(chat, grids, tokenizer):
    text, pictures = "", []
    for role, parts in chat:
        text += f"<|im_start|>{role}\n"
        for part in parts:
            if part in PICTURES:
                pictures.append(part)
                text += "<|vision_start|><|image_pad|><|vision_end|>"
            else:
                text += part
        text += "<|im_end|>\n"
    text += "<|im_start|>assistant\n"
    ids, waiting = [], list(pictures)
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        ids += [PAD] * (int(grids[waiting.pop(0)].prod()) // 4) if token == PAD else [token]
    return text, ids, pictures


def answer(model, chat, processed, tokenizer):
    text, ids, pictures = prompt_of(chat, {name: grid for name, (_, grid) in processed.items()}, tokenizer)
    inputs = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                  mm_token_type_ids=torch.tensor([[int(token == PAD) for token in ids]]))
    if pictures:
        inputs["pixel_values"] = torch.cat([processed[name][0] for name in pictures])
        inputs["image_grid_thw"] = torch.stack([processed[name][1] for name in pictures])
    with torch.inference_mode():
        out = model.generate(**inputs, do_sample=False, max_new_tokens=STEPS, min_new_tokens=STEPS, eos_token_id=None,
                             pad_token_id=0, output_logits=True, return_dict_in_generate=True)
    logprobs = torch.log_softmax(torch.cat(out.logits).double(), -1)
    top = logprobs.topk(LIKELY)
    gap = float((top.values[:, 0] - top.values[:, 1]).min())
    if gap < LEAST_GAP:
        sys.exit(f"the two most likely tokens of a step lie {gap} apart; choose another seed")
    return {"chat": [{"role": role, "parts": parts} for role, parts in chat], "prompt": text, "prompt_ids": ids,
            "tokens": top.indices[:, 0].tolist(), "likely": top.indices.tolist(),
            "logprobs": [[round(value, 7) for value in row] for row in top.values.tolist()]}


def write(folder):
    random_pictures(folder)
    model = random_model()
    model.save_pretrained(folder)
    shutil.copy(TOKENIZER, folder / "tokenizer.json")
    processor = Qwen2VLImageProcessorPil(patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3,
                                         image_std=[0.5] * 3, size={"shortest_edge": 1024, "longest_edge": 1 << 20})
    processor.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [IM_END, 700]}) + "\n")
    processed = {}
    for name in PICTURES:
        out = processor(images=[Image.open(folder / name).convert("RGB")], return_tensors="pt")
        processed[name] = (out["pixel_values"], out["image_grid_thw"][0])
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    golden = {name: answer(model, chat, processed, tokenizer) for name, chat in CHATS.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in golden.items())
    (folder / "golden.json").write_text("{\n" + lines + "\n}\n")
    return golden


def check(made):
    kept = json.loads((FOLDER / "golden.json").read_text())
    for name, value in made.items():
        worst = np.abs(np.array(value["logprobs"]) - np.array(kept[name]["logprobs"])).max()
        same = all(value[key] == kept[name][key] for key in ("prompt", "prompt_ids", "tokens"))
        print(f"{name}: {'the same tokens' if same else 'OTHER TOKENS'}, log-probabilities within {worst:.1e}")
        if not same or worst > 1e-4:
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        with tempfile.TemporaryDirectory() as folder:
            check(write(Path(folder)))
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        write(FOLDER)


if __name__ == "__main__":
    main()
