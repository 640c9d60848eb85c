# SPDX-License-Identifier: Apache-2.0
"""Kinds of attention and their gradients in plain torch: what fovea.ops differentiates by, and is tested against.

Holds the whole matrix of scores, in the number format of its inputs. docs/attention.md says what each kind sees.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

WINDOWS = {"local3": (1, 1), "local5": (2, 1), "dilated": (2, 4)}  # radius in steps, and places of a step
BY_BLOCKS = ("top-blocks", "hierarchical")
BLOCK_SIDE, GROUP_SIDE = 8, 4
STRIDED_KEYS = 8  # each eighth row, in the order of blocks
MANY_ROWS = 8192  # from here on a sixteenth of the blocks is seen in full, before an eighth
TOWER = ("dense", *WINDOWS, "strided", *BY_BLOCKS, "shared-blocks", "linformer", "level-sum")
# The last is in level_sum_reference.py; "performer" is in features_reference.py.
# Of a sequence: blocks of 64 tokens, each fourth of them, the last ones, and a quarter of those of images.
TOKEN_BLOCK, TOKEN_STRIDE, TOKEN_WINDOW, TOKEN_SHARE = 64, 4, 8, 0.25
TEXT = ("dense", "strided", "window", "top-blocks", "prefix")


class Groups(NamedTuple):
    """Rows in groups of 4x4 of their level, and these in blocks of 8x8."""

    of_row: Any  # [rows]
    sizes: Any  # [groups]
    levels: Any  # [groups]
    block_of_row: Any  # [rows]
    block_of_group: Any  # [groups]
    blocks: int


def groups_of(places: Any) -> Groups:
    """places [rows, 3]: level, row, column."""
    level, row, column = places.long().unbind(1)

    def numbered(side: int) -> tuple[Any, Any]:
        key = torch.stack([level, row // side, column // side], 1)
        unique, inverse = torch.unique(key, dim=0, return_inverse=True)
        return unique, inverse

    groups, of_row = numbered(GROUP_SIDE)
    blocks, block_of_row = numbered(BLOCK_SIDE)
    block_of_group = torch.zeros(len(groups), dtype=torch.long, device=places.device)
    block_of_group[of_row] = block_of_row
    return Groups(of_row, torch.bincount(of_row, minlength=len(groups)), groups[:, 0], block_of_row,
                  block_of_group, len(blocks))


def means(x: Any, groups: Groups) -> Any:
    """[rows, heads, values] -> [groups, heads, values]."""
    zeros = torch.zeros(len(groups.sizes), *x.shape[1:], dtype=x.dtype, device=x.device)
    return zeros.index_add(0, groups.of_row, x) / groups.sizes[:, None, None]


def best_blocks(q: Any, k: Any, groups: Groups, count: int) -> Any:
    """[kv_heads, blocks, blocks]: which blocks of keys a block of queries sees in full; its own always."""
    kv_heads = k.shape[1]
    with torch.no_grad():
        queries = means(q, groups).unflatten(1, (kv_heads, -1))  # [groups, kv_heads, sharing, values]
        products = torch.einsum("ahsd,bhd->habs", queries, means(k, groups)).amax(-1)
        blocks = groups.blocks
        pair = groups.block_of_group[:, None] * blocks + groups.block_of_group
        scores = torch.full((kv_heads, blocks * blocks), -math.inf, dtype=q.dtype, device=q.device)
        scores = scores.scatter_reduce(1, pair.flatten().expand(kv_heads, -1), products.flatten(1), "amax")
        scores = scores.view(kv_heads, blocks, blocks)
        scores = scores.masked_fill(torch.eye(blocks, dtype=torch.bool, device=q.device), math.inf)
        order = scores.argsort(dim=-1, descending=True, stable=True)[..., :count]
        return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, True)


def shared_blocks(q: Any, k: Any, groups: Groups, bias: Any, count: int, scale: float) -> Any:
    """[blocks, blocks]: the blocks that have most of the attention of all groups to all groups, and its own."""
    sharing = q.shape[1] // k.shape[1]
    with torch.no_grad():
        keys = means(k, groups).repeat_interleave(sharing, 1)
        scores = torch.einsum("ahd,bhd->hab", means(q, groups), keys) * scale + bias
        masses = torch.softmax(scores, -1).mean((0, 1))
        of_blocks = masses.new_zeros(groups.blocks).index_add(0, groups.block_of_group, masses)
        best = of_blocks.argsort(descending=True, stable=True)[:count]
        seen = torch.eye(groups.blocks, dtype=torch.bool, device=q.device)
        seen[:, best] = True
        return seen


def in_order_of_blocks(places: Any) -> Any:
    """[rows]: where each stands by level, then block, group, 2x2 and place, each from the top left."""
    level, row, column = places.long().unbind(1)
    key = [level]
    for side in (BLOCK_SIDE, GROUP_SIDE, 2, 1):
        key += [row // side, column // side]
    return torch.unique(torch.stack(key, 1), dim=0, return_inverse=True)[1]


class Part(NamedTuple):
    """Keys that one softmax sees together: the rows, or the means of groups of them."""

    k: Any  # [keys, kv_heads, values]
    v: Any
    seen: Any  # [kv_heads or 1, rows, keys]: which keys a row sees; None: all
    bias: Any  # [keys], added to the scores; or None
    levels: Any  # [keys]: whose weight the bias holds; or None
    groups: Groups | None  # whose means they are; None: rows


def level_bias(places: Any, level_weights: Any) -> tuple[Any, Any]:
    """(the level of each row whose weight it has, the weight); levels beyond the last have the last's."""
    levels = places[:, 0].long().clamp(max=len(level_weights) - 1)
    return levels, level_weights[levels]


