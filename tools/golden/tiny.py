#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What transformers answers with models/tiny, every cell of level 0, for the test that Fovea answers the same.

    .venv/bin/pip install -r bench/peers/requirements.txt
    PYTHONPATH=build/release/python .venv/bin/python tools/golden/tiny.py           # writes tests/fixtures/tiny
    PYTHONPATH=build/release/python .venv/bin/python tools/golden/tiny.py --check   # compares with what is there

A scene of CardField -> transformers' processor, tokenizer, chat template and model, all from the folder, in float32
-> greedy tokens with the log-probabilities of the most likely ones.
"""
import argparse
import json
import sys
from pathlib import Path

import fovea.cards
import numpy as np
import torch
from PIL import Image
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "models/tiny"
GOLDEN = ROOT / "tests/fixtures/tiny/golden.json"
SEED, SIDE_PX, CARDS, QUESTIONS, LIKELY = 2 ** 40 + 11, 512, 10, 16, 5


def make():
    made = fovea.cards.generate(SEED, 1, width=SIDE_PX, height=SIDE_PX, cards_min=CARDS, cards_max=CARDS,
                                questions=QUESTIONS)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    processor = Qwen2VLImageProcessorPil.from_pretrained(MODEL)
    model = Qwen3VLForConditionalGeneration.from_pretrained(MODEL, dtype=torch.float32).eval()
    pixels = processor(images=[Image.fromarray(made["images"][0])], return_tensors="pt")
    cells = int(pixels["image_grid_thw"].prod()) // 4
    answers = []
    for question in made["questions"][0]:
        turns = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text.replace("<|image_pad|>", "<|image_pad|>" * cells), return_tensors="pt").input_ids
        with torch.inference_mode():
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8,
                                 mm_token_type_ids=(ids == model.config.image_token_id).int(), output_logits=True,
                                 return_dict_in_generate=True, pad_token_id=0, **pixels)
        top = torch.log_softmax(torch.cat(out.logits).double(), -1).topk(LIKELY)
        answers.append({"question": question, "prompt_tokens": ids.shape[1], "tokens": top.indices[:, 0].tolist(),
                        "logprobs": [[round(value, 6) for value in row] for row in top.values.tolist()]})
    return {"seed": SEED, "side_px": SIDE_PX, "cards": CARDS, "answers": answers}


def check(made):
    kept = json.loads(GOLDEN.read_text())
    for one, other in zip(made["answers"], kept["answers"]):
        worst = np.abs(np.array(one["logprobs"]) - np.array(other["logprobs"])).max()
        if one["question"] != other["question"] or one["tokens"] != other["tokens"] or worst > 1e-4:
            sys.exit(f"{one['question']}: other tokens, or log-probabilities {worst:.1e} apart")
    print("the same tokens and log-probabilities")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    args = parser.parse_args()
    made = make()
    if args.check:
        return check(made)
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(answer) for answer in made.pop("answers"))
    GOLDEN.write_text(json.dumps(made)[:-1] + ', "answers": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
