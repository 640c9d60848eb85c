#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs beyond the same call from C++, and fovea.patches beside transformers'
processor, where that is installed.

    cmake --build --preset release --target _fovea python_ask_bench
    PYTHONPATH=build/release/python .venv-test/bin/python bench/peers/python.py [--rounds 5] [--json]

Rounds of both sides take turns, in processes of their own, so that a noisy minute hits both. The engine
works on threads of its own, so the calling thread's CPU time is what the call itself costs; other programs
do not disturb it much, as they do the wall's clock. Figures are medians over all questions.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
QUESTION = "Which code is on the red star?"
WANTED_MS = 0.2
WANTED_TIMES = 4


def picture(side):
    """Smooth waves with noise."""
    y, x, c = np.meshgrid(np.arange(side), np.arange(side), np.arange(3), indexing="ij")
    waves = 128 + 90 * np.sin(x / 37 + c) * np.cos(y / 23)
    return (waves + np.random.default_rng(1).normal(0, 20, waves.shape)).clip(0, 255).astype(np.uint8)


def ask_from_python(side, count):
    """[(milliseconds, those of the calling thread)] of each question, in this process."""
    import fovea

    engine = fovea.Engine()
    pixels = picture(side) if side else None
    times = []
    for _ in range(count):
        start, own = time.perf_counter(), time.thread_time()
        answer = engine.ask(pixels, QUESTION, max_tokens=1)
        times.append(((time.perf_counter() - start) * 1e3, (time.thread_time() - own) * 1e3))
        assert len(answer.tokens) == 1
    return times


def lines_of(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [tuple(map(float, line.split())) for line in out.splitlines()][3:]  # the first warm up


def compare_asking(program, rounds):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, side, count in (("no picture", 0, 400), ("256x256 array", 256, 60),
                                  ("1024x1024 array", 1024, 30)):
            path = pathlib.Path(folder) / f"{side}.rgb"
            path.write_bytes(picture(side).tobytes() if side else b"")
            here, there = [], []
            for _ in range(rounds):
                there += lines_of([program, path, str(side), str(side), QUESTION, str(count)])
                here += lines_of([sys.executable, __file__, "--asks", str(side), str(count)])
            wall, own = zip(*here)
            wall_there, own_there = zip(*there)
            rows.append({"name": f"ask/{name}", "wall_ms": statistics.median(wall),
                         "cpp_wall_ms": statistics.median(wall_there), "own_ms": statistics.median(own),
                         "cpp_own_ms": statistics.median(own_there),
                         "more_ms": statistics.median(own) - statistics.median(own_there),
                         "wanted_ms": WANTED_MS})
    return rows


def median_ms(body, budget_s=1.0):
    body()
    times = []
    while len(times) < 5 or sum(times) < budget_s:
        start = time.perf_counter()
        body()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def compare_patches(rounds, threads):
    import fovea

    pixels = picture(1024)
    bodies = {"fovea.patches, every token": lambda: fovea.patches(pixels, plan="uniform", threads=threads).values,
              "fovea.patches, 96 tokens": lambda: fovea.patches(pixels, budget=96, threads=threads).values}
    try:
        import torch
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

        torch.set_num_threads(threads)
        processor = Qwen2VLImageProcessor(  # what Qwen3-VL's preprocessor_config.json says
            size={"shortest_edge": 65536, "longest_edge": 16777216}, patch_size=16, temporal_patch_size=2,
            merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        planes = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        bodies = {name: lambda body=body: torch.from_dlpack(body()) for name, body in bodies.items()}
        bodies["transformers' fast processor"] = lambda: processor(images=planes, return_tensors="pt")
        theirs = processor(images=planes, return_tensors="pt")["pixel_values"].numpy()
        ours = fovea.patches(pixels, plan="uniform").values
        assert np.abs(theirs - ours).max() < 1e-5, "the patches are not those of transformers"
    except ImportError:
        print("transformers, torch or torchvision is not installed: no peer for fovea.patches",
              file=sys.stderr)
    times = {name: [] for name in bodies}
    for _ in range(rounds):
        for name, body in bodies.items():
            times[name].append(median_ms(body))
    return [{"name": f"patches/1024x1024/{name}", "ms": statistics.median(values)}
            for name, values in times.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build/release/bin/python_ask_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of fovea.patches and of torch")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--asks", nargs=2, type=int, metavar=("SIDE", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.asks:
        print("\n".join(f"{wall:.6f} {own:.6f}" for wall, own in ask_from_python(*arguments.asks)))
        return
    asks = compare_asking(arguments.program, arguments.rounds)
    patches = compare_patches(arguments.rounds, arguments.threads)
    if arguments.json:
        print(json.dumps({"ask": asks, "patches": patches}))
        return
    print(f"{'ms':24} {'Python':>10} {'C++':>10} | {'thread':>10} {'C++':>10} {'more':>8} {'wanted':>8}")
    for row in asks:
        print(f"{row['name']:24} {row['wall_ms']:10.3f} {row['cpp_wall_ms']:10.3f} | {row['own_ms']:10.3f} "
              f"{row['cpp_own_ms']:10.3f} {row['more_ms']:8.3f} {'<= %.1f' % row['wanted_ms']:>8}")
    peer = next((row["ms"] for row in patches if "transformers" in row["name"]), None)
    for row in patches:
        ratio = f"{peer / row['ms']:10.1f}x (wanted >= {WANTED_TIMES}x)" if peer and peer != row["ms"] else ""
        print(f"{row['name']:52} {row['ms']:8.3f} ms {ratio}")


if __name__ == "__main__":
    main()