def tower_parts(q: Any, k: Any, v: Any, kind: str, places: Any, level_weights: Any, share: float, scale: float
                ) -> list[Part]:
    """What rows see: q [rows, heads, values], k and v [rows, kv_heads, values]."""
    levels, bias = (None, None) if level_weights is None else level_bias(places, level_weights)
    if kind == "dense":
        return [Part(k, v, None, bias, levels, None)]
    if kind in WINDOWS:
        radius, step = WINDOWS[kind]
        apart = (places[:, None] - places[None]).long()
        near = (apart[..., 1:] % step == 0) & (apart[..., 1:].abs() <= radius * step)
        return [Part(k, v, (near.all(-1) & (apart[..., 0] == 0))[None], bias, levels, None)]
    groups = groups_of(places)
    if kind == "strided":
        seen = (in_order_of_blocks(places) % STRIDED_KEYS == 0) | (
            groups.block_of_row[:, None] == groups.block_of_row)
        return [Part(k, v, seen[None], bias, levels, None)]
    parts = []
    size_bias = groups.sizes.to(q.dtype).log()  # a group counts as its rows do
    of_groups = None if levels is None else groups.levels.clamp(max=len(level_weights) - 1)
    if of_groups is not None:
        size_bias = size_bias + level_weights[of_groups]
    unseen = torch.ones(1, len(q), len(groups.sizes), dtype=torch.bool, device=q.device)  # what rows do not show
    if kind != "linformer":
        share = share or (0.125 if len(q) < MANY_ROWS else 0.0625)
        count = min(groups.blocks, max(1, math.ceil(share * groups.blocks)))
        if kind in BY_BLOCKS:
            best = best_blocks(q, k, groups, count)
        else:
            best = shared_blocks(q, k, groups, size_bias.detach(), count, scale)[None]
        best = best[:, groups.block_of_row]  # [kv_heads, rows, blocks]
        parts.append(Part(k, v, best[:, :, groups.block_of_row], bias, levels, None))
        unseen = ~best[:, :, groups.block_of_group]
    if kind != "top-blocks":
        parts.append(Part(means(k, groups), means(v, groups), unseen, size_bias, of_groups, groups))
    return parts


def text_parts(q: Any, k: Any, v: Any, kind: str, images: Any, share: float) -> list[Part]:
    """Causal; by "prefix" a row of an image also sees those behind it in the image."""
    at = torch.arange(len(q), device=q.device)
    limit = at + 1
    if kind == "prefix":
        for begin, end in images.tolist():
            limit = torch.where((at >= begin) & (at < end), end, limit)
    seen = (at[None] < limit[:, None])[None]  # [1, rows, keys]
    if kind not in ("dense", "prefix"):
        seen = seen & seen_tokens(q, k, kind, images, share)
    return [Part(k, v, seen, None, None, None)]


def seen_tokens(q: Any, k: Any, kind: str, images: Any, share: float) -> Any:
    """[kv_heads or 1, rows, keys]: those of the blocks that a row sees, its own and some before it."""
    block = torch.arange(len(q), device=q.device) // TOKEN_BLOCK
    apart = block[:, None] - block  # [rows, keys]
    if kind == "strided":
        return ((apart <= 1) | (block % TOKEN_STRIDE == 0))[None]
    if kind == "window":
        return ((apart < TOKEN_WINDOW) | (block == 0))[None]
    best = best_token_blocks(q, k, images, share)  # [kv_heads, rows, blocks], of those that are of images alone
    return (apart == 0)[None] | best[:, :, block]


