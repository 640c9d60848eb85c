#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/resample: small random Q-Formers of BLIP-2 and Perceiver resamplers of Idefics2, and
what transformers makes of states with them, to be compared with Resampler::run.

A folder is what such a checkpoint's folder is, without the tensors of the vision and language models.
Weights are whole numbers times a power of two, so that a file of BF16 or F16 has them exactly; transformers
computes in f32. Everything is made from fixed seeds by a hash.
Needs torch, numpy, transformers, safetensors.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers import (Blip2Config, Blip2ForConditionalGeneration, Idefics2Config,
                          Idefics2ForConditionalGeneration)

from vision import hashed

# name: queries, states, width of states, heads, head_dim, layers, every which has cross-attention,
# intermediate size, width of tokens, eps, type in the file
QFORMERS = {
    "qformer_full": (32, 257, 20, 3, 8, 4, 2, 40, 28, 1e-12, torch.bfloat16),
    "qformer_single": (1, 1, 3, 1, 4, 1, 1, 5, 2, 1e-3, torch.float32),
    "qformer_odd": (7, 33, 9, 2, 12, 5, 3, 17, 11, 1e-5, torch.float16),
    "qformer_long": (5, 1101, 4, 2, 4, 2, 1, 12, 6, 1e-12, torch.float32),
}

# name: latents, states, width of states, heads, key heads, head_dim, depth, hidden size, intermediate size of
# the projection, eps, type in the file
PERCEIVERS = {
    "perceiver_full": (64, 257, 16, 4, 2, 12, 3, 20, 28, 1e-6, torch.bfloat16),
    "perceiver_single": (1, 1, 3, 1, 1, 4, 1, 3, 2, 1e-3, torch.float32),
    "perceiver_odd": (5, 70, 9, 6, 2, 20, 2, 10, 13, 1e-5, torch.float16),
    "perceiver_long": (3, 1101, 4, 2, 1, 4, 2, 6, 7, 1e-6, torch.float32),
}
# Its perceiver_config says neither hidden_size nor rms_norm_eps: they are those of text_config.
WITHOUT_SIZES = "perceiver_odd"


