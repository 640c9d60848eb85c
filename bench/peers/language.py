#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the language part of `fovea bench model` with 8-bit weights against llama.cpp with Q8_0 of the same
weights, in one run, on the same threads.

    .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python bench/peers/language.py DIR [--threads 2] [--rounds 3] [--json]

tools/checkpoint_to_gguf.py writes the GGUF under build/peers, once. Before anything is timed llama.cpp's logits
and greedy tokens are compared with those of transformers. The figures are the best of the rounds.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

from compare import ROOT, add_arguments, best_seconds, compared, measure, report, run_peer

PEERS = ["llama.cpp", "llama.cpp flash"]  # without and with its fused attention
# (row of `fovea bench model`, row of the peer, what Fovea must reach). Prefill computes the logits of the last
# token alone. Decode is the median over 32 tokens after a prompt of 100.
ROWS = [
    ("prefill/100/int8", "prefill/100", None),
    ("prefill/512/int8", "prefill/512", 1.3),
    ("prefill/1056/int8", "prefill/1056", None),
    ("decode/int8", "decode", 1.15),
]
PROMPT_TOKENS, GREEDY_TOKENS = 32, 16
LEAST_COSINE = 0.99  # 8-bit weights and activations; a wrong rotation or norm gives less than 0.9


def random_tokens(count):
    return [int(token) for token in np.random.default_rng(count).integers(0, 150000, count)]


def gguf_of(folder):
    path = ROOT / "build/peers" / f"{folder.resolve().name}-q8_0.gguf"
    newest = max(file.stat().st_mtime for file in folder.glob("*.safetensors"))
    if not path.is_file() or path.stat().st_mtime < newest:
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, ROOT / "tools/checkpoint_to_gguf.py", folder, path], check=True)
    return path


def load_llama(args, flash):
    from llama_cpp import Llama

    return Llama(str(gguf_of(args.folder)), n_ctx=2048, n_batch=512, n_ubatch=512, n_threads=args.threads,
                 n_threads_batch=args.threads, flash_attn=flash, verbose=False)


def last_logits(model):
    return np.ctypeslib.as_array(model._ctx.get_logits_ith(-1), shape=(model.n_vocab(),)).astype(np.float64)


def time_llama(args, flash):
    model = load_llama(args, flash)

    def prefill(tokens):
        model.reset()
        model.eval(tokens)

    prefill(random_tokens(32))  # maps the weights
    rows = [{"name": f"prefill/{count}", "unit": "ms",
             "value": 1e3 * best_seconds(lambda: prefill(random_tokens(count)), 2 if count < 1000 else 1)}
            for count in (100, 512, 1056)]
    prefill(random_tokens(100))
    times = []
    for token in random_tokens(32):
        start = time.perf_counter()
        model.eval([token])
        times.append(time.perf_counter() - start)
    return rows + [{"name": "decode", "value": 1 / statistics.median(times), "unit": "tokens/s"}]


def greedy_transformers(args):
    """-> logits after the prompt, and after each of the greedy tokens that follow."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    torch.set_num_threads(args.threads)
    model = Qwen3VLForConditionalGeneration.from_pretrained(args.folder, dtype=torch.float32)
    tokens, cache, logits, chosen = random_tokens(PROMPT_TOKENS), None, [], []
    with torch.inference_mode():
        for _ in range(GREEDY_TOKENS):
            out = model(input_ids=torch.tensor([tokens]), past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache = out.past_key_values
            logits.append(out.logits[0, -1].tolist())
            tokens = [int(np.argmax(logits[-1]))]
            chosen += tokens
    return {"tokens": chosen, "logits": logits}


def verify(args):
    """Feeds llama.cpp what transformers chose; the logits must agree. -> (least cosine, equal tokens)"""
    expected = run_peer(args, "transformers")
    model = load_llama(args, False)
    model.eval(random_tokens(PROMPT_TOKENS))
    cosines, equal = [], 0
    for token, wanted in zip(expected["tokens"], expected["logits"]):
        found, wanted = last_logits(model), np.array(wanted)
        cosines.append(found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted))
        equal += int(np.argmax(found)) == token
        model.eval([token])
    return min(cosines), equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    args = parser.parse_args()
    if args.measure:
        rows = greedy_transformers(args) if args.measure == "transformers" else time_llama(
            args, args.measure == "llama.cpp flash")
        print(json.dumps(rows))
        return
    cosine, equal = verify(args)
    print(f"llama.cpp's logits against transformers': cosine {cosine:.5f} at least, "
          f"{equal} of {GREEDY_TOKENS} tokens equal", file=sys.stderr)
    if cosine < LEAST_COSINE:
        sys.exit(f"language.py: llama.cpp computes something else (cosine {cosine:.5f}), so nothing was timed")
    machine, best = measure(args, ["int8"], PEERS)
    report(args, machine, compared(best, [(name, peer, theirs, wanted) for name, theirs, wanted in ROWS
                                          for peer in PEERS]))


if __name__ == "__main__":
    main()
