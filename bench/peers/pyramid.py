#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times what others offer for the pyramid: five halvings of a 4096x4096 RGB picture.

OpenCV halves 8-bit pixels with INTER_AREA into memory it is given; torch halves 32-bit floats with
avg_pool2d. Both chains are checked against the exact 2x2 box filter, (a + b + c + d + 2) >> 2, first.
"""
import argparse
import json
import time

import cv2
import numpy as np
import torch

SIDE_PX = 4096
HALVINGS = 5
NAME = f"pyramid/{SIDE_PX}x{SIDE_PX}x{HALVINGS}"


def box_chain(picture):
    """The levels as Fovea defines them."""
    levels = [picture]
    for _ in range(HALVINGS):
        p = levels[-1].astype(np.uint16)
        total = p[0::2, 0::2] + p[0::2, 1::2] + p[1::2, 0::2] + p[1::2, 1::2]
        levels.append(((total + 2) >> 2).astype(np.uint8))
    return levels[1:]


def opencv_chain(picture, outputs):
    for output in outputs:
        cv2.resize(picture, output.shape[1::-1], dst=output, interpolation=cv2.INTER_AREA)
        picture = output


def torch_chain(picture):
    levels = []
    for _ in range(HALVINGS):
        picture = torch.nn.functional.avg_pool2d(picture, 2)
        levels.append(picture)
    return levels


def milliseconds(body):
    start = time.perf_counter()
    body()
    return (time.perf_counter() - start) * 1e3


def run(threads, rounds=15):
    """Rows {name, peer, peer_value, unit}; the peers take turns and the medians are kept."""
    cv2.setNumThreads(threads)
    torch.set_num_threads(threads)
    picture = np.random.default_rng(1).integers(0, 256, (SIDE_PX, SIDE_PX, 3), dtype=np.uint8)
    exact = box_chain(picture)
    outputs = [np.empty_like(level) for level in exact]
    floats = torch.from_numpy(picture).permute(2, 0, 1)[None].float().contiguous()

    opencv_chain(picture, outputs)
    for level, (mine, theirs) in enumerate(zip(exact, outputs), 1):
        off = int(np.abs(mine.astype(int) - theirs).max())
        if off > 1:
            raise SystemExit(f"opencv: level {level} is off by {off}, more than rounding explains")
    for level, (mine, theirs) in enumerate(zip(exact, torch_chain(floats)), 1):
        # Each of our levels rounds by at most a half; the errors of finer levels are averaged.
        off = float(np.abs(mine - theirs[0].permute(1, 2, 0).numpy()).max())
        if off > 0.5 * level:
            raise SystemExit(f"torch: level {level} is off by {off}, more than rounding explains")

    opencv, torch_pool = "opencv INTER_AREA chain", "torch avg_pool2d chain fp32"
    times = {opencv: [], torch_pool: []}
    for _ in range(rounds):
        # OpenCV is so much faster that it gets more turns.
        times[opencv] += [milliseconds(lambda: opencv_chain(picture, outputs)) for _ in range(8)]
        times[torch_pool].append(milliseconds(lambda: torch_chain(floats)))
    return [{"name": NAME, "peer": peer, "peer_value": float(np.median(ms)), "unit": "ms"}
            for peer, ms in times.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    print(json.dumps(run(args.threads, args.rounds)))


if __name__ == "__main__":
    main()
