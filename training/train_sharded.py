#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains as train.py does, on several processes, one for each GPU (or on CPUs).

    torchrun --nproc-per-node 8 training/train_sharded.py --tokenizer models/tiny --out run --seconds 540 --zero 3
    torchrun --nproc-per-node 2 training/train_sharded.py --tokenizer models/tiny --out run --steps 4 --device cpu \\
        --zero 2 --checkpointing --pool 8 --scale 0.02

An arm's batch is that of all processes together, each of which makes scenes of its own. The checkpoint is train.py's:
either goes on from the other's. Without CUDA graphs, since gathered parameters move: on one GPU train.py is faster.
--engine deepspeed trains all parameters by AdamW (sharded_deepspeed.py says why).
"""
import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
import checkpoint
import model
import sharded
from data import FAMILIES, Pool, Words
from loss import Steps
from train import FAMILIES_ALL, READ_ENOUGH, RENEW_STEPS, arms_of, learning_rate, show

SEEDS_OF_A_RANK = 2 ** 28  # scenes that a process may make in a piece


def start(args):
    """-> (device, rank)"""
    if "RANK" not in os.environ:
        sys.exit("train_sharded.py: start it by torchrun, which says which process it is")
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = torch.device(args.device, local_rank) if args.device == "cuda" else torch.device(args.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device, rank


class Figures:
    """Sums over the steps since the last report, as train.Runner has them."""

    def __init__(self, arms, device):
        self.arms = list(arms)
        self.sums = torch.zeros(len(self.arms), len(FAMILIES) * 3 + 4, device=device)

    def add(self, number, figures, losses):
        self.sums[number] += torch.cat((figures.flatten(), losses, torch.ones(1, device=losses.device)))

    def report(self):
        dist.all_reduce(self.sums)
        rows, ranks = self.sums.tolist(), dist.get_world_size()
        self.sums.zero_()
        result = {}
        for arm, row in zip(self.arms, rows):
            answer, gaze, aux, count = row[-4:]
            if count:
                families = {name: dict(n=int(n), right=right / n, seen=seen / n)
                            for name, n, right, seen in zip(FAMILIES, row[0::3], row[1::3], row[2::3]) if n}
                result[arm.name] = dict(steps=int(count) // ranks, answer=answer / count, gaze=gaze / count,
                                        aux=aux / count, families=families)
        return result


def prepare(args, values, device):
    """-> (model, run(work), backward(loss), set_lr(lr), step(), values())"""
    net = sharded.Model({name: value.to(device) for name, value in values.items()}, args.checkpointing)
    dtype = getattr(torch, args.dtype)
    if args.engine == "deepspeed":
        import sharded_deepspeed
        engine = sharded_deepspeed.start(net, args.zero, dtype, args.lr)

        def set_lr(lr):
            for group in engine.optimizer.param_groups:
                group["lr"] = lr

        return net, engine, engine.backward, set_lr, engine.step, lambda: sharded_deepspeed.values(net)
    sharded.shard(net, args.zero, dtype)
    optimizer = sharded.ShardedOptimizer(net, model.is_block_matrix)
    return (net, net, lambda loss: loss.backward(), lambda lr: setattr(optimizer, "lr", lr), optimizer.step,
            optimizer.values)


def train(args):
    device, rank = start(args)
    words = Words(args.tokenizer)
    config = model.Config(vocab_size=words.vocab_size)
    state = dict(step=0, read_enough=False, pieces=0)
    if args.resume:
        values, state = checkpoint.load(args.resume)
    else:
        values = model.initial_parameters(config, torch.Generator().manual_seed(args.seed))
    net, run, backward, set_lr, step, all_values = prepare(args, values, device)
    torch.manual_seed(args.seed + rank)
    pool = Pool(words, args.tokenizer, args.pool, device, batch=min(128, args.pool), threads=args.threads,
                seed=args.seed + state["pieces"] * 2 ** 32 + rank * SEEDS_OF_A_RANK,
                families=FAMILIES_ALL if state["read_enough"] else ("read",))
    steps = Steps(config, net, pool, getattr(torch, args.dtype), net.run, sharded.mean_divisor)
    arms = arms_of(args.scale, dist.get_world_size())
    figures = Figures(arms, device)
    chooser = random.Random(args.seed + state["step"])  # the same arm on every process
    begin, reported = time.time(), 0.0  # by the first process's clock, which all share
    first = last = state["step"]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)

    def report(seconds, lr):
        nonlocal reported, last
        line = dict(seconds=seconds, step=state["step"], scenes=pool.made * dist.get_world_size(), lr=lr,
                    gradient=0.0, steps_per_second=(state["step"] - last) / (seconds - reported), arms=figures.report())
        reported, last = seconds, state["step"]
        read = line["arms"].get("full", {}).get("families", {}).get("read", {})
        if not state["read_enough"] and read.get("right", 0) > READ_ENOUGH:
            state["read_enough"], pool.families = True, list(FAMILIES_ALL)
        if rank == 0:
            with open(out / f"log{state['pieces']}.jsonl", "a") as log:
                log.write(json.dumps(line) + "\n")
            show(line)

    while True:
        clock = torch.tensor([time.time() - begin], dtype=torch.float64, device=device)
        dist.broadcast(clock, 0)  # all stop and report at one step
        done = float(clock) / args.seconds if args.steps is None else (state["step"] - first) / args.steps
        if done >= 1:
            break
        lr = learning_rate(args.lr, args.start + done * (args.end - args.start), state["step"] - first)
        number = chooser.choices(range(len(arms)), arms.values())[0]
        set_lr(lr)
        loss, right, losses = run(lambda: steps.loss(figures.arms[number]))
        backward(loss)
        step()
        figures.add(number, right, losses)
        state["step"] += 1
        if state["step"] % RENEW_STEPS == 0:
            pool.renew()
        if float(clock) - reported > args.report_seconds:
            report(float(clock), lr)
    report(float(clock), lr)
    state["pieces"] += 1
    found = all_values()
    if rank == 0:
        checkpoint.save(out, found, state)
    pool.close()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="folder with tokenizer.json")
    parser.add_argument("--out", required=True, help="folder for checkpoint and logs")
    parser.add_argument("--resume", help="folder of the checkpoint to go on from")
    parser.add_argument("--zero", type=int, choices=(0, 2, 3), default=3, help="what lies in parts (default 3: all)")
    parser.add_argument("--checkpointing", action="store_true", help="compute blocks again in the backward pass")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="computed with (default: bfloat16 on GPUs)")
    parser.add_argument("--engine", choices=("torch", "deepspeed"), default="torch")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--steps", type=int, help="instead of --seconds")
    parser.add_argument("--from", dest="start", type=float, default=0.0)
    parser.add_argument("--to", dest="end", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=1.2e-3)
    parser.add_argument("--pool", type=int, default=2048, help="scenes kept on each device")
    parser.add_argument("--scale", type=float, default=1, help="of the arms' batches")
    parser.add_argument("--threads", type=int, default=7, help="of each of a process's two generators")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--report-seconds", type=float, default=10)
    args = parser.parse_args()
    args.dtype = args.dtype or ("bfloat16" if args.device == "cuda" else "float32")
    if args.zero == 0 and args.engine == "torch" and args.dtype == "bfloat16":
        parser.error("--zero 0 computes in float32: give --dtype float32, or use train.py on one GPU")
    if args.zero == 0 and args.engine == "deepspeed":
        parser.error("--engine deepspeed has --zero 2 and 3 here")
    train(args)


if __name__ == "__main__":
    main()
