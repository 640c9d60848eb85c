#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `fovea bench front-end` and its peers (OpenCV, torch, transformers) in turn, in one run, on the
same threads, and prints how many times faster Fovea is.

    python3 -m venv .venv && .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python bench/peers/run.py --threads 2 [--rounds 3] [--json]

Each round runs the program and then every peer, so that a noisy minute hits both; the figures are the
medians over the rounds.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# What Fovea must reach, as (row of `fovea bench`, row of a peer, at least this ratio).
TARGETS = [
    ("pyramid/4096x4096x5", "opencv INTER_AREA chain", 1.3),
    ("pyramid/4096x4096x5", "torch avg_pool2d chain fp32", 20.0),
    ("relevance/800x600/salience", "transformers processor 1024x1024", 20.0),
    ("front-end/1024x1024/68", "transformers processor 1024x1024", 10.0),
]


def measure(program, threads, rounds):
    """-> (machine, {row: [values]}, {peer row: [values]})"""
    import processor
    import pyramid

    ours, peers, machine = {}, {}, {}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        out = subprocess.run([program, "bench", "front-end", "--json", "-q", "--threads", str(threads)],
                             check=True, capture_output=True, text=True).stdout
        result = json.loads(out)
        machine = result["machine"]
        for row in result["rows"]:
            ours.setdefault(row["name"], []).append(row)
        for row in pyramid.run(threads) + processor.run(threads):
            peers.setdefault(row["peer"], []).append(row["peer_value"])
    return machine, ours, peers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=HERE.parent.parent / "build/release/bin/fovea")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()

    machine, ours, peers = measure(arguments.program, arguments.threads, arguments.rounds)
    rows = []
    for name, values in ours.items():
        row = dict(values[0], value=statistics.median(v["value"] for v in values))
        compared = [(peer, at_least) for ours_name, peer, at_least in TARGETS if ours_name == name]
        for peer, at_least in compared or [(None, None)]:
            if peer:
                peer_value = statistics.median(peers[peer])
                row = dict(row, peer=peer, peer_value=peer_value, ratio=peer_value / row["value"], wanted=at_least)
            rows.append(row)
    if arguments.json:
        print(json.dumps({"machine": machine, "rows": rows, "peers": {k: statistics.median(v) for k, v in peers.items()}}))
        return
    print(f"{machine['cpu']}, {machine['threads']} threads, copy {machine['copy_gb_per_s']:.1f} GB/s\n")
    print(f"{'':44} {'ms':>9} {'peer ms':>9} {'ratio':>7} {'wanted':>7}")
    for row in rows:
        line = f"{row['name']:44} {row['value']:9.3f}"
        if "peer" in row:
            line += f" {row['peer_value']:9.2f} {row['ratio']:6.1f}x {row['wanted']:6.1f}x  {row['peer']}"
        elif "limit" in row:
            line += f"  {100 * row['limit'] / row['value']:.0f} % of copy bandwidth"
        print(line)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
