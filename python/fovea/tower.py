# SPDX-License-Identifier: Apache-2.0
"""Qwen3-VL's tower and positions over the cells of plans, in torch: what fovea.transformers computes with.

At level 0 and with every cell this is, operation by operation, what transformers computes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen


class Seen(NamedTuple):
    cells: Any  # int64 [tokens, 5]: image, part, level, row, column; images in order, parts likewise
    grid: Any  # int64 [images, 3]: each canvas in level-0 patches, as image_grid_thw

    def counts(self) -> list[int]:
        """Cells of each image."""
        counts: list[int] = torch.bincount(self.cells[:, 0], minlength=len(self.grid)).tolist()
        return counts


def places(index: Any, level: Any, extent: Any) -> Any:
    """The centre of a patch (or cell) of a level in level-0 patches (or cells), of which there are `extent`:
    p 2^l + (2^l - 1) / 2, and not beyond the canvas where a cell hangs over its edge."""
    span = torch.ones_like(level) << level
    return torch.minimum(index * span + (span - 1) / 2, (extent - 1).to(torch.float32))


def patch_places(seen: Seen) -> tuple[Any, Any]:
    """([patches, 2] rows and columns, [patches, 2] the canvas of each), float32 and int64."""
    image, _, level, row, column = seen.cells.unbind(1)
    inner = torch.arange(4, device=row.device)
    rows = (2 * row[:, None] + inner // 2).flatten()
    columns = (2 * column[:, None] + inner % 2).flatten()
    level = level.repeat_interleave(4)
    extent = seen.grid[image.repeat_interleave(4)][:, 1:]
    place = torch.stack([places(rows, level, extent[:, 0]), places(columns, level, extent[:, 1])], 1)
    return place, extent


def learned_positions(visual: Any, place: Any, extent: Any) -> Any:
    """The table of positions, stretched over the canvas and read between its entries."""
    side = visual.num_grid_per_side
    taps, weights = [], []
    for axis in (0, 1):
        at = place[:, axis] * (side - 1) / torch.clamp(extent[:, axis] - 1, min=1)
        floor = torch.floor(at)
        offsets = torch.arange(2, device=at.device)
        taps.append((floor.long()[:, None] + offsets).clamp(0, side - 1))
        weights.append((1 - (at[:, None] - floor[:, None] - offsets).abs()).clamp(min=0))
    index = (taps[0][:, :, None] * side + taps[1][:, None, :]).reshape(-1, 4)
    weight = (weights[0][:, :, None] * weights[1][:, None, :]).reshape(-1, 4)
    return (visual.pos_embed(index) * weight[:, :, None]).sum(1)


def segments(seen: Seen) -> list[tuple[int, int, int]]:
    """(first key, first query, end) of each part, in patches: a part sees itself and what its image has before
    it, as a look sees its glance."""
    found: list[tuple[int, int, int]] = []
    number, first_key, begin = 0, 0, 0
    runs, lengths = torch.unique_consecutive(seen.cells[:, :2], dim=0, return_counts=True)
    for (image, _), length in zip(runs.tolist(), lengths.tolist()):
        if image != number:
            number, first_key = image, begin
        found.append((first_key, begin, begin + 4 * length))
        begin += 4 * length
    return found


def attend(attention: Any, x: Any, angles: tuple[Any, Any], parts: list[tuple[int, int, int]]) -> Any:
    length = x.shape[0]
    q, k, v = attention.qkv(x).reshape(length, 3, attention.num_heads, -1).permute(1, 0, 2, 3).unbind(0)
    q, k = qwen.apply_rotary_pos_emb_vision(q, k, *angles)
    q, k, v = (one.transpose(0, 1)[None] for one in (q, k, v))
    seen = [functional.scaled_dot_product_attention(q[:, :, begin:end], k[:, :, key:end], v[:, :, key:end],
                                                    scale=attention.scaling) for key, begin, end in parts]
    return attention.proj(torch.cat(seen, 2).transpose(1, 2).reshape(length, -1))


def encode_cells(visual: Any, values: Any, seen: Seen, levels: Any = None) -> tuple[Any, Any, list[Any]]:
    """values [4 * cells, 1536] -> (the last hidden state, a token for each cell, those of the deepstack taps).

    levels  [n, hidden]: what is added to the patches of level 0, 1, ..., its last row to all beyond; or None
    """
    place, extent = patch_places(seen)
    x = visual.patch_embed(values)
    x = x + learned_positions(visual, place, extent).to(x.dtype)
    if levels is not None:
        x = x + levels.to(x)[seen.cells[:, 2].clamp(max=len(levels) - 1).repeat_interleave(4)]
    angles = visual.rotary_pos_emb(x, place)
    parts = segments(seen)
    taps = []
    for number, block in enumerate(visual.blocks):
        x = x + attend(block.attn, block.norm1(x), angles, parts)
        x = x + block.mlp(block.norm2(x))
        if number in visual.deepstack_visual_indexes:
            taps.append(visual.deepstack_merger_list[visual.deepstack_visual_indexes.index(number)](x))
    return x, visual.merger(x), taps


def token_positions(is_image: Any, seen: Seen, attention_mask: Any = None) -> tuple[Any, Any]:
    """M-RoPE: (positions [3, batch, length], how much further than its length each sequence has come).

    A cell stands at its centre in level-0 cells; text goes on behind the whole canvas, so that a plan's size moves
    nothing after it. Float32, since centres of coarse cells lie between whole numbers.
    """
    batch, length = is_image.shape
    positions = torch.zeros(3, batch, length, device=is_image.device)
    deltas = []
    counts, image, at = seen.counts(), 0, 0
    kept = torch.ones_like(is_image) if attention_mask is None else attention_mask.bool()
    for sequence in range(batch):
        flags = is_image[sequence][kept[sequence]]
        made: list[Any] = []
        done, next_position = 0, 0
        while done < len(flags):
            if flags[done]:
                _, _, level, row, column = seen.cells[at:at + counts[image]].unbind(1)
                rows, columns = seen.grid[image][1] // 2, seen.grid[image][2] // 2
                made.append(next_position + torch.stack(
                    [torch.zeros(len(row), device=row.device), places(row, level, rows), places(column, level, columns)]))
                done, at = done + counts[image], at + counts[image]
                next_position += int(max(rows, columns))
                image += 1
            else:
                text = 0
                while done + text < len(flags) and not flags[done + text]:
                    text += 1
                made.append(torch.arange(text, device=flags.device).expand(3, -1) + float(next_position))
                done, next_position = done + text, next_position + text
        positions[:, sequence, kept[sequence]] = torch.cat(made, 1)
        deltas.append(next_position - len(flags))
    return positions, torch.tensor(deltas, device=is_image.device)[:, None]
