# SPDX-License-Identifier: Apache-2.0
"""What language.py and model.py share: running Fovea and the peers in turn, and the table of ratios.

A row is {"name", "value", "unit"}. Units that end in "/s" are better when larger, all others when smaller.
"""
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def add_arguments(parser):
    parser.add_argument("folder", type=Path, help="a checkpoint folder, e.g. of tools/random_checkpoint.py")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="each runs Fovea and then every peer (default 3)")
    parser.add_argument("--peers-only", action="store_true", help="leave Fovea out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--measure", metavar="PEER", help="measure one peer in this process, print its rows as JSON")


def best_seconds(body, repeats):
    """The shortest of `repeats` calls: what disturbs a call only ever makes it longer."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        body()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_fovea(args, weights):
    """-> (machine, rows) of `fovea bench model` in one number format."""
    command = [args.program, "bench", "model", "--model", args.folder, "--weights", weights, "--json", "-q",
               "--threads", str(args.threads)]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result["machine"], result["rows"]


def run_peer(args, peer):
    """-> rows of this script's `--measure peer`, in a process of its own: its memory ends with it."""
    command = [sys.executable, sys.argv[0], args.folder, "--measure", peer, "--threads", str(args.threads)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return json.loads(out.splitlines()[-1])


def better(row, other):
    """The better of two rows of one name."""
    if other is None:
        return row
    pick = max if row["unit"].endswith("/s") else min
    return pick(row, other, key=lambda r: r["value"])


def measure(args, formats, peers):
    """-> (machine, {(who, name): best row over the rounds})"""
    machine, best = {"threads": args.threads}, {}
    for number in range(args.rounds):
        runs = [] if args.peers_only else [("fovea", weights) for weights in formats]
        for who, weights in runs + [(peer, None) for peer in peers]:
            print(f"round {number + 1} of {args.rounds}: {who} {weights or ''}", file=sys.stderr)
            if who == "fovea":
                machine, rows = run_fovea(args, weights)
            else:
                rows = run_peer(args, who)
            for row in rows:
                best[who, row["name"]] = better(row, best.get((who, row["name"])))
    return machine, best


def compared(best, pairs):
    """Rows in the form of `fovea bench --json`. pairs: (Fovea's row, peer, the peer's row, wanted ratio)."""
    rows = []
    for name, peer, peer_name, wanted in pairs:
        ours, theirs = best.get(("fovea", name)), best.get((peer, peer_name))
        row = {"name": name}
        if ours:
            row.update({key: ours[key] for key in ("value", "unit", "limit", "verified") if key in ours})
        if theirs:
            row.update(unit=theirs["unit"], peer=f"{peer} {peer_name}", peer_value=theirs["value"])
        if ours and theirs:
            up = theirs["unit"].endswith("/s")
            row["ratio"] = ours["value"] / theirs["value"] if up else theirs["value"] / ours["value"]
        if wanted:
            row["wanted"] = wanted
        if ours or theirs:
            rows.append(row)
    return rows


def report(args, machine, rows):
    if args.json:
        print(json.dumps({"machine": machine, "rows": rows}))
        return
    print(", ".join(f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in machine.items()) + "\n")
    print(f"{'':36} {'Fovea':>10} {'peer':>10} {'':8} {'ratio':>7} {'wanted':>7}  peer")
    for row in rows:
        scale, unit = (1e6, "MB") if row["unit"] == "bytes" else (1, row["unit"])
        number = [f"{row[key] / scale:10.2f}" if key in row else " " * 10 for key in ("value", "peer_value")]
        ratio = f"{row['ratio']:6.2f}x" if "ratio" in row else ""
        wanted = f"{row['wanted']}x" if "wanted" in row else ""
        print(f"{row['name']:36} {number[0]} {number[1]} {unit:8} {ratio:>7} {wanted:>7}  {row.get('peer', '')}")
