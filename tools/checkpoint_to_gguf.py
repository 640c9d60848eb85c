#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the language model of a Qwen3-VL checkpoint folder as a GGUF file, so that llama.cpp can be timed
on the same weights.

  tools/checkpoint_to_gguf.py DIR out.gguf [--type Q8_0]

Matrices are quantised by the gguf package (F32, F16, BF16 or Q8_0); norms stay float32, as llama.cpp's own
converter has it. The tower is left out. Needs gguf and numpy.
"""
import argparse
import json
import sys
from pathlib import Path

import gguf
import numpy as np

PREFIX = "model.language_model."
BLOCK_ROWS = 4096  # rows of a matrix that are quantised at a time: bounds the memory


def read_tensors(folder):
    """{name: function that gives the tensor, mapped, in its own type} of every safetensors file."""
    kinds = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        for name, entry in header.items():
            offset = 8 + length + entry["data_offsets"][0]
            tensors[name] = np.memmap(path, kinds[entry["dtype"]], "r", offset, tuple(entry["shape"]))
    return tensors


def as_float(values):
    """float32 of the values; uint16 are bf16."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def add_settings(writer, text, kind):
    rope = {**text.get("rope_scaling", {}), **text.get("rope_parameters", {})}
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    writer.add_block_count(text["num_hidden_layers"])
    writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(text["num_attention_heads"])
    writer.add_head_count_kv(text["num_key_value_heads"])
    writer.add_key_length(text.get("head_dim", 128))
    writer.add_value_length(text.get("head_dim", 128))
    writer.add_layer_norm_rms_eps(text.get("rms_norm_eps", 1e-6))
    writer.add_rope_freq_base(rope.get("rope_theta", text.get("rope_theta", 500000)))
    writer.add_rope_dimension_sections([*rope.get("mrope_section", [24, 20, 20]), 0])
    writer.add_num_deepstack_layers(0)  # there is no tower whose taps could be added
    writer.add_file_type(gguf.LlamaFileType["MOSTLY_" + kind.name if kind.name != "F32" else "ALL_F32"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def add_tokenizer(writer, folder, text):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokens = [f"[PAD{i}]" for i in range(text["vocab_size"])]
    types = [gguf.TokenType.UNUSED] * len(tokens)
    for token, at in tokenizer["model"]["vocab"].items():
        tokens[at], types[at] = token, gguf.TokenType.NORMAL
    for token in tokenizer["added_tokens"]:
        tokens[token["id"]] = token["content"]
        types[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(text.get("eos_token_id", 151645))
    writer.add_add_bos_token(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=["F32", "F16", "BF16", "Q8_0"], default="Q8_0")
    args = parser.parse_args()
    text = json.loads((args.folder / "config.json").read_text())["text_config"]
    kind = gguf.GGMLQuantizationType[args.type]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3VL, text["num_hidden_layers"])
    tensors = []  # (name in the GGUF, values, type)
    for name, values in read_tensors(args.folder).items():
        if name.startswith(PREFIX) or name == "lm_head.weight":
            new = names.get_name(name.replace(PREFIX, "model."), try_suffixes=(".weight", ".bias"))
            if new is None:
                sys.exit(f"checkpoint_to_gguf: no GGUF name is known for {name}")
            tensors.append((new, values, kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32))
    if not tensors:
        sys.exit(f"checkpoint_to_gguf: no tensor of {args.folder} is named {PREFIX}*")

    writer = gguf.GGUFWriter(args.out, "qwen3vl")
    add_settings(writer, text, kind)
    add_tokenizer(writer, args.folder, text)
    for name, values, to in tensors:
        shape = gguf.quant_shape_to_byte_shape(values.shape, to)
        writer.add_tensor_info(name, shape, np.dtype(np.uint8), int(np.prod(shape)), to)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, values, to in tensors:
        rows = [gguf.quants.quantize(as_float(values[at:at + BLOCK_ROWS]), to)
                for at in range(0, len(values), BLOCK_ROWS)]
        writer.write_tensor_data(np.concatenate(rows))
    writer.close()
    print(f"{args.out}: {len(tensors)} tensors, {args.out.stat().st_size / 1e9:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
