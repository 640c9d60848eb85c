# SPDX-License-Identifier: Apache-2.0
"""Attention "level-sum" and its gradients in plain torch, beside the kinds of one softmax in attention_reference.py.

    out = w[0] attend(rows of the best blocks) + w[1] attend(means of groups of the better blocks)
        + w[2] attend(means of all blocks),                                     each with a softmax of its own
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fovea.attention_reference import MANY_ROWS, Groups, Part, attend, attend_backward, best_blocks, groups_of, means

KIND = "level-sum"
LEVELS = 3  # fine, medium, coarse
MEDIUM_OF_FINE = 2.5


def _by_blocks(places: Any, groups: Groups) -> Groups:
    """Blocks as groups."""
    of_row, device = groups.block_of_row, places.device
    levels = torch.zeros(groups.blocks, dtype=torch.long, device=device)
    levels[of_row] = places[:, 0].long()
    return Groups(of_row, torch.bincount(of_row, minlength=groups.blocks), levels, of_row,
                  torch.arange(groups.blocks, device=device), groups.blocks)


def levels_of(q: Any, k: Any, v: Any, places: Any, level_weights: Any, share: float) -> list[Part]:
    """Fine, medium, coarse: what each softmax sees."""
    groups = groups_of(places)
    share = share or (0.125 if len(q) < MANY_ROWS else 0.0625)
    count = max(1, math.ceil(share * groups.blocks))

    def best(blocks: int) -> Any:  # [kv_heads, rows, blocks]
        return best_blocks(q, k, groups, min(groups.blocks, blocks))[:, groups.block_of_row]

    def part(keys: Any, values: Any, seen: Any, levels: Any, sizes: Any, of: Groups | None) -> Part:
        bias = sizes.to(q.dtype).log()  # a mean counts as its rows do
        if level_weights is None:
            return Part(keys, values, seen, bias, None, of)
        levels = levels.long().clamp(max=len(level_weights) - 1)
        return Part(keys, values, seen, bias + level_weights[levels], levels, of)

    def mean_part(of: Groups, seen: Any) -> Part:
        return part(means(k, of), means(v, of), seen, of.levels, of.sizes, of)

    return [part(k, v, best(count)[:, :, groups.block_of_row], places[:, 0], torch.ones_like(places[:, 0]), None),
            mean_part(groups, best(math.ceil(MEDIUM_OF_FINE * count))[:, :, groups.block_of_group]),
            mean_part(_by_blocks(places, groups), None)]


def _weights_or_thirds(q: Any, sum_weights: Any) -> Any:
    return q.new_full((LEVELS,), 1 / LEVELS) if sum_weights is None else sum_weights.to(q.dtype)


def attend_to_levels(q: Any, k: Any, v: Any, places: Any, level_weights: Any, sum_weights: Any, share: float,
                     scale: float) -> Any:
    """[rows, heads, values]"""
    levels = levels_of(q, k, v, places, level_weights, share)
    out = torch.zeros_like(q)
    for weight, level in zip(_weights_or_thirds(q, sum_weights), levels):
        out = out + weight * attend(q, [level], scale)
    return out


def attend_to_levels_backward(gradient: Any, q: Any, k: Any, v: Any, places: Any, level_weights: Any,
                              sum_weights: Any, share: float, scale: float) -> list[Any]:
    """Of q, k, v, then of the weights that were given: of levels, of the sum."""
    biases = 0 if level_weights is None else len(level_weights)
    made = [torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), q.new_zeros(biases)]
    of_sum = []
    for weight, level in zip(_weights_or_thirds(q, sum_weights), levels_of(q, k, v, places, level_weights, share)):
        found = attend_backward(weight * gradient, q, [level], scale, biases)
        made = [one + more for one, more in zip(made, found)]
        of_sum.append((gradient * attend(q, [level], scale)).sum())
    made = made if level_weights is not None else made[:3]
    return made if sum_weights is None else [*made, torch.stack(of_sum)]
