#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the training log: python3 training/curves.py training/log/*.jsonl training/curves.png (needs matplotlib)"""
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ARMS = {"gaze": "own gaze, 96 tokens", "gazes": "own gaze, 160 tokens", "uniform": "uniform, 256 tokens",
        "full": "all 1,024 tokens"}
FAMILIES = ("read", "find", "count", "exist", "same", "gap", "follow", "ticks")


def main():
    *logs, out = sys.argv[1:]
    figure, axes = plt.subplots(2, 4, figsize=(14, 6), sharex=True, sharey=True)
    lines, borders, start = [], [], 0.0
    for log in logs:
        rows = [json.loads(line) for line in Path(log).read_text().splitlines()]
        lines += [(start + row["seconds"], row["arms"]) for row in rows]
        start += rows[-1]["seconds"]
        borders.append(start)
    for axis, family in zip(axes.flat, FAMILIES):
        for arm, label in ARMS.items():
            points = [(at / 60, arms[arm]["families"][family]["right"] * 100) for at, arms in lines
                      if family in arms.get(arm, {}).get("families", {})]
            axis.plot(*zip(*points), label=label, linewidth=1)
        for border in borders[:-1]:
            axis.axvline(border / 60, color="0.8", linewidth=0.8)
        axis.set_title(family)
    axes[0, 0].legend(fontsize=8)
    for axis in axes[1]:
        axis.set_xlabel("minutes on one H200")
    for axis in axes[:, 0]:
        axis.set_ylabel("right answers, %")
    figure.tight_layout()
    figure.savefig(out, dpi=80)


if __name__ == "__main__":
    main()
