#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small random checkpoint with the extra tensors of a model of ours, where its gaze head looks and what it answers.

    .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python tools/golden/gaze.py           # writes tests/fixtures/gaze
    .venv/bin/python tools/golden/gaze.py --check   # makes it again and compares with what is there

The extra tensors (docs/weights.md) in plain torch around transformers' own modules, in float32. A picture -> levels
by 2x2 boxes -> the glance through the tower, level embedding added -> the question read over it -> the gaze head's
share of each place -> the level-0 cells with the highest scores -> the look through the tower, attending to the glance
-> greedy tokens over glance, look and question, with the log-probabilities of the most likely ones.
"""
import argparse
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen3_vl.modeling_qwen3_vl import eager_attention_forward

from vision import attention_mask, cover, places_of, taps_at

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests/fixtures/gaze"
TOKENIZER = ROOT / "tests/fixtures/tokenizer/tokenizer.json"
START, END, PAD, IM_END = 703, 704, 705, 702
PICTURE = "scene.png"
ROWS, COLS = 5, 9  # level-0 cells: coarser ones hang over two edges
STEPS, LIKELY = 6, 5
SEED = 11
LEAST_GAP = 1e-3  # between the two most likely tokens of a step
LEAST_STEPS = 8   # between the last chosen cell's score of 0..65535 and the next: no test hangs on a near tie
FOVEA = dict(gaze_layer=2, gaze_size=8, gaze_grid=4, levels=2)  # the glance of the first case is beyond the last row
# name: the level of the glance, the budget it follows from, the question
CASES = {"level_2": (2, 14, "What is on the left?"), "level_1": (1, 24, "Where?")}
CONFIG = dict(
    image_token_id=PAD, video_token_id=706, vision_start_token_id=START, vision_end_token_id=END,
    tie_word_embeddings=True,
    text_config=dict(vocab_size=720, hidden_size=48, intermediate_size=64, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=2048,
                     rms_norm_eps=1e-5, eos_token_id=IM_END,
                     rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_interleaved=True,
                                          mrope_section=[4, 2, 2])),
    vision_config=dict(depth=2, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48,
                       num_position_embeddings=64, deepstack_visual_indexes=[0]))


def random_model():
    torch.manual_seed(SEED)
    model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**CONFIG)).eval()
    for name, tensor in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            tensor.data.uniform_(0.5, 1.5)
        elif tensor.ndim == 1:
            tensor.data.normal_(0, 0.1)
        elif "embed_tokens" in name:
            tensor.data.normal_(0, 0.2)
        else:
            tensor.data.normal_(0, 1.2 / (tensor[0].numel() ** 0.5))
    hidden, size, grid = CONFIG["text_config"]["hidden_size"], FOVEA["gaze_size"], FOVEA["gaze_grid"]
    extra = {"level_embedding": torch.randn(FOVEA["levels"], CONFIG["vision_config"]["hidden_size"]),
             "gaze.norm.weight": torch.empty(hidden).uniform_(0.5, 1.5),
             "gaze.query.weight": torch.randn(size, hidden) / math.sqrt(hidden),
             "gaze.key.weight": torch.randn(grid * grid * size, hidden) / math.sqrt(hidden)}
    extra["level_embedding"][0] = 0
    return model, extra


def level_of(pixels, level):
    """Halved by 2x2 boxes, rounded half up; an odd edge is repeated."""
    for _ in range(level):
        pixels = np.pad(pixels, ((0, pixels.shape[0] % 2), (0, pixels.shape[1] % 2), (0, 0)), mode="edge")
        boxes = pixels.astype(np.int64).reshape(pixels.shape[0] // 2, 2, pixels.shape[1] // 2, 2, 3)
        pixels = ((boxes.sum((1, 3)) + 2) // 4).astype(np.uint8)
    return pixels


def patches_of(picture, cells):
    """The processor's values of the four patches of each cell; pixels beyond an edge repeat the last."""
    values = []
    for level, row, col in cells:
        pixels = level_of(picture, level)
        y = np.arange(32 * row, 32 * row + 32).clip(0, pixels.shape[0] - 1)
        x = np.arange(32 * col, 32 * col + 32).clip(0, pixels.shape[1] - 1)
        cell = (pixels[y][:, x].astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
        for r, c in ((0, 0), (0, 1), (1, 0), (1, 1)):
            patch = cell[16 * r:16 * r + 16, 16 * c:16 * c + 16].transpose(2, 0, 1)
            values.append(np.stack([patch, patch], 1).reshape(-1))
    return torch.from_numpy(np.stack(values))


@torch.no_grad()
def encode(model, extra, picture, cells, glance):
    """The tower over mixed cells: level embedding added behind the positions, the glance blind to the look."""
    tower = model.model.visual
    places = places_of(cells, ROWS, COLS)
    row, col = (torch.tensor([place[i] for place in places], dtype=torch.float32) for i in (0, 1))
    indices, weights = taps_at(row, col, 2 * ROWS, 2 * COLS, tower.num_grid_per_side)
    mask = attention_mask(places, glance, False)
    levels = extra["level_embedding"][[min(level, FOVEA["levels"] - 1) for _, _, level in places]]

    def masked(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
        del attention_mask, kwargs
        return eager_attention_forward(module, query, key, value, mask, scaling, dropout)

    ALL_ATTENTION_FUNCTIONS.register("masked", masked)
    tower.config._attn_implementation = "masked"
    hook = tower.blocks[0].register_forward_pre_hook(lambda _, args: (args[0] + levels, *args[1:]))
    out = tower(patches_of(picture, cells), grid_thw=torch.tensor([[1, 2 * ROWS, 2 * COLS]]), interp_indices=indices,
                interp_weights=weights, position_ids=torch.stack([row, col], dim=-1),
                cu_seqlens=torch.tensor([0, len(places)], dtype=torch.int32))
    hook.remove()
    return out.pooler_output, out.deepstack_features


def prompt_of(question, cells, tokenizer):
    """Ids with every visual token, and positions: time, row, column."""
    text = f"<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{question}<|im_end|>\n<|im_start|>assistant\n"
    ids, positions, at = [], [], 0
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        if token != PAD:
            ids.append(token)
            positions.append((at, at, at))
            at += 1
            continue
        for level, row, col in cells:
            span = 1 << level
            centre = [min(i * span + (span - 1) / 2, n - 1) for i, n in ((row, ROWS), (col, COLS))]
            ids.append(PAD)
            positions.append((at, at + centre[0], at + centre[1]))
        at += max(ROWS, COLS)
    return text, ids, positions, at


@torch.no_grad()
def run(model, ids, positions, visual):
    """Logits, and what enters layer gaze_layer."""
    text = model.model.language_model
    features, deepstack = visual
    tokens = torch.tensor([ids])
    where = tokens == PAD
    embeds = text.embed_tokens(tokens)
    embeds[where] = features
    kept = []
    hook = text.layers[FOVEA["gaze_layer"]].register_forward_pre_hook(lambda _, args: kept.append(args[0][0]))
    out = text(inputs_embeds=embeds, position_ids=torch.tensor(positions, dtype=torch.float32).T[:, None],
               visual_pos_masks=where, deepstack_visual_embeds=list(deepstack))
    hook.remove()
    return model.lm_head(out.last_hidden_state[0]), kept[0]


@torch.no_grad()
def gaze_shares(extra, hidden, ids, level):
    """p of each place on the canvas, row-major."""
    size, grid = FOVEA["gaze_size"], FOVEA["gaze_grid"]
    eps = CONFIG["text_config"]["rms_norm_eps"]
    normed = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps) * extra["gaze.norm.weight"]
    glance = [i for i, token in enumerate(ids) if token == PAD]
    queries = normed[ids.index(END):] @ extra["gaze.query.weight"].T
    keys = (normed[glance] @ extra["gaze.key.weight"].T).reshape(len(glance), grid * grid, size)
    logits = torch.logsumexp(torch.einsum("id,jsd->ijs", queries, keys) / math.sqrt(size), 0)
    rows, cols = (math.ceil(n / (1 << level)) for n in (ROWS, COLS))
    logits = logits.reshape(rows, cols, grid, grid).permute(0, 2, 1, 3).reshape(rows * grid, cols * grid)
    side = 32 * 2**level / grid
    logits = logits[:math.ceil(32 * ROWS / side), :math.ceil(32 * COLS / side)]
    return torch.softmax(logits.flatten().double(), 0).reshape(logits.shape)


def coupling_of(shares, level):
    """The map of 0..65535 at level 0."""
    ratio = shares * shares.numel()
    scores = np.floor((ratio / (1 + ratio)).numpy() * 65535 + 0.5)
    parts = FOVEA["gaze_grid"] >> level  # places along a level-0 cell
    boxes = scores.reshape(ROWS, parts, COLS, parts)
    return np.floor(boxes.mean((1, 3)) + 0.5).astype(int)


def best_cells(coupling, count):
    order = np.argsort(-coupling.ravel(), kind="stable")
    gap = coupling.ravel()[order[count - 1]] - coupling.ravel()[order[count]]
    if gap < LEAST_STEPS:
        sys.exit(f"the last cell of a look is {gap} steps above the next; choose another seed")
    return [[0, int(i) // COLS, int(i) % COLS] for i in sorted(order[:count])]


def answer(model, extra, picture, case, tokenizer):
    level, budget, question = case
    glance = cover(ROWS, COLS, level)
    _, ids, positions, _ = prompt_of(question, glance, tokenizer)
    _, hidden = run(model, ids, positions, encode(model, extra, picture, glance, 0))
    shares = gaze_shares(extra, hidden, ids, level)
    coupling = coupling_of(shares, level)
    cells = glance + best_cells(coupling, budget - len(glance))
    visual = encode(model, extra, picture, cells, len(glance))
    text, ids, positions, next_position = prompt_of(question, cells, tokenizer)
    prompt, tokens, likely, logprobs = list(ids), [], [], []
    for step in range(STEPS):
        logits, _ = run(model, ids, positions, visual)
        top = torch.log_softmax(logits[-1].double(), -1).topk(LIKELY)
        if float(top.values[0] - top.values[1]) < LEAST_GAP:
            sys.exit("the two most likely tokens of a step are a near tie; choose another seed")
        tokens.append(int(top.indices[0]))
        likely.append(top.indices.tolist())
        logprobs.append([round(value, 7) for value in top.values.tolist()])
        ids.append(tokens[-1])
        positions.append((next_position + step,) * 3)
    return {"budget": budget, "question": question, "prompt": text, "prompt_ids": prompt, "glance": len(glance),
            "shares": [float(f"{value:.9g}") for value in shares.flatten().tolist()], "coupling": coupling.tolist(),
            "cells": cells, "tokens": tokens, "likely": likely, "logprobs": logprobs}


def random_picture(path):
    """Soft blobs: every cell differs, and a PNG stays small."""
    small = np.random.default_rng(SEED).integers(0, 256, (ROWS * 2 + 2, COLS * 2 + 2, 3), np.uint8)
    Image.fromarray(small).resize((32 * COLS, 32 * ROWS), Image.Resampling.BICUBIC).save(path, optimize=True)


def write(folder):
    model, extra = random_model()
    random_picture(folder / PICTURE)
    model.save_pretrained(folder)
    save_file(extra, folder / "fovea.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "fovea": FOVEA}, indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [IM_END, 700]}) + "\n")
    (folder / "preprocessor_config.json").write_text(json.dumps(
        {"size": {"shortest_edge": 1024, "longest_edge": 1 << 20}, "patch_size": 16, "temporal_patch_size": 2,
         "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}) + "\n")
    shutil.copy(TOKENIZER, folder / "tokenizer.json")
    for name in ("model.safetensors", "fovea.safetensors"):
        (folder / name).chmod(0o644)
    picture = np.asarray(Image.open(folder / PICTURE).convert("RGB"))
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    golden = {name: answer(model, extra, picture, case, tokenizer) for name, case in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in golden.items())
    (folder / "golden.json").write_text("{\n" + lines + "\n}\n")
    return golden


def check(made):
    kept = json.loads((FOLDER / "golden.json").read_text())
    for name, value in made.items():
        worst = np.abs(np.array(value["logprobs"]) - np.array(kept[name]["logprobs"])).max()
        shares = np.abs(np.array(value["shares"]) / np.array(kept[name]["shares"]) - 1).max()
        same = all(value[key] == kept[name][key] for key in ("prompt", "prompt_ids", "cells", "tokens"))
        print(f"{name}: {'the same cells and tokens' if same else 'OTHER CELLS OR TOKENS'}, "
              f"shares within {shares:.1e}, log-probabilities within {worst:.1e}")
        if not same or worst > 1e-4 or shares > 1e-4:
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        with tempfile.TemporaryDirectory() as folder:
            check(write(Path(folder)))
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        write(FOLDER)


if __name__ == "__main__":
    main()
