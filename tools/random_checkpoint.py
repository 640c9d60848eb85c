#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a random Qwen3-VL checkpoint of the sizes of a config.json, without torch.

  tools/random_checkpoint.py config.json out --tokenizer DIR --dtype bf16 --shards 2

The folder holds what a downloaded model's does: config.json, generation_config.json,
preprocessor_config.json, the tokenizer's files, and model.safetensors or shards with an index.
The same arguments write the same bytes, whatever the number of shards; needs numpy.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np

CHUNK_VALUES = 1 << 20
DTYPES = {"bf16": ("BF16", 2, "bfloat16"), "f16": ("F16", 2, "float16"), "f32": ("F32", 4, "float32")}
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
                   "special_tokens_map.json", "chat_template.json", "chat_template.jinja"]
PROCESSOR = {"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16,
             "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
             "processor_class": "Qwen3VLProcessor", "image_processor_type": "Qwen2VLImageProcessorFast"}
PREFIXES = {"published": ("model.visual.", "model.language_model."),  # what transformers saves, too
            "base": ("visual.", "language_model."),                   # transformers' model without its head
            "old": ("visual.", "model.")}                             # as earlier Qwen models; not for transformers


def vision_tensors(vision):
    """(name, shape) of the tower, without its prefix."""
    hidden, inner, out = vision["hidden_size"], vision["intermediate_size"], vision["out_hidden_size"]
    patch, merge = vision.get("patch_size", 16), vision.get("spatial_merge_size", 2)
    merged = hidden * merge * merge

    def linear(name, rows, cols):
        return [(f"{name}.weight", [rows, cols]), (f"{name}.bias", [rows])]

    def norm(name, size):
        return [(f"{name}.weight", [size]), (f"{name}.bias", [size])]

    def merger(name, norm_size):
        return [*norm(f"{name}.norm", norm_size), *linear(f"{name}.linear_fc1", merged, merged),
                *linear(f"{name}.linear_fc2", out, merged)]

    frames, channels = vision.get("temporal_patch_size", 2), vision.get("in_channels", 3)
    yield from [("patch_embed.proj.weight", [hidden, channels, frames, patch, patch]),
                ("patch_embed.proj.bias", [hidden]),
                ("pos_embed.weight", [vision["num_position_embeddings"], hidden])]
    for i in range(vision["depth"]):
        block = f"blocks.{i}"
        yield from norm(f"{block}.norm1", hidden) + norm(f"{block}.norm2", hidden)
        yield from linear(f"{block}.attn.qkv", 3 * hidden, hidden) + linear(f"{block}.attn.proj", hidden, hidden)
        yield from linear(f"{block}.mlp.linear_fc1", inner, hidden) + linear(f"{block}.mlp.linear_fc2", hidden, inner)
    yield from merger("merger", hidden)
    for i in range(len(vision.get("deepstack_visual_indexes", [8, 16, 24]))):
        yield from merger(f"deepstack_merger_list.{i}", merged)


def text_tensors(text):
    """(name, shape) of the language model, without its prefix and its head."""
    hidden, inner, head = text["hidden_size"], text["intermediate_size"], text.get("head_dim", 128)
    q, kv = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    yield "embed_tokens.weight", [text["vocab_size"], hidden]
    for i in range(text["num_hidden_layers"]):
        layer = f"layers.{i}"
        for name, rows, cols in (("q_proj", q, hidden), ("k_proj", kv, hidden), ("v_proj", kv, hidden),
                                 ("o_proj", hidden, q)):
            yield f"{layer}.self_attn.{name}.weight", [rows, cols]
            if text.get("attention_bias", False):
                yield f"{layer}.self_attn.{name}.bias", [rows]
        yield from [(f"{layer}.self_attn.{name}.weight", [head]) for name in ("q_norm", "k_norm")]
        yield from [(f"{layer}.{name}.weight", [hidden]) for name in ("input_layernorm", "post_attention_layernorm")]
        yield from [(f"{layer}.mlp.{name}.weight", [inner, hidden]) for name in ("gate_proj", "up_proj")]
        yield f"{layer}.mlp.down_proj.weight", [hidden, inner]
    yield "norm.weight", [hidden]


def model_tensors(config, names):
    """(name, published name, shape) of the whole model, by name. The published one seeds the values."""
    parts = [vision_tensors(config["vision_config"]), text_tensors(config["text_config"])]
    tensors = [(prefix + name, published + name, shape)
               for part, prefix, published in zip(parts, PREFIXES[names], PREFIXES["published"])
               for name, shape in part]
    if not config.get("tie_word_embeddings", False):
        shape = [config["text_config"]["vocab_size"], config["text_config"]["hidden_size"]]
        tensors.append(("lm_head.weight", "lm_head.weight", shape))
    return sorted(tensors)


