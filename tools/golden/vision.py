#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/vision: small random Qwen3-VL towers and what transformers' tower makes of
patches with them, to be compared with Tower::encode and the positions it uses.

Plans of level 0 go through transformers' tower as they are. Mixed plans go through the same modules
with positions of their own: fractional ones, where the patches of coarse levels stand. A look that
attends to a glance, and the size bias, are masks on transformers' eager attention.

Weights and patches are whole numbers times a power of two, stored as I8 with a `.scale` beside them,
so that they are small and exact. Everything is made from fixed seeds by a hash.
Needs torch, numpy, transformers, safetensors.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
import safetensors.numpy
import torch
import transformers
from transformers import vision_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel, eager_attention_forward

PATCH_VALUES = 1536
PATCHES = 96  # cases share them: each takes the first it needs

# name: depth, heads, head_dim, intermediate, positions, taps, out, rope_theta (None: not written)
TOWERS = {
    "one_entry": (1, 1, 16, 24, 1, [], 8, None),
    "small_heads": (2, 2, 8, 32, 16, [0], 12, None),
    "fine_table": (3, 2, 16, 40, 400, [0, 2], 20, None),
    "coarse_table": (4, 4, 8, 36, 9, [0, 1, 3], 16, None),
    "odd_table": (2, 1, 20, 28, 50, [1], 24, None),
    "three_heads": (1, 3, 20, 72, 100, [], 10, None),
    "wide_heads": (2, 2, 32, 96, 25, [], 16, None),
    "shuffled_taps": (4, 4, 4, 20, 36, [2, 0, 9, 1], 8, 100.0),
}


def cover(rows, cols, level):
    """Every cell of a level, for a canvas of rows x cols cells of level 0."""
    span = 1 << level
    return [[level, r, c] for r in range(math.ceil(rows / span)) for c in range(math.ceil(cols / span))]


# name: tower, rows and columns of cells, cells [level, row, column] (None: all of level 0),
# cells of the glance (0: one pass), size bias
CASES = {
    "single_cell": ("one_entry", 1, 1, None, 0, False),
    "wide_strip": ("small_heads", 1, 5, None, 0, False),
    "odd_grid": ("fine_table", 3, 7, None, 0, False),
    "tall_grid": ("coarse_table", 8, 2, None, 0, False),
    "tall_strip": ("odd_table", 5, 1, None, 0, False),
    "three_heads": ("three_heads", 2, 3, None, 0, False),
    "wide_heads": ("wide_heads", 1, 3, None, 0, False),
    "square": ("shuffled_taps", 2, 2, None, 0, False),
    "wide_grid": ("shuffled_taps", 3, 5, None, 0, False),
    "mixed_two_levels": ("fine_table", 3, 7, cover(3, 7, 1) + [[0, 0, 3], [0, 2, 0], [0, 2, 6]], 0, False),
    "mixed_four_levels": ("coarse_table", 8, 2,
                          [[3, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0], [1, 3, 0], [0, 2, 1], [0, 7, 0]],
                          0, False),
    "mixed_sparse": ("odd_table", 9, 13, [[2, 2, 3], [1, 0, 0], [1, 4, 6], [0, 5, 5], [0, 8, 12]], 0, False),
    "glance_look": ("fine_table", 3, 7, cover(3, 7, 1) + [[0, 0, 0], [0, 1, 3], [0, 1, 4], [0, 2, 6]], 8, False),
    "size_bias": ("coarse_table", 8, 2, cover(8, 2, 2) + [[1, 2, 0], [0, 3, 0], [0, 3, 1]], 0, True),
    "glance_look_size_bias": ("shuffled_taps", 4, 5, cover(4, 5, 1) + [[0, 0, 4], [0, 3, 2]], 6, True),
}

# Level-0 grids (patches) and sides of the table whose taps are compared bit for bit.
TAP_GRIDS = [(2, 2, 1), (2, 2, 2), (2, 10, 4), (6, 14, 20), (16, 4, 3), (10, 2, 7), (14, 18, 48), (2, 62, 48)]
ROTARY_GRIDS = [(8, 10000.0), (20, 10000.0), (64, 10000.0), (72, 10000.0), (32, 100.0)]
ROTARY_PLACES = [0.0, 0.5, 1.0, 1.5, 3.5, 7.0, 31.0, 63.0, 127.5, 255.0, 1000.0]


