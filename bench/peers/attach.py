#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers' own first token with every token of a picture, and with a plan of 68 (fovea.transformers).

    PYTHONPATH=build/release/python .venv/bin/python bench/peers/attach.py [--config CONFIG] [--threads 2] [--rounds 1]
        [--device cuda]

Both are the same random f32 model of Qwen3-VL-2B's sizes (9 GB) in one process, in turn, from the picture's pixels to
the first token: patches, tower, prefill. Figures are the best of the rounds; in each the few tokens, which take less
time, are measured --few-rounds times. First it verifies: with the plan of every cell the logits are those of the
untouched model.

The processor's time stands beside the clock's. Where another program has one of the cores, torch's threads wait for
one another at the end of every operation, of which a few tokens have as many as all; with --threads 1 nothing waits,
and the ratio of processor times says what the machine would do alone.

On a GPU the clock is read when it has nothing left to do, and each way is walked once before; patches are made on the
CPU, and are part of the time there too.
"""
import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
QUESTION_TOKENS, WANTED_TIMES = 30, 8


def random_model(path):
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    config = Qwen3VLConfig.from_dict(json.loads(path.read_text()))
    generator = torch.Generator().manual_seed(1)
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(config).float()
    model = model.to_empty(device="cpu").eval()
    model.tie_weights()
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(0, 0.02, generator=generator)
            if "norm" in name and name.endswith("weight"):
                value.add_(1)
        for rotary in (model.model.visual.rotary_pos_emb, model.model.language_model.rotary_emb):
            made = type(rotary)(rotary.config)  # buffers that no checkpoint holds
            rotary.inv_freq, rotary.original_inv_freq = made.inv_freq, made.original_inv_freq
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "tests/fixtures/config/published_2b.json")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--few-rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=1024, help="of the picture, in pixels")
    parser.add_argument("--budget", type=int, default=68)
    parser.add_argument("--device", default="cpu", help="of the model, as torch names it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    import torch
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

    import fovea
    import fovea.transformers

    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    model = random_model(args.config).to(device)
    eyes = fovea.transformers.attach(model)
    processor = Qwen2VLImageProcessor(size={"shortest_edge": 65536, "longest_edge": 16777216}, patch_size=16,
                                      temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    random = np.random.default_rng(1)
    question = torch.from_numpy(random.integers(0, model.config.text_config.vocab_size // 2, (1, QUESTION_TOKENS)))

    def prompt(counts):
        ids = [one for count in counts for one in
               (model.config.vision_start_token_id, *[model.config.image_token_id] * count,
                model.config.vision_end_token_id)]
        return torch.cat([torch.tensor([ids]), question], 1)

    def finish():
        """Until the device has done what it was told to."""
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    def first_token(ids, **inputs):
        ids, inputs = ids.to(device), {name: value.to(device) for name, value in inputs.items()}
        with torch.inference_mode():
            return model(input_ids=ids, mm_token_type_ids=(ids == model.config.image_token_id).int(), use_cache=True,
                         logits_to_keep=1, **inputs).logits

    def every_token(picture):
        planes = torch.from_numpy(picture).permute(2, 0, 1)
        seen = processor(images=planes, return_tensors="pt")
        return first_token(prompt([int(seen["image_grid_thw"].prod()) // 4]), **seen)

    def by_plan(picture, **plan):
        seen = fovea.patches(picture, threads=args.threads, **plan)
        cells = np.column_stack([np.zeros((seen.plan.tokens, 2), np.int64), seen.plan.cells])
        return first_token(prompt([seen.plan.tokens]), pixel_values=torch.from_numpy(seen.values),
                           image_grid_thw=torch.tensor([seen.grid_thw]), image_cells=torch.from_numpy(cells))

    def picture(side):
        y, x, c = np.meshgrid(np.arange(side), np.arange(side), np.arange(3), indexing="ij")
        waves = 128 + 90 * np.sin(x / 37 + c) * np.cos(y / 23) + random.normal(0, 20, (side, side, 3))
        return waves.clip(0, 255).astype(np.uint8)

    small = picture(256)
    plain, seen = every_token(small), by_plan(small, plan="uniform")
    worst = float((plain - seen).abs().max() / plain.abs().max())
    assert worst <= 1e-5, f"with every cell the logits differ by {worst:.2g} of the largest"

    large = picture(args.side)
    few_name = f"{args.budget} tokens"
    bodies = {"every token": (1, lambda: every_token(large)),
              few_name: (args.few_rounds, lambda: by_plan(large, budget=args.budget))}
    best = {name: {"seconds": float("inf"), "processor_seconds": float("inf")} for name in bodies}
    if device.type != "cpu":  # kernels are loaded and chosen, and memory is taken, once
        for _, body in bodies.values():
            body()
    for _ in range(args.rounds):
        for name, (times, body) in bodies.items():
            for _ in range(times):
                finish()
                start, used = time.perf_counter(), time.process_time()
                logits = body()
                finish()
                found = {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - used}
                assert torch.isfinite(logits).all()
                best[name] = {key: min(value, found[key]) for key, value in best[name].items()}
    times, used = (best["every token"][key] / best[few_name][key] for key in ("seconds", "processor_seconds"))
    load = os.getloadavg()[0]
    if args.json:
        print(json.dumps({"best": best, "times": times, "processor_times": used, "wanted": WANTED_TIMES, "off": worst,
                          "load": load, "threads": args.threads, "device": str(device)}))
        return
    print(f"every cell: logits within {worst:.1g} of the untouched model's; load {load:.1f}, {args.threads} threads, "
          f"on {device}")
    for name, row in best.items():
        print(f"attach/{args.side}x{args.side}/f32/{name:14} {row['seconds']:8.2f} s, of the processor "
              f"{row['processor_seconds']:.2f} s")
    print(f"{times:.1f}x sooner (wanted >= {WANTED_TIMES}x); {used:.1f}x less of the processor")


if __name__ == "__main__":
    main()