def random_values(name, count, chunk, seed, std, dtype):
    """Chunk `chunk` of the values of a tensor, by its published name: norms near 1, the rest near 0."""
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode()), chunk]))
    values = generator.standard_normal(count, dtype=np.float32)
    is_norm = "norm" in name.rsplit(".", 2)[-2] and name.endswith(".weight")
    values *= np.float32(0.1 if is_norm else std)
    if is_norm:
        values += np.float32(1)
    if dtype == "f32":
        return values
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    odd = bits >> np.uint32(16)
    odd &= np.uint32(1)
    odd += np.uint32(0x7FFF)  # round to nearest, ties to even
    bits += odd
    bits >>= np.uint32(16)
    return bits.astype(np.uint16)


def plan_shards(tensors, count, value_bytes):
    """Consecutive runs of tensors of about the same size."""
    sizes = [int(np.prod(shape, dtype=np.int64)) * value_bytes for _, _, shape in tensors]
    total, done, shards = sum(sizes), 0, [[] for _ in range(count)]
    for tensor, size in zip(tensors, sizes):
        shards[min(count - 1, done * count // total)].append(tensor)
        done += size
    return [shard for shard in shards if shard]


def write_shard(path, tensors, args, pool):
    name_of_dtype, value_bytes, _ = DTYPES[args.dtype]
    header, offset, pieces = {"__metadata__": {"format": "pt"}}, 0, []
    for name, published, shape in tensors:
        values = int(np.prod(shape, dtype=np.int64))
        end = offset + values * value_bytes
        header[name] = {"dtype": name_of_dtype, "shape": shape, "data_offsets": [offset, end]}
        pieces += [(published, offset + at * value_bytes, min(CHUNK_VALUES, values - at), at // CHUNK_VALUES)
                   for at in range(0, values, CHUNK_VALUES)]
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)
        file.flush()

        def write(piece):
            published, at, count, chunk = piece
            values = random_values(published, count, chunk, args.seed, args.std, args.dtype)
            data = memoryview(values).cast("B")
            while data:  # a write may be short
                written = os.pwrite(file.fileno(), data, 8 + len(text) + at)
                data, at = data[written:], at + written

        list(pool.map(write, pieces))
    return offset


def write_weights(config, args):
    tensors = model_tensors(config, args.names)
    shards = plan_shards(tensors, args.shards, DTYPES[args.dtype][1])
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        if len(shards) == 1:
            write_shard(args.out / "model.safetensors", tensors, args, pool)
            return
        total, weight_map = 0, {}
        for i, shard in enumerate(shards, 1):
            name = f"model-{i:05}-of-{len(shards):05}.safetensors"
            total += write_shard(args.out / name, shard, args, pool)
            weight_map.update({tensor: name for tensor, _, _ in shard})
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
        (args.out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def write_settings(config, args):
    config = dict(config, dtype=DTYPES[args.dtype][2])
    config.setdefault("architectures", ["Qwen3VLForConditionalGeneration"])
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    text = config["text_config"]
    eos = text.get("eos_token_id", 151645)
    generation = {"do_sample": False, "eos_token_id": sorted({*(eos if isinstance(eos, list) else [eos])}),
                  "pad_token_id": text.get("bos_token_id", 151643)}
    (args.out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    copied = []
    for name in TOKENIZER_FILES + ["preprocessor_config.json"]:
        if args.tokenizer and (args.tokenizer / name).is_file():
            shutil.copyfile(args.tokenizer / name, args.out / name)
            copied.append(name)
    if "preprocessor_config.json" not in copied:
        (args.out / "preprocessor_config.json").write_text(json.dumps(PROCESSOR, indent=2) + "\n")
    if args.tokenizer and "tokenizer.json" not in copied:
        sys.exit(f"random_checkpoint: there is no tokenizer.json in {args.tokenizer}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="a Qwen3-VL config.json")
    parser.add_argument("out", type=Path, help="the folder to write; made if it is not there")
    parser.add_argument("--tokenizer", type=Path, help="a folder whose tokenizer files are copied")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--std", type=float, default=0.02, help="spread of matrices and biases (default 0.02)")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--names", choices=PREFIXES, default="published", help="how tensors are named")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if args.shards < 1 or args.threads < 1 or args.seed < 0:
        parser.error("--shards and --threads must be at least 1, --seed at least 0")
    config = json.loads(args.config.read_text())
    if config.get("model_type") != "qwen3_vl":
        sys.exit(f"random_checkpoint: {args.config} is of model_type {config.get('model_type')!r}, not 'qwen3_vl'")
    args.out.mkdir(parents=True, exist_ok=True)
    if any(args.out.glob("*.safetensors")):
        sys.exit(f"random_checkpoint: {args.out} holds weights already; remove them or name another folder")
    write_settings(config, args)
    write_weights(config, args)


if __name__ == "__main__":
    main()