def hashed(name, count):
    """int8 values, about normal with a deviation of 37, that depend on the name alone."""
    seed = 0
    for byte in name.encode():
        seed = (seed * 1099511628211 + byte) % 2**64
    x = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    total = sum(((x >> np.uint64(8 * i)) & np.uint64(255)).astype(np.int64) for i in range(4))
    return ((total - 510) // 4).clip(-127, 127).astype(np.int8)


def config_of(depth, heads, head_dim, intermediate, positions, taps, out, theta):
    config = {"depth": depth, "hidden_size": heads * head_dim, "num_heads": heads,
              "intermediate_size": intermediate, "num_position_embeddings": positions,
              "out_hidden_size": out, "deepstack_visual_indexes": taps}
    if theta is not None:
        config["rope_parameters"] = {"rope_type": "axial", "rope_theta": theta}
    return config


def faintness(tower, name):
    """One tower gets so little from its patches that the eps of its first norm counts."""
    return 2.0**-10 if tower == "one_entry" and ("patch" in name or "pos" in name) else 1.0


def scale_of(name, shape):
    """Keeps activations near 1, so that no step of a block vanishes."""
    if name == "pos_embed.weight":
        return 2.0**-6
    return 2.0 ** round(math.log2(1.3 / 37 / math.sqrt(np.prod(shape[1:]) * (0.1 if "patch" in name else 1))))


def make_tower(name):
    """The model, and its tensors as they are stored."""
    model = Qwen3VLVisionModel._from_config(Qwen3VLVisionConfig(**config_of(*TOWERS[name])),
                                            attn_implementation="eager").float().eval()
    stored, state = {}, {}
    for key, tensor in model.state_dict().items():
        values = hashed(f"{name}.{key}", tensor.numel()).reshape(tuple(tensor.shape))
        if tensor.ndim == 1:
            is_gain = "norm" in key and key.endswith("weight")
            stored[key] = ((1 if is_gain else 0) + values / np.float32(128)).astype(np.float32)
            stored[key] *= np.float32(faintness(name, key))
            state[key] = torch.from_numpy(stored[key])
        else:
            scale = np.array([scale_of(key, tensor.shape) * faintness(name, key)], dtype=np.float32)
            stored[key], stored[f"{key}.scale"] = values, scale
            state[key] = torch.from_numpy(values.astype(np.float32) * scale)
    model.load_state_dict(state)
    return model, stored


def places_of(cells, rows, cols):
    """(row, column, level) of the four patches of each cell, in level-0 patches, on the canvas."""
    places = []
    for level, row, col in cells:
        span = 1 << level
        for r, c in ((0, 0), (0, 1), (1, 0), (1, 1)):
            at = [(2 * i + d) * span + (span - 1) / 2 for i, d in ((row, r), (col, c))]
            places.append((min(at[0], 2 * rows - 1), min(at[1], 2 * cols - 1), level))
    return places


def taps_at(row, col, rows, cols, side):
    """As get_vision_interpolation_indices_and_weights, for any places on rows x cols patches."""
    taps = [vision_utils._interpolation_axis_taps_weights(at, torch.tensor(size), side, "bilinear", True)
            for at, size in ((row, rows), (col, cols))]
    indices = (taps[0][0][:, :, None] * side + taps[1][0][:, None, :]).reshape(-1, 4)
    weights = (taps[0][1][:, :, None] * taps[1][1][:, None, :]).reshape(-1, 4)
    return indices, weights


def attention_mask(places, glance_cells, size_bias):
    """0 where a patch attends to another, + log(4^level) of that other, -inf where it does not."""
    count = len(places)
    mask = torch.zeros(count, count)
    if size_bias:
        mask += torch.tensor([level * math.log(4) for _, _, level in places], dtype=torch.float32)
    mask[: 4 * glance_cells, 4 * glance_cells:] = -torch.inf if glance_cells else 0
    return mask[None, None]


@torch.no_grad()
def run_case(name, towers, patches):
    tower, rows, cols, cells, glance, size_bias = CASES[name]
    model = towers[tower]
    mixed = {}
    if cells is not None:
        places = places_of(cells, rows, cols)
        row, col = (torch.tensor([place[i] for place in places], dtype=torch.float32) for i in (0, 1))
        indices, weights = taps_at(row, col, 2 * rows, 2 * cols, model.num_grid_per_side)
        mixed = {"interp_indices": indices, "interp_weights": weights,
                 "position_ids": torch.stack([row, col], dim=-1),
                 "cu_seqlens": torch.tensor([0, len(places)], dtype=torch.int32)}
        mask = attention_mask(places, glance, size_bias)

        def masked(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
            del attention_mask, kwargs
            return eager_attention_forward(module, query, key, value, mask, scaling, dropout)

        ALL_ATTENTION_FUNCTIONS.register("masked", masked)
    model.config._attn_implementation = "masked" if mixed else "eager"
    count = 4 * (rows * cols if cells is None else len(cells))
    out, hooks = {}, []
    for i, block in enumerate(model.blocks):
        hooks.append(block.register_forward_hook(
            lambda _module, _input, output, i=i: out.__setitem__(f"{name}.block.{i}", output.numpy())))
    result = model(patches[:count], grid_thw=torch.tensor([[1, 2 * rows, 2 * cols]]), **mixed)
    for hook in hooks:
        hook.remove()
    out[f"{name}.features"] = result.pooler_output.numpy()
    for i, features in enumerate(result.deepstack_features):
        out[f"{name}.deepstack.{i}"] = features.numpy()
    return {key: np.ascontiguousarray(value) for key, value in out.items()}


@torch.no_grad()
def position_tensors():
    out = {}
    for rows, cols, side in TAP_GRIDS:
        indices, weights = vision_utils.get_vision_interpolation_indices_and_weights(
            torch.tensor([[1, rows, cols]]), side, "bilinear", True, spatial_merge_size=2)
        out[f"taps.{rows}x{cols}.{side}.index"] = indices.numpy().astype(np.int32)
        out[f"taps.{rows}x{cols}.{side}.weight"] = weights.numpy().astype(np.float32)
    places = torch.tensor(ROTARY_PLACES)
    position_ids = torch.stack([places, places.flip(0)], dim=-1)
    for head_dim, theta in ROTARY_GRIDS:
        config = Qwen3VLVisionConfig(hidden_size=head_dim, num_heads=1,
                                     rope_parameters={"rope_type": "axial", "rope_theta": theta})
        model = transformers.models.qwen3_vl.modeling_qwen3_vl.Qwen3VLVisionRotaryEmbedding(config)
        for part, values in zip(("cos", "sin"), model(position_ids, position_ids)):
            out[f"rotary.{head_dim}.{theta:g}.{part}"] = values[:, : head_dim // 2].contiguous().numpy()
    return out


def make():
    """Every file of the fixtures: JSON text or tensors by name."""
    values = hashed("patches", PATCHES * PATCH_VALUES).reshape(PATCHES, PATCH_VALUES)
    scale = np.array([1 / 128], dtype=np.float32)
    patches = torch.from_numpy(values.astype(np.float32) * scale)
    files = {"patches.safetensors": {"patches": values, "patches.scale": scale},
             "positions.safetensors": position_tensors()}
    towers, outputs = {}, {}
    for name in TOWERS:
        towers[name], files[f"tower_{name}.safetensors"] = make_tower(name)
    for name in CASES:
        outputs |= run_case(name, towers, patches)
    files["outputs.safetensors"] = outputs
    cases = [{"name": name, "tower": tower, "canvas": [32 * cols, 32 * rows], "glance": glance,
              "size_bias": bias, "cells": cover(rows, cols, 0) if cells is None else cells}
             for name, (tower, rows, cols, cells, glance, bias) in CASES.items()]
    files["goldens.json"] = {
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__},
        "towers": {name: config_of(*tower) for name, tower in TOWERS.items()}, "cases": cases}
    return files


def as_text(golden):
    return json.dumps(golden, separators=(",", ":")).replace('},', '},\n') + "\n"


def differences(files, folder):
    """What of the committed files is not what is made now."""
    wrong = []
    for file, made in files.items():
        if file.endswith(".json"):
            there = json.loads((folder / file).read_text())
            if {**there, "made_with": 0} != {**made, "made_with": 0}:
                wrong.append(f"{file}: other cases")
            continue
        there = safetensors.numpy.load_file(folder / file)
        if there.keys() != made.keys():
            wrong.append(f"{file}: other tensors")
        for name in there.keys() & made.keys():
            if there[name].shape != made[name].shape or there[name].dtype != made[name].dtype:
                wrong.append(f"{file}: {name}: other shape or type")
                continue
            far = np.abs(there[name].astype(np.float64) - made[name].astype(np.float64)).max()
            if far > 1e-6 * np.abs(made[name].astype(np.float64)).max():
                wrong.append(f"{file}: {name}: off by {far:g}")
    extra = {path.name for path in folder.iterdir()} - files.keys() - {"README.md"}
    return wrong + [f"{name}: not made by this script" for name in sorted(extra)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/fixtures/vision")
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
    args.out.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        if file.endswith(".json"):
            (args.out / file).write_text(as_text(content))
        else:
            safetensors.numpy.save_file(content, args.out / file)
    print(f"wrote {args.out}: {sum(f.stat().st_size for f in args.out.iterdir())} bytes")


if __name__ == "__main__":
    main()
