#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each part of the stack saves of a process's memory, measured: python3 training/sharded_table.py

Takes a step with the model of models/tiny on the CPU in every way, one process and two, and counts bytes in it. Each
process has two samples. Prints a Markdown table in MB of one process.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from loss import Arm
from sharded_steps import Job, run_job

WAYS = [("one process", 1, 0, False), ("one process, checkpointing", 1, 0, True),
        ("two, everything on each", 2, 0, False), ("two, ZeRO-2", 2, 2, False), ("two, ZeRO-3", 2, 3, False),
        ("two, ZeRO-2, checkpointing", 2, 2, True), ("two, ZeRO-3, checkpointing", 2, 3, True)]
SAMPLES = 2  # of a process: every cell of level 1, 256 tokens


def main():
    print("| way | parameters | gradients | optimiser | held between forward and backward | most at once |")
    print("|---|---|---|---|---|---|")
    for name, ranks, zero, checkpointing in WAYS:
        arm = Arm("uniform", SAMPLES * ranks, 8)
        found, _ = run_job(Job(zero=zero, checkpointing=checkpointing, arm=arm, measure=True, steps=1), ranks)
        worst = {key: max(rank[key] for rank in found) / 1e6
                 for key in ("parameters", "gradients", "states", "held", "most")}
        print(f"| {name} | " + " | ".join(f"{value:.1f}" if value < 100 else f"{value:.0f}"
                                          for value in worst.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
