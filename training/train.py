#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains models/tiny from nothing, in pieces.

    python3 training/train.py --tokenizer models/tiny --out run --seconds 540 --from 0 --to 0.33
    python3 training/train.py --tokenizer models/tiny --out run --seconds 540 --from 0.33 --to 0.66 --resume run

A piece goes on from the weights of the last one; the optimiser warms up again. --from and --to say which part of the
whole training the piece is: the learning rate falls over the whole. training/README.md tells the rest.
"""
import argparse
import collections
import dataclasses
import json
import math
import random
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import checkpoint
import model
from data import FAMILIES, Pool, Words
from loss import Arm, Steps
from optimizer import Optimizer

# How often each arm is taken. Of the questions asked, the full and the uniform arm get over 15 % each.
ARMS = {
    Arm("look", 192, 6, (32,)): 0.15,
    Arm("gaze", 192, 2, (32,), own_gaze=True): 0.17,
    Arm("gaze64", 160, 4, (64,), own_gaze=True): 0.05,
    Arm("looks", 128, 8, (32, 32, 32), (0.2, 0.7, 0.05)): 0.14,
    Arm("gazes", 128, 3, (32, 32, 32), own_gaze=True): 0.08,
    Arm("glance", 256, 8): 0.05,
    Arm("uniform", 64, 16): 0.14,
    Arm("full", 24, 32): 0.19,
    Arm("quadtree", 160, 6): 0.03,
}
FAMILIES_ALL = FAMILIES + ("read", "find", "find", "same", "follow", "follow", "count", "gap")
READ_ENOUGH = 0.95  # of the answers of the arm "full": then the other families begin
WARM_UP_STEPS = 200
RENEW_STEPS = 3  # a scene is used about three times, with other questions and cells
REPORT_SECONDS = 10


def learning_rate(peak, fraction, steps):
    """Warm-up at the start of a piece; over the whole training constant, then down a cosine."""
    fall = 0.3
    late = max(0.0, (fraction - fall) / (1 - fall))
    return peak * min(1.0, (steps + 1) / WARM_UP_STEPS) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, late))))


def arms_of(scale, processes=1):
    """ARMS with so much of their batches, and of that the part that one process has."""
    size = lambda arm: max(1, round(arm.batch * scale / processes))
    return {dataclasses.replace(arm, batch=size(arm)): weight for arm, weight in ARMS.items()}


class Runner:
    """Runs steps of arms, as CUDA graphs on a GPU; the figures of all steps since the last report add up."""

    def __init__(self, steps, optimizer, arms):
        self.steps, self.optimizer, self.arms = steps, optimizer, list(arms)
        device = steps.pool.device
        self.figures = torch.zeros(len(self.arms), len(FAMILIES), 3, device=device)
        self.losses = torch.zeros(len(self.arms), 4, device=device)  # answer, gaze, aux, count
        self.graphs = {}
        self.graph_pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self.launched = collections.deque()

    def _work(self, number):
        loss, figures, losses = self.steps.loss(self.arms[number])
        loss.backward()
        self.figures[number] += figures
        self.losses[number, :3] += losses
        self.losses[number, 3] += 1

    def _captured(self, key, work):
        if key not in self.graphs:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    work()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.graph_pool, capture_error_mode="thread_local"):
                work()
            self.graphs[key] = graph
        self.graphs[key].replay()

    def warm_up(self):
        """Captures all arms and says how long each takes; their gradients are thrown away."""
        for number, arm in enumerate(self.arms):
            self._captured(number, lambda: self._work(number))
            torch.cuda.synchronize()
            begin = time.time()
            for _ in range(3):
                self.graphs[number].replay()
            torch.cuda.synchronize()
            print(f"{arm.name}: {(time.time() - begin) / 3 * 1e3:.1f} ms", flush=True)
        self.optimizer.gradients.zero_()
        self.optimizer.lr.zero_()
        self._captured("optimizer", self.optimizer.step)
        self.optimizer.steps.zero_()
        self.optimizer.momentum.zero_()
        self.optimizer.square.zero_()
        self.figures.zero_()
        self.losses.zero_()

    def step(self, number, lr):
        self.optimizer.lr.fill_(lr)
        if self.graph_pool is None:
            self._work(number)
            self.optimizer.step()
        else:
            self.graphs[number].replay()
            self.graphs["optimizer"].replay()
            # A launch that waits for room in the queue would keep the generators' threads from running.
            self.launched.append(torch.cuda.Event())
            self.launched[-1].record()
            if len(self.launched) > 2:
                self.launched.popleft().synchronize()

    def report(self):
        """Accuracy and seen evidence of each arm and family since the last report, and the mean losses."""
        figures, losses = self.figures.tolist(), self.losses.tolist()
        self.figures.zero_()
        self.losses.zero_()
        result = {}
        for arm, rows, (answer, gaze, aux, count) in zip(self.arms, figures, losses):
            if not count:
                continue
            result[arm.name] = dict(
                steps=int(count), answer=answer / count, gaze=gaze / count, aux=aux / count,
                families={name: dict(n=int(n), right=right / n, seen=seen / n)
                          for name, (n, right, seen) in zip(FAMILIES, rows) if n})
        return result


def show(line):
    """One line a report: the loss of each arm and the right answers by family."""
    print(f"{line['seconds']:6.0f} s  step {line['step']}  {line['steps_per_second']:.1f}/s  scenes {line['scenes']}  "
          f"lr {line['lr']:.2e}  |g| {line['gradient']:.2f}", flush=True)
    for name, arm in line["arms"].items():
        right = "  ".join(f"{family} {row['right'] * 100:.0f}/{row['seen'] * 100:.0f}"
                          for family, row in arm["families"].items())
        print(f"    {name:9} answer {arm['answer']:.3f} gaze {arm['gaze']:.3f} aux {arm['aux']:.3f}  {right}", flush=True)


def train(args):
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    words = Words(args.tokenizer)
    config = model.Config(vocab_size=words.vocab_size)
    state = dict(step=0, read_enough=False, pieces=0)
    if args.resume:
        values, state = checkpoint.load(args.resume)
    else:
        values = model.initial_parameters(config, torch.Generator().manual_seed(args.seed))
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    optimizer = Optimizer(values, model.is_block_matrix, device, dtype)
    families = FAMILIES_ALL if state["read_enough"] else ("read",)
    pool = Pool(words, args.tokenizer, args.pool, device, seed=args.seed + state["pieces"] * 2 ** 32,
                batch=min(128, args.pool), threads=args.threads, families=families)
    runner = Runner(Steps(config, optimizer.parameters, pool), optimizer, arms_of(args.scale))
    if device.type == "cuda":
        with pool.device_lock:
            runner.warm_up()
    chooser = random.Random(args.seed + state["step"])
    begin = reported = saved = time.time()
    first = last = state["step"]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"log{state['pieces']}.jsonl", "w") as log:
        while True:
            now = time.time()
            done = (now - begin) / args.seconds
            if done >= 1:
                break
            lr = learning_rate(args.lr, args.start + done * (args.end - args.start), state["step"] - first)
            runner.step(chooser.choices(range(len(runner.arms)), ARMS.values())[0], lr)
            state["step"] += 1
            if state["step"] % RENEW_STEPS == 0:
                pool.renew()
            if now - reported > REPORT_SECONDS:
                gradient = optimizer.momentum.norm().item()
                line = dict(seconds=now - begin, step=state["step"], scenes=pool.made, lr=lr, gradient=gradient,
                            steps_per_second=(state["step"] - last) / (now - reported), arms=runner.report())
                log.write(json.dumps(line) + "\n")
                log.flush()
                show(line)
                read = line["arms"].get("full", {}).get("families", {}).get("read", {})
                if not state["read_enough"] and read.get("right", 0) > READ_ENOUGH:
                    state["read_enough"] = True
                    pool.families = list(FAMILIES_ALL)
                    print("reads well: the other families begin", flush=True)
                reported, last = now, state["step"]
            if now - saved > args.save_seconds:
                checkpoint.save(out, optimizer.values(), state)
                saved = now
    state["pieces"] += 1
    checkpoint.save(out, optimizer.values(), state)
    pool.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="folder with tokenizer.json")
    parser.add_argument("--out", required=True, help="folder for checkpoint and logs")
    parser.add_argument("--resume", help="folder of the checkpoint to go on from")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--from", dest="start", type=float, default=0.0)
    parser.add_argument("--to", dest="end", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=1.2e-3)
    parser.add_argument("--pool", type=int, default=2048, help="scenes kept on the device")
    parser.add_argument("--scale", type=float, default=1, help="of the arms' batches")
    parser.add_argument("--threads", type=int, default=7, help="of each of the two generators")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--save-seconds", type=float, default=120)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
