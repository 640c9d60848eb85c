#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `fovea bench gpu` and its peers (torch, transformers) on the GPU in one run, and prints how many times better
Fovea is.

    python bench/peers/gpu.py [--model DIR] [--only tower,decode] [--compile] [--json FILE]

The peers need torch and transformers with CUDA; the whole takes about three minutes. Their model has random weights
of the sizes of Qwen3-VL-2B, or of --config FILE. torch.compile is a matter of minutes and measured with --compile
alone. The peers run in a process of their own; one that fails is said, and the next part goes on in a new process.
--smoke runs every part on the CPU at tiny sizes: a test of this script, whose figures mean nothing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TORCH_PARTS = ["pyramid", "patches", "allocation", "attention"]
MODEL_PARTS = ["tower", "prefill", "decode", "first-token", "in-flight"]
PARTS = TORCH_PARTS + MODEL_PARTS

# What Fovea must reach on an H200: row -> (value, unit).
TARGETS = {
    "pyramid/4096x4096x5": (0.030, "ms"),
    "front-end/32x1024x1024": (10, "us an image"),
    "tower/4096": (9, "ms"),
    "tower/272": (0.8, "ms"),
    "prefill/1056": (8, "ms"),
    "prefill/100": (2, "ms"),
    "decode/1": (900, "tokens/s"),
    "first-token/full": (19, "ms"),
    "first-token/68": (4, "ms"),
}
# Peers that a row of Fovea is compared with besides those that name it.
ALSO = {"pyramid/texture/4096x4096x5": "pyramid/4096x4096x5",
        "attention/batch8x4096/eight": "attention/batch8x4096",
        "attention/batch8x4096causal/eight": "attention/batch8x4096causal"}
# Kinds of attention that see fewer keys are compared with dense attention of as many.
KINDS = ("local3", "local5", "dilated", "strided", "top-blocks", "hierarchical", "linformer")
ALSO.update({f"attention/kinds{patches}/{kind}": f"attention/tower{patches}" for patches in (4096, 16384)
             for kind in KINDS})
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "us an image": 1e-3, "ms": 1.0, "s": 1e3}


def ratio(value, unit, peer_value, peer_unit):
    """How many times better than the peer, or None where the units do not compare."""
    if unit in MILLISECONDS and peer_unit in MILLISECONDS:
        return peer_value * MILLISECONDS[peer_unit] / (value * MILLISECONDS[unit])
    if unit == peer_unit and unit.endswith("/s"):
        return value / peer_value
    return None


def join(ours, peers):
    """Rows in the form of `fovea bench --json`: each of Fovea's with each of its peers, then peers of no row."""
    rows, used = [], set()
    for row in ours:
        target = TARGETS.get(row["name"])
        if target:
            met = ratio(row["value"], row["unit"], *target)
            row = dict(row, target=target[0], target_unit=target[1], reached=met is not None and met >= 1)
        named = {row["name"], ALSO.get(row["name"])}
        found = [peer for peer in peers if peer["name"] in named]
        used |= {peer["name"] for peer in found}
        for peer in found:
            line = dict(row, peer=peer["peer"], peer_value=peer["peer_value"], peer_unit=peer["unit"])
            times = ratio(row["value"], row["unit"], peer["peer_value"], peer["unit"])
            if times is not None:
                line["ratio"] = times
            rows.append(line)
        rows += [] if found else [row]
    return rows + [dict(name=peer["name"], peer=peer["peer"], peer_value=peer["peer_value"], peer_unit=peer["unit"])
                   for peer in peers if peer["name"] not in used]


def run_fovea(args):
    """-> (machine, rows)"""
    if args.fovea:
        result = json.loads(args.fovea.read_text())
    elif args.peers_only or args.smoke:
        return {}, []
    else:
        command = [args.program, "bench", "gpu", "--json", "-q"]
        command += ["--model", args.model] if args.model else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if not done.stdout.strip():
            sys.exit(f"gpu.py: {args.program} bench gpu ended with {done.returncode} and printed nothing")
        if done.returncode:  # a row that was not verified is left out, the others stand
            print(f"gpu.py: fovea bench gpu ended with {done.returncode}", file=sys.stderr)
        result = json.loads(done.stdout)
    return result["machine"], result["rows"]


