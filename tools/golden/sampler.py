#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/sampler/choices.json: the tokens and probabilities that transformers' logits
processors leave to be drawn from, for random logits (multiples of 1/64, with ties) and options.
With --check compares with what is there. Needs torch, transformers."""
import argparse
import json
import pathlib
import sys

import torch
from transformers import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                          TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

VOCAB = 60
OPTIONS = [
    {}, dict(temperature=0.5), dict(temperature=2.5), dict(top_k=1), dict(top_k=7), dict(top_k=100), dict(top_p=0.9),
    dict(top_p=0.3), dict(top_p=0.01), dict(min_p=0.1), dict(min_p=0.9), dict(repetition_penalty=1.3),
    dict(repetition_penalty=0.7), dict(temperature=0.7, top_k=20, top_p=0.8),
    dict(temperature=1.6, top_k=30, top_p=0.95, min_p=0.05, repetition_penalty=1.1),
    dict(temperature=0.3, top_p=0.6, min_p=0.3, repetition_penalty=1.9), dict(top_k=12, min_p=0.2),
]


def processors(o):
    """In the order of GenerationMixin._get_logits_processor."""
    made = LogitsProcessorList()
    if "repetition_penalty" in o:
        made.append(RepetitionPenaltyLogitsProcessor(o["repetition_penalty"]))
    if "temperature" in o:
        made.append(TemperatureLogitsWarper(o["temperature"]))
    if "top_k" in o:
        made.append(TopKLogitsWarper(o["top_k"]))
    if "top_p" in o:
        made.append(TopPLogitsWarper(o["top_p"]))
    if "min_p" in o:
        made.append(MinPLogitsWarper(o["min_p"]))
    return made


def make():
    random = torch.Generator().manual_seed(11)
    cases = []
    for repeat in range(3):
        for options in OPTIONS:
            units = (torch.randn(1, VOCAB, generator=random) * 64 * (1 + repeat)).round().int()
            context = torch.randint(0, VOCAB, (1, 25), generator=random)
            scores = processors(options)(context, units.float() / 64)
            logprobs = scores.log_softmax(-1)[0]
            kept = torch.isfinite(logprobs).nonzero()[:, 0].tolist()
            cases.append(dict(options=options, context=context[0].tolist(), logits_64=units[0].tolist(), ids=kept,
                              logprobs=[round(logprobs[i].item(), 5) for i in kept]))
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/fixtures/sampler/choices.json")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = "[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in make()) + "]\n"
    if args.check:
        sys.exit(None if args.out.read_text() == text else f"{args.out} differs")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(text)
    print(f"wrote {args.out}: {len(text)} bytes")


if __name__ == "__main__":
    main()
