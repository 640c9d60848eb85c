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

PROCESSOR = "transformers processor 1024x1024"

# What Fovea must reach: (row of `fovea bench`, peer) -> at least this ratio.
WANTED = {
    ("pyramid/4096x4096x5", "opencv INTER_AREA chain"): 1.3,
    ("pyramid/4096x4096x5", "torch avg_pool2d chain fp32"): 20,
    ("relevance/800x600/salience", PROCESSOR): 20,
    ("front-end/1024x1024/68", PROCESSOR): 10,
}
# Rows that a peer is compared with besides the one it names itself.
ALSO = {
    PROCESSOR: ["relevance/800x600/salience", "front-end/1024x1024/68"],
    PROCESSOR + " (torchvision)": ["relevance/800x600/salience", "front-end/1024x1024/68"],
}


def measure(program, threads, rounds):
    """-> (machine, {row name: [rows]}, {(row name, peer): [values]})"""
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
            for name in [row["name"]] + ALSO.get(row["peer"], []):
                peers.setdefault((name, row["peer"]), []).append(row["peer_value"])
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
        if "limit" in row:
            row["limit"] = statistics.median(v["limit"] for v in values)
        row.pop("note", None)  # it speaks of one round
        compared = [
            dict(row, peer=peer, peer_value=statistics.median(ms), ratio=statistics.median(ms) / row["value"],
                 wanted=WANTED.get((name, peer)))
            for (of, peer), ms in peers.items() if of == name]
        rows += compared or [row]
    if arguments.json:
        print(json.dumps({"machine": machine, "rows": rows}))
        return
    print(f"{machine['cpu']}, {machine['threads']} threads, copy {machine['copy_gb_per_s']:.1f} GB/s\n")
    print(f"{'':36} {'ms':>8} {'of copy':>8} {'peer ms':>8} {'ratio':>7} {'wanted':>7}  peer")
    for row in rows:
        share = f"{100 * row['limit'] / row['value']:.0f} %" if "limit" in row else ""
        line = f"{row['name']:36} {row['value']:8.3f} {share:>8}"
        if "peer" in row:
            wanted = f"{row['wanted']}x" if row["wanted"] else ""
            line += f" {row['peer_value']:8.2f} {row['ratio']:6.1f}x {wanted:>7}  {row['peer']}"
        print(line)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
