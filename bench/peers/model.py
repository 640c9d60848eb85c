#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times `fovea bench model` against transformers' Qwen3-VL on the same checkpoint, in one run, on the same threads.

    .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python bench/peers/model.py DIR [--threads 2] [--rounds 2] [--json]

Every number format of either runs in a process of its own. The figures are the best of the rounds; a round takes
some minutes, and transformers in f32 about three times the bytes of a bf16 checkpoint.
"""
import argparse
import json
import statistics
import time

from compare import add_arguments, best_seconds, compared, measure, peak_bytes, report

F32, BF16 = "transformers f32", "transformers bf16"
FORMATS = ["f32", "bf16", "int8"]
WHOLE = "ask/1024x1024/first_token"  # every cell of level 0: 4,096 patches, 1,024 tokens, and 32 of text
# (row of `fovea bench model`, whose, the row to compare with, what Fovea must reach)
ROWS = [
    ("ask/1024x1024/f32/first_token", F32, WHOLE, 1.1),
    ("ask/1024x1024/bf16/first_token", BF16, WHOLE, None),
    ("ask/1024x1024/bf16/first_token", "fovea", "ask/1024x1024/f32/first_token", 1.0),
    ("ask/1024x1024/int8/first_token", F32, WHOLE, None),
    ("ask/1024x1024/int8/first_token", "fovea", "ask/1024x1024/f32/first_token", 1.25),
    ("ask/1024x1024/68/f32/first_token", F32, WHOLE, 15),
    ("ask/1024x1024/68/bf16/first_token", BF16, WHOLE, None),
    ("ask/1024x1024/68/f32/follow_up", "fovea", "ask/1024x1024/68/f32/first_token", 1.5),
    ("tower/256/f32", F32, "tower/256", None),
    ("tower/272/f32", F32, "tower/272", None),
    ("tower/272/f32", "fovea", "tower/4096/f32", 20),
    ("tower/4096/f32", F32, "tower/4096", None),
    ("tower/272/bf16", BF16, "tower/272", None),
    ("tower/4096/bf16", BF16, "tower/4096", None),
    *((f"prefill/{tokens}/{kind}", peer, f"prefill/{tokens}", None)
      for tokens in (100, 512, 1056) for kind, peer in (("f32", F32), ("bf16", BF16))),
    ("decode/f32", F32, "decode", None),
    ("decode/bf16", BF16, "decode", None),
    ("load/bf16", BF16, "load", 10),
    ("load/f32", F32, "load", None),
    ("peak/f32", F32, "peak", None),
    ("peak/bf16", BF16, "peak", None),
]
QUESTION_TOKENS, DECODED_TOKENS = 30, 32  # two tokens around the picture are text too


def time_transformers(args, dtype):
    import numpy as np
    import torch
    from PIL import Image
    from processor import random_picture
    from transformers import Qwen3VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    torch.set_num_threads(args.threads)
    rows = []

    def add(name, body, repeats):
        rows.append({"name": name, "value": 1e3 * best_seconds(body, repeats), "unit": "ms"})

    def tokens(count):
        return torch.from_numpy(np.random.default_rng(count).integers(0, 150000, (1, count)))

    held = []

    def load():
        held[:] = [Qwen3VLForConditionalGeneration.from_pretrained(args.folder, dtype=getattr(torch, dtype))]

    for file in sorted(args.folder.glob("*.safetensors")):
        with open(file, "rb") as data:
            while data.read(1 << 24):  # into the page cache
                pass
    add("load", load, 1)
    model = held[0]
    config = model.config
    processor = Qwen2VLImageProcessorPil.from_pretrained(args.folder)

    def ask(picture, question):
        seen = processor(images=picture, return_tensors="pt")
        pads = int(seen["image_grid_thw"].prod()) // config.vision_config.spatial_merge_size**2
        image = [[config.vision_start_token_id] + [config.image_token_id] * pads + [config.vision_end_token_id]]
        prompt = torch.cat([torch.tensor(image), question], dim=1)
        return model(input_ids=prompt, mm_token_type_ids=(prompt == config.image_token_id).int(), use_cache=True,
                     logits_to_keep=1, **seen).logits.argmax()

    def tower(height, width):
        patches = torch.randn(height * width, model.model.visual.patch_embed.proj.weight[0].numel())
        grid = torch.tensor([[1, height, width]])
        return lambda: model.model.visual(patches.to(model.dtype), grid_thw=grid)

    def prefill(count):
        return lambda: model(input_ids=tokens(count), use_cache=True, logits_to_keep=1)

    with torch.inference_mode():
        prefill(16)()
        for height, width, repeats in ((16, 16, 3), (8, 34, 3), (64, 64, 1)):
            add(f"tower/{height * width}", tower(height, width), repeats)
        for count, repeats in ((100, 3), (512, 1), (1056, 1)):
            add(f"prefill/{count}", prefill(count), repeats)
        cache, times = prefill(100)().past_key_values, []
        for token in tokens(DECODED_TOKENS)[0]:
            start = time.perf_counter()
            model(input_ids=token.reshape(1, 1), past_key_values=cache, use_cache=True)
            times.append(time.perf_counter() - start)
        rows.append({"name": "decode", "value": 1 / statistics.median(times), "unit": "tokens/s"})
        picture = Image.fromarray(random_picture(1024, 1024))
        add(WHOLE, lambda: ask(picture, tokens(QUESTION_TOKENS)), 1)
    rows.append({"name": "peak", "value": peak_bytes(), "unit": "bytes"})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(time_transformers(args, {F32: "float32", BF16: "bfloat16"}[args.measure])))
        return
    machine, best = measure(args, FORMATS, [F32, BF16])
    report(args, machine, compared(best, ROWS))


if __name__ == "__main__":
    main()
