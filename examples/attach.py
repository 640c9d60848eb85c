#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers' own Qwen3-VL, looking by plans: examples/attach.py [PICTURE] [QUESTION]

Needs transformers and torch. MODEL names another checkpoint than the one that came with Fovea.
"""
import os
import sys

import torch
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

import fovea
import fovea.transformers
from fovea import cards

MODEL = os.environ.get("MODEL") or os.path.join(os.path.dirname(os.path.dirname(__file__)), "models/tiny")


def main() -> None:
    scene = cards.generate(7, 1)
    picture = sys.argv[1] if len(sys.argv) > 1 else scene["images"][0]
    question = sys.argv[2] if len(sys.argv) > 2 else scene["questions"][0][0]
    model = Qwen3VLForConditionalGeneration.from_pretrained(MODEL, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    eyes = fovea.transformers.attach(model)
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}]
    asked = fovea.Engine(MODEL).ask(picture, question, budget=96)  # the engine, for where the question points
    for plan in ({"plan": "uniform"}, {"budget": 96}, {"plan": asked.looks[0]}):
        inputs = eyes.prepare(tokenizer, messages, picture, **plan)
        with torch.inference_mode():
            ids = model.generate(**inputs, max_new_tokens=16, do_sample=False)[0, inputs["input_ids"].shape[1]:]
        print(f"{len(inputs['image_cells'])} visual tokens: {tokenizer.decode(ids, skip_special_tokens=True)}")


if __name__ == "__main__":
    main()
