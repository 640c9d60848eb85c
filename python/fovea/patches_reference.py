# SPDX-License-Identifier: Apache-2.0
"""The pyramid and patches in plain torch, for tensors on a GPU: bit for bit what the engine makes on a CPU.

All of it runs on the stream that torch works on. docs/python.md says what the values are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

CELL_PX, PATCH_PX, FRAMES = 32, 16, 2
LEAST_PIXELS, MOST_RATIO = 65536, 200  # of a canvas, and of its sides


def pyramid(canvas: Any, levels: int) -> list[Any]:
    """uint8 [height, width, 3] -> its levels: means of 2x2, rounded half up; beyond an edge the last pixel repeats."""
    made = [canvas.clone()]
    while len(made) < levels:
        fine = made[-1].to(torch.int16)
        if fine.shape[0] % 2:
            fine = torch.cat([fine, fine[-1:]])
        if fine.shape[1] % 2:
            fine = torch.cat([fine, fine[:, -1:]], 1)
        total = fine[::2, ::2] + fine[::2, 1::2] + fine[1::2, ::2] + fine[1::2, 1::2]
        made.append(((total + 2) >> 2).to(torch.uint8))
    return made


def is_canvas(image: Any) -> bool:
    """Whether an image needs no resizing: its sides are multiples of a cell's, and it is large enough."""
    height, width = int(image.shape[0]), int(image.shape[1])
    whole = height % CELL_PX == 0 and width % CELL_PX == 0
    return whole and height * width >= LEAST_PIXELS and max(height, width) <= MOST_RATIO * min(height, width)


def patches(canvas: Any, cells: Any) -> Any:
    """uint8 [height, width, 3] and cells int32 [n, 3], coarse first, on its grids -> float32 [4 n, 1536].

    `cells` lie on the CPU: what they are was checked there.
    """
    coarsest = int(cells[:, 0].max())
    levels = pyramid(canvas, coarsest + 1)
    made = []
    for level in range(coarsest, -1, -1):
        corners = cells[cells[:, 0] == level, 1:].long().to(canvas.device) * CELL_PX
        if len(corners):
            made.append(_pixels(levels[level], corners))
    pixels = torch.cat(made).unflatten(1, (2, PATCH_PX)).unflatten(3, (2, PATCH_PX))  # [n, 2, 16, 2, 16, 3]
    pixels = pixels.permute(0, 1, 3, 5, 2, 4)[:, :, :, :, None].expand(-1, -1, -1, -1, FRAMES, -1, -1)
    # A table, since a GPU may divide by multiplying with what is nearly 1 / 255.
    return _normalised().to(canvas.device)[pixels.int()].reshape(4 * len(cells), -1)


def _pixels(level: Any, corners: Any) -> Any:
    """[n, 32, 32, 3]: those of cells whose corners are given; beyond the level's edge the last repeats."""
    steps = torch.arange(CELL_PX, device=level.device)
    rows = (corners[:, :1] + steps).clamp(max=level.shape[0] - 1)
    columns = (corners[:, 1:] + steps).clamp(max=level.shape[1] - 1)
    return level[rows[:, :, None], columns[:, None, :]]


def _normalised() -> Any:
    """What a tower reads for each value of a pixel: (value / 255 - 0.5) / 0.5, each step rounded to float32."""
    values = np.arange(256, dtype=np.float32) / np.float32(255)
    return torch.from_numpy((values - np.float32(0.5)) / np.float32(0.5))