def run_peers(args, parts):
    """-> (machine, rows, notes) of `--measure`; a part that ends its process is noted and the rest measured in a new
    one."""
    machine, rows, notes, waiting = {}, [], [], list(parts)
    while waiting:
        command = [sys.executable, __file__, "--measure", ",".join(waiting)]
        command += ["--smoke"] if args.smoke else []
        command += ["--compile"] if args.compile else []
        command += ["--config", args.config] if args.config else []
        environment = dict(os.environ, HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
        part = waiting[0]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for text in process.stdout:
                line = json.loads(text) if text.startswith("{") else {}
                if "part" in line:
                    part = line["part"]
                    waiting = waiting[waiting.index(part) + 1:]
                    print(f"peers: {part}", file=sys.stderr)
                elif "machine" in line:
                    machine = line["machine"]
                elif "note" in line:
                    notes.append(line)
                elif "peer_value" in line:
                    rows.append(line)
        if process.returncode == 0:
            break
        notes.append({"name": part, "peer": "the rest of it", "note": f"its process ended with {process.returncode}"})
        if part in waiting:
            waiting.remove(part)
    return machine, rows, notes


def measure_peers(args):
    sys.path.insert(0, str(HERE))
    import torch

    import gpu_torch
    from gpu_clock import Clock

    clock, peer = Clock(args.smoke, args.compile), None
    machine = {"torch": torch.__version__, "transformers": metadata.version("transformers")}
    machine.update({"smoke": True} if args.smoke else {"gpu": torch.cuda.get_device_name()})
    print(json.dumps({"machine": machine}), flush=True)
    with torch.inference_mode():
        for part in args.measure.split(","):
            print(json.dumps({"part": part}), flush=True)
            if part in TORCH_PARTS:
                getattr(gpu_torch, f"measure_{part}")(clock)
                continue
            import gpu_transformers

            peer = peer or gpu_transformers.Peer(clock, args.config)
            getattr(gpu_transformers, "measure_" + part.replace("-", "_"))(clock, peer)


def medians(runs):
    """One row for each name (and peer) over the rounds, in the order of the first."""
    found = {}
    for row in (row for rows in runs for row in rows):
        found.setdefault((row["name"], row.get("peer")), []).append(row)
    key = {True: "peer_value", False: "value"}
    return [dict(same[0], **{key[peer is not None]: statistics.median(row[key[peer is not None]] for row in same)})
            for (_, peer), same in found.items()]


def show(machine, rows, notes):
    print(", ".join(f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in machine.items()) + "\n")
    print(f"{'':36} {'Fovea':>10} {'':8} {'of limit':>8} {'target':>8} {'peer':>10} {'':8} {'ratio':>8}  peer")
    for row in rows:
        value = f"{row['value']:10.4g} {row['unit']:8}" if "value" in row else " " * 19
        share = ""
        if "limit" in row:
            more = row["unit"].endswith("/s")
            share = f"{100 * (row['value'] / row['limit'] if more else row['limit'] / row['value']):.0f} %"
        target = f"{row['target']:g}{'' if row['reached'] else ' !'}" if "target" in row else ""
        peer = f"{row['peer_value']:10.4g} {row['peer_unit']:8}" if "peer" in row else " " * 19
        times = f"{row['ratio']:.2f}x" if "ratio" in row else ""
        print(f"{row['name']:36} {value} {share:>8} {target:>8} {peer} {times:>8}  {row.get('peer', '')}")
    for line in notes:
        print(f"not measured: {line['name']}, {line['peer']}: {line['note']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--model", type=Path, help="a checkpoint folder for Fovea (tools/random_checkpoint.py)")
    parser.add_argument("--config", type=Path, help="config.json of the peers' model (default: Qwen3-VL-2B's sizes)")
    parser.add_argument("--only", metavar="A,B", help="of the peers measure only these parts: " + ", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=1, help="each runs Fovea and then every peer; medians are kept")
    parser.add_argument("--compile", action="store_true", help="also what torch.compile makes of them: minutes")
    parser.add_argument("--peers-only", action="store_true", help="leave Fovea out")
    parser.add_argument("--fovea", type=Path, metavar="FILE", help="take Fovea's rows from this file, run no program")
    parser.add_argument("--smoke", action="store_true", help="tiny, on the CPU: a test of this script")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one JSON object; - for stdout, and no table")
    parser.add_argument("--measure", metavar="PARTS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure_peers(args)
        return
    parts = args.only.split(",") if args.only else PARTS
    if set(parts) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}")
    ours, theirs, notes, machine = [], [], [], {}
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        fovea_machine, rows = run_fovea(args)
        ours.append(rows)
        peer_machine, rows, said = run_peers(args, [part for part in PARTS if part in parts])
        theirs.append(rows)
        machine = {**peer_machine, **fovea_machine}
        notes += [line for line in said if line not in notes]
    rows = join(medians(ours), medians(theirs))
    if args.json:
        text = json.dumps({"machine": machine, "rows": rows, "notes": notes}) + "\n"
        sys.stdout.write(text) if str(args.json) == "-" else args.json.write_text(text)
    if str(args.json) != "-":
        show(machine, rows, notes)


if __name__ == "__main__":
    main()