def qformer_config(queries, _states, width, heads, head_dim, layers, every, intermediate, out, eps, _type):
    small = {"intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    return {"model_type": "blip-2", "architectures": ["Blip2ForConditionalGeneration"],
            "num_query_tokens": queries,
            "vision_config": {"hidden_size": width, "image_size": 28, **small},
            "text_config": {"model_type": "opt", "hidden_size": out, "word_embed_proj_dim": out, "ffn_dim": 8,
                            "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 8},
            "qformer_config": {"hidden_size": heads * head_dim, "num_hidden_layers": layers,
                               "num_attention_heads": heads, "intermediate_size": intermediate,
                               "cross_attention_frequency": every, "layer_norm_eps": eps,
                               "encoder_hidden_size": width, "vocab_size": 8}}


def perceiver_config(name, latents, _states, width, heads, kv_heads, head_dim, depth, hidden, intermediate, eps,
                     _type):
    sizes = {} if name == WITHOUT_SIZES else {"hidden_size": hidden, "rms_norm_eps": eps}
    return {"model_type": "idefics2", "architectures": ["Idefics2ForConditionalGeneration"],
            "vision_config": {"hidden_size": width, "intermediate_size": 8, "num_hidden_layers": 1,
                              "num_attention_heads": 1, "image_size": 32},
            "text_config": {"model_type": "mistral", "hidden_size": hidden, "intermediate_size": intermediate,
                            "rms_norm_eps": eps if name == WITHOUT_SIZES else 1e-5, "num_hidden_layers": 1,
                            "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 8},
            "perceiver_config": {"resampler_n_latents": latents, "resampler_depth": depth,
                                 "resampler_n_heads": heads, "resampler_head_dim": head_dim,
                                 "num_key_value_heads": kv_heads, **sizes}}


def values_for(name, key, shape):
    """Norms around 1, biases and queries of some tenths, matrices by their number of inputs."""
    values = torch.from_numpy(hashed(f"{name}.{key}", math.prod(shape)).astype(np.float32)).reshape(shape)
    if len(shape) > 1 and not key.endswith(("query_tokens", "latents")):
        return values * 2.0 ** round(math.log2(1.3 / 37 / math.sqrt(shape[-1])))
    is_gain = len(shape) == 1 and "norm" in key.lower() and key.endswith("weight")
    return values / 128 + (1 if is_gain else 0)


def fill(model, name, is_part, dtype):
    """Gives the model its weights, and returns those of the part as they are stored."""
    stored = {}
    for key, tensor in model.state_dict().items():
        if not is_part(key):
            continue
        stored[key] = values_for(name, key, tuple(tensor.shape)).to(dtype).contiguous()
        tensor.copy_(stored[key].float())
    return stored


def states_for(name, count, width):
    values = hashed(f"{name}.states", count * width).reshape(1, count, width)
    return torch.from_numpy(values.astype(np.float32)) / 64


def watch(layers, out):
    """The output of each layer, [queries][hidden]."""
    for i, layer in enumerate(layers):
        layer.register_forward_hook(
            lambda _module, _input, output, i=i: out.__setitem__(f"layer.{i}", output[0].clone()))


@torch.no_grad()
def make_qformer(name):
    config = qformer_config(*QFORMERS[name])
    model = Blip2ForConditionalGeneration(Blip2Config(**config)).float().eval()
    stored = fill(model, name, lambda key: key.startswith(("qformer.", "query_tokens", "language_projection.")),
                  QFORMERS[name][-1])
    states = states_for(name, *QFORMERS[name][1:3])
    out = {"states": states[0]}
    watch(model.qformer.encoder.layer, out)
    hidden = model.qformer(query_embeds=model.query_tokens, encoder_hidden_states=states).last_hidden_state
    out["tokens"] = model.language_projection(hidden)[0]
    return config, stored, out


@torch.no_grad()
def make_perceiver(name):
    config = perceiver_config(name, *PERCEIVERS[name])
    model = Idefics2ForConditionalGeneration(Idefics2Config(**config)).float().eval()
    stored = fill(model, name, lambda key: ".connector." in key, PERCEIVERS[name][-1])
    states = states_for(name, *PERCEIVERS[name][1:3])
    out = {"states": states[0]}
    connector = model.model.connector
    watch(connector.perceiver_resampler.layers, out)
    out["tokens"] = connector(states, torch.ones(states.shape[:2], dtype=torch.bool))[0]
    return config, stored, out


def make():
    """Every file of the fixtures: JSON or tensors by name."""
    files = {}
    for names, one in ((QFORMERS, make_qformer), (PERCEIVERS, make_perceiver)):
        for name in names:
            config, stored, out = one(name)
            files[f"{name}/config.json"] = config
            files[f"{name}/model.safetensors"] = stored
            files[f"{name}/golden.safetensors"] = {key: value.contiguous() for key, value in out.items()}
    return files


def differences(files, folder):
    """What of the committed files is not what is made now."""
    wrong = []
    for file, made in files.items():
        if file.endswith(".json"):
            if json.loads((folder / file).read_text()) != made:
                wrong.append(f"{file}: other settings")
            continue
        there = safetensors.torch.load_file(folder / file)
        if there.keys() != made.keys():
            wrong.append(f"{file}: other tensors")
        for name in there.keys() & made.keys():
            if there[name].shape != made[name].shape or there[name].dtype != made[name].dtype:
                wrong.append(f"{file}: {name}: other shape or type")
                continue
            far = (there[name].double() - made[name].double()).abs().max()
            if far > 1e-6 * made[name].double().abs().max():
                wrong.append(f"{file}: {name}: off by {far:g}")
    extra = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return wrong + [f"{name}: not made by this script" for name in sorted(extra - files.keys() - {"README.md"})]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/fixtures/resample")
    parser.add_argument("--check", action="store_true",
                        help="write nothing: make everything again in memory and compare it with the files\n"
                        "in --out, each tensor within 1e-6 of its largest value; status 1 on a difference")
    args = parser.parse_args()
    torch.set_num_threads(1)
    files = make()
    if args.check:
        wrong = differences(files, args.out)
        print("\n".join(wrong) or f"{args.out}: {len(files)} files as made with transformers "
              f"{transformers.__version__}, torch {torch.__version__}")
        sys.exit(1 if wrong else 0)
    for file, content in files.items():
        (args.out / file).parent.mkdir(parents=True, exist_ok=True)
        if file.endswith(".json"):
            (args.out / file).write_text(json.dumps(content, indent=1) + "\n")
        else:
            safetensors.torch.save_file(content, args.out / file)
    print(f"wrote {args.out}: {sum(f.stat().st_size for f in args.out.rglob('*') if f.is_file())} bytes")


if __name__ == "__main__":
    main()