def best_token_blocks(q: Any, k: Any, images: Any, share: float) -> Any:
    """[kv_heads, rows, blocks]: all blocks with text, and of the others before a row's own those that fit best."""
    rows, kv_heads = len(q), k.shape[1]
    blocks = -(-rows // TOKEN_BLOCK)
    at = torch.arange(rows, device=q.device)
    visual = torch.zeros(blocks * TOKEN_BLOCK, dtype=torch.bool, device=q.device)
    for begin, end in images.tolist():
        visual[begin:end] = True
    candidate = visual.view(blocks, TOKEN_BLOCK).all(1)
    before = candidate & (torch.arange(blocks, device=q.device) < (at // TOKEN_BLOCK)[:, None])  # [rows, blocks]
    with torch.no_grad():
        padded = torch.cat([k, k.new_zeros(blocks * TOKEN_BLOCK - rows, *k.shape[1:])])  # such a block is nobody's
        of_blocks = padded.unflatten(0, (blocks, TOKEN_BLOCK)).mean(1)
        queries = q.unflatten(1, (kv_heads, -1))
        scores = torch.einsum("ihsd,bhd->hibs", queries, of_blocks).amax(-1).masked_fill(~before, -math.inf)
        rank = scores.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
        count = torch.ceil((share or TOKEN_SHARE) * before.sum(-1, dtype=torch.float64))
        return ~candidate | (before & (rank < count[:, None]))


def attend(q: Any, parts: list[Part], scale: float) -> Any:
    """One softmax over the keys of all parts: [rows, heads, values]."""
    weights, _, values = _weights(q, parts, scale)
    return torch.einsum("hij,jhd->ihd", weights, values)


def attend_backward(gradient: Any, q: Any, parts: list[Part], scale: float, levels: int
                    ) -> tuple[Any, Any, Any, Any]:
    """Of q, k, v and the weights of so many levels. With P the softmax and S the scores:

    dV = P^T dO,  dP = dO V^T,  dS = P (dP - sum_j P dP),  dQ = scale dS K,  dK = scale dS^T Q
    """
    weights, keys, values = _weights(q, parts, scale)
    d_values = torch.einsum("hij,ihd->jhd", weights, gradient)
    d_weights = torch.einsum("ihd,jhd->hij", gradient, values)
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
    d_q = scale * torch.einsum("hij,jhd->ihd", d_scores, keys)
    d_keys = scale * torch.einsum("hij,ihd->jhd", d_scores, q)
    d_bias = d_scores.sum((0, 1))
    shape = (len(q), *parts[0].k.shape[1:])
    d_k, d_v = q.new_zeros(shape), q.new_zeros(shape)
    d_levels = q.new_zeros(levels)
    at = 0
    for part in parts:
        here = slice(at, at + len(part.k))
        at += len(part.k)
        of_k, of_v = (one[here].unflatten(1, (shape[1], -1)).sum(2) for one in (d_keys, d_values))
        if part.groups is not None:  # a mean passes an equal part on to each of its rows
            of_k, of_v = ((one / part.groups.sizes[:, None, None])[part.groups.of_row] for one in (of_k, of_v))
        d_k, d_v = d_k + of_k, d_v + of_v
        if part.levels is not None:
            d_levels = d_levels.index_add(0, part.levels, d_bias[here])
    return d_q, d_k, d_v, d_levels


def _weights(q: Any, parts: list[Part], scale: float) -> tuple[Any, Any, Any]:
    """(the softmax [heads, rows, keys], keys and values [keys, heads, values])."""
    sharing = q.shape[1] // parts[0].k.shape[1]
    scores = []
    for part in parts:
        score = torch.einsum("ihd,jhd->hij", q, part.k.repeat_interleave(sharing, 1)) * scale
        if part.bias is not None:
            score = score + part.bias
        if part.seen is not None:
            seen = part.seen if len(part.seen) == 1 else part.seen.repeat_interleave(sharing, 0)
            score = score.masked_fill(~seen, -math.inf)
        scores.append(score)
    keys, values = (torch.cat([one.repeat_interleave(sharing, 1) for one in all_parts])
                    for all_parts in zip(*((part.k, part.v) for part in parts)))
    return torch.softmax(torch.cat(scores, -1), -1), keys, values
