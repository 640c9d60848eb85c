#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the logits of `fovea ask --device cuda` with those of transformers, the same tokens forced.

    python bench/peers/parity_gpu.py DIR [--count 50] [--steps 32] [--json FILE]

DIR is a checkpoint folder. Each prompt is a picture and a question drawn from the seed, every cell of level 0. Fovea
answers greedily; its tokens are then forced on transformers, so that every step stands on the same tokens whatever
was chosen before.

- Against transformers in bf16: at every step Fovea's token must be the arg-max, unless the two largest logits lie
  within two bf16 steps. A step of bf16 at a logit x is 2^(floor(log2 |x|) - 7).
- Against transformers in f32: the cosine of the logits, which `ask --logits` writes, must be 0.999 at least. The
  tokens of Fovea and of transformers in bf16 are held to f32's in the same way, to tell whose rounding it was.

Ends with 1 where one of the two is missed.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = "what is on the left right of picture sign read who where color how many and why not table 7 ?".split()
LEAST_COSINE, ALLOWED_STEPS = 0.999, 2


def draw_prompt(draw, path):
    """Writes a picture of any shape, 32 to 640 px a side, a third of them multiples of 32. -> question"""
    width, height = (int(2 ** draw.uniform(5, 9.3)) for _ in range(2))
    if draw.random() < 0.3:
        width, height = (max(1, side // 32) * 32 for side in (width, height))
    state = np.random.default_rng(draw.randrange(1 << 30))
    small = state.integers(0, 256, (height // 9 + 2, width // 9 + 2, 3), np.uint8)
    Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(path)
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 20)))


class Transformers:
    def __init__(self, folder, device):
        try:
            from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as kind
        except ImportError:
            from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor as kind
        self.folder, self.device, self.models = folder, device, {}
        self.processor = kind.from_pretrained(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def model(self, dtype):
        from transformers import Qwen3VLForConditionalGeneration

        if dtype not in self.models:
            model = Qwen3VLForConditionalGeneration.from_pretrained(self.folder, dtype=dtype)
            self.models[dtype] = model.to(self.device).eval()
        return self.models[dtype]

    def read(self, path, question, dtype):
        """-> (prompt's tokens, what its picture is for the model)"""
        seen = self.processor(images=[Image.open(path)], return_tensors="pt")
        pads = int(seen["image_grid_thw"][0].prod()) // 4
        text = (f"<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{question}<|im_end|>\n"
                "<|im_start|>assistant\n")
        pad, ids = self.model(dtype).config.image_token_id, []
        for token in self.tokenizer.encode(text, add_special_tokens=False).ids:
            ids += [pad] * pads if token == pad else [token]
        return ids, {key: value.to(self.device) for key, value in seen.items()}

    def logits(self, path, question, tokens, dtype):
        """Logits of every step that has chosen `tokens`. -> (length of the prompt, [steps, vocabulary])"""
        prompt, seen = self.read(path, question, dtype)
        model = self.model(dtype)
        ids = torch.tensor([prompt + tokens[:-1]], device=self.device)
        seen["pixel_values"] = seen["pixel_values"].to(dtype)
        with torch.inference_mode():
            out = model(input_ids=ids, attention_mask=torch.ones_like(ids), logits_to_keep=len(tokens),
                        mm_token_type_ids=(ids == model.config.image_token_id).int(), **seen)
        return len(prompt), out.logits[0].float().cpu().numpy()


def ask_fovea(args, number, folder):
    """-> (picture, question, answer, its logits [steps, vocabulary])"""
    path, logits = folder / f"{number}.png", folder / f"{number}.logits"
    question = draw_prompt(random.Random(args.seed + number), path)
    command = [args.program, "ask", path, question, "--model", args.folder, "--device", args.device, "--plan",
               "uniform", "--weights", args.weights, "--max-tokens", str(args.steps), "--ignore-end", "--json", "--logits",
               logits, "-q"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"fovea ask ended with {done.returncode} at prompt {number}")
    answer = json.loads(done.stdout)
    return path, question, answer, np.fromfile(logits, np.float32).reshape(len(answer["token_ids"]), -1)


def bf16_step(value):
    """The distance to the next bf16 number above |value|: eight significant bits."""
    return 2.0 ** (np.floor(np.log2(max(abs(float(value)), 2.0 ** -126))) - 7)


def compare_choices(tokens, logits):
    """-> (steps with the same arg-max, steps where the two largest logits lie within rounding, [(step, what is wrong)])"""
    same, tied, wrong = 0, 0, []
    for step, (token, row) in enumerate(zip(tokens, logits)):
        best = int(row.argmax())
        second = float(np.partition(row, -2)[-2])
        if token == best:
            same += 1
        elif row[best] - second <= ALLOWED_STEPS * bf16_step(row[best]):
            tied += 1
        else:
            behind = float(row[best] - row[token])
            wrong.append((step, f"token {token}, not {best}, whose logit is {behind:.4g} higher "
                                f"({behind / bf16_step(row[best]):.1f} bf16 steps)"))
    return same, tied, wrong


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def cosines(ours, theirs):
    """-> (cosine of each step's logits, the same of what differs from their mean)"""
    pairs = list(zip(ours.astype(np.float64), theirs.astype(np.float64)))
    return [cosine(a, b) for a, b in pairs], [cosine(a - a.mean(), b - b.mean()) for a, b in pairs]


def run(args):
    peer = Transformers(args.folder, args.torch_device)
    total = {"steps": 0, "same": 0, "tied": 0, "breaches": [], "against_f32": 0, "transformers_against_f32": 0,
             "cosines": [], "centred_cosines": []}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.at_once) as asking:
        asked = [asking.submit(ask_fovea, args, number, Path(folder)) for number in range(args.count)]
        for number, one in enumerate(asked):
            path, question, answer, ours = one.result()
            tokens, usage = answer["token_ids"], answer["usage"]
            length, logits = peer.logits(path, question, tokens, torch.bfloat16)
            if length != usage["text_tokens"] + usage["image_tokens"]:
                sys.exit(f"parity_gpu.py: prompt {number} has {length} tokens, not what Fovea read: {usage}")
            same, tied, wrong = compare_choices(tokens, logits)
            exact = peer.logits(path, question, tokens, torch.float32)[1]
            found, centred = cosines(ours, exact)
            total["cosines"] += found
            total["centred_cosines"] += centred
            total["against_f32"] += len(compare_choices(tokens, exact)[2])
            total["transformers_against_f32"] += len(compare_choices(logits.argmax(-1), exact)[2])
            total["steps"] += len(tokens)
            total["same"] += same
            total["tied"] += tied
            total["breaches"] += [{"prompt": number, "step": step, "what": what} for step, what in wrong]
            print(f"prompt {number}: {length} tokens, {same} of {len(tokens)} the same, {tied} within rounding, "
                  f"{len(wrong)} others, cosine {min(found):.6f}", file=sys.stderr, flush=True)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkpoint folder, e.g. of tools/random_checkpoint.py")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--device", default="cuda", help="Fovea's (default cuda)")
    parser.add_argument("--torch-device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--weights", default="bf16", help="Fovea's number format (default bf16)")
    parser.add_argument("--count", type=int, default=50, help="prompts (default 50)")
    parser.add_argument("--steps", type=int, default=32, help="tokens of each answer (default 32)")
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="programs that run at once (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="of the first prompt; the others follow")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    args = parser.parse_args()
    total = run(args)
    if args.json:
        args.json.write_text(json.dumps(total) + "\n")
    print(f"{total['same']} of {total['steps']} steps choose transformers' token "
          f"({100 * total['same'] / max(1, total['steps']):.2f} %), {total['tied']} where its two largest logits lie "
          f"within {ALLOWED_STEPS} bf16 steps, {len(total['breaches'])} others")
    for breach in total["breaches"]:
        print(f"  prompt {breach['prompt']}, step {breach['step']}: {breach['what']}")
    print(f"held to f32 in the same way: {total['against_f32']} others of Fovea's, "
          f"{total['transformers_against_f32']} of transformers' own in bf16")
    print(f"cosine of the logits with f32: {min(total['cosines']):.6f} at least, {np.mean(total['cosines']):.6f} on "
          f"average, over {len(total['cosines'])} steps; wanted {LEAST_COSINE}")
    print(f"the same after their mean is taken off, which all logits share: {min(total['centred_cosines']):.6f}")
    missed = total["breaches"] or min(total["cosines"]) < LEAST_COSINE
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
