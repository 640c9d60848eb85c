# SPDX-License-Identifier: Apache-2.0
"""Plans for a batch of scenes: which cells each sample sees, and in which blocks the tower takes them.

A plan is (cell, row, col, level), each [B, T]; `cell` counts the cells of a scene as data.to_cells puts them.
"""
import torch

from data import CARDS, FIRST_CELL, SIDE


def payload_cells(cards):
    """Which level-0 cells each card's payload lies on: [B, CARDS, 1024] of bool."""
    x0, y0, x1, y1 = (cards[..., i, None] for i in range(6, 10))
    edge = torch.arange(SIDE, device=cards.device) * 32
    rows = (y0 < edge + 32) & (y1 > edge)
    cols = (x0 < edge + 32) & (x1 > edge)
    there = (cards[..., 3] >= 0) & (x1 > x0).squeeze(-1)
    return (rows[..., :, None] & cols[..., None, :] & there[..., None, None]).flatten(2)


def cells_of(level, index):
    """Cells of one level by their row-major number [B, n]."""
    side = SIDE >> level
    levels = torch.full_like(index, level)
    return torch.stack((index + FIRST_CELL[level], index // side, index % side, levels))


def whole_level(level, batch, device):
    count = (SIDE >> level) ** 2
    return cells_of(level, torch.arange(count, device=device).expand(batch, count))


def look(scores, sizes):
    """The cells with the largest scores, best first, as looks of the given sizes, row-major within each."""
    best = scores.topk(sum(sizes), 1).indices
    return torch.cat([cells_of(0, part.sort(1).values) for part in best.split(list(sizes), 1)], 2)


def clusters(batch, device, count=3):
    """Scores that fall with the distance to a few random places, as centre and salience maps do."""
    places = torch.rand(batch, count, 2, device=device) * SIDE
    grid = torch.arange(SIDE, device=device) + 0.5
    rows = (grid[None, None] - places[..., :1]) ** 2
    cols = (grid[None, None] - places[..., 1:]) ** 2
    nearest = (rows[..., :, None] + cols[..., None, :]).amin(1).flatten(1)
    return -nearest / SIDE ** 2 + 0.01 * torch.rand(batch, SIDE * SIDE, device=device)


def random_scores(needed, payloads, shares):
    """Scores of the level-0 cells, of another kind for each sample: what the questions need first, all payloads
    first, clusters, or at random; `shares` are the likelihoods of the first three."""
    batch, device = needed.shape[0], needed.device
    kind = torch.rand(batch, 1, device=device)
    noise = torch.rand(batch, SIDE * SIDE, device=device)
    oracle = needed * 10 + payloads * torch.rand(batch, 1, device=device) + noise
    a, b, c = shares
    scores = torch.where(kind < a + b + c, clusters(batch, device), noise)
    scores = torch.where(kind < a + b, payloads * 10 + noise, scores)
    return torch.where(kind < a, oracle, scores)


def quadtree(scores, splits=(6, 4)):
    """Every place once: the best level-2 cells are split, and of their parts the best again."""
    batch = scores.shape[0]
    grid = scores.view(batch, SIDE, SIDE)
    coarse = grid.view(batch, 8, 4, 8, 4).amax((2, 4)).flatten(1)
    order = coarse.topk(64, 1).indices
    split, kept = order[:, :splits[0]], order[:, splits[0]:].sort(1).values
    row, col = (split // 8)[..., None], (split % 8)[..., None]
    part = torch.arange(4, device=scores.device)
    halves = ((row * 2 + part // 2) * 16 + col * 2 + part % 2).flatten(1)  # level-1 cells
    worth = grid.view(batch, 16, 2, 16, 2).amax((2, 4)).flatten(1).gather(1, halves)
    order = halves.gather(1, worth.topk(halves.shape[1], 1).indices)
    fine, middle = order[:, :splits[1]], order[:, splits[1]:].sort(1).values
    row, col = (fine // 16)[..., None], (fine % 16)[..., None]
    finest = ((row * 2 + part // 2) * 32 + col * 2 + part % 2).flatten(1).sort(1).values
    return torch.cat((cells_of(2, kept), cells_of(1, middle), cells_of(0, finest)), 2)


def seen_finely(plan):
    """Which level-0 cells a plan holds: [B, 1024] of bool."""
    cell, _, _, level = plan
    seen = torch.zeros(cell.shape[0], SIDE * SIDE + 1, device=cell.device)
    at = torch.where(level == 0, cell, SIDE * SIDE)
    return seen.scatter(1, at, torch.ones_like(at, dtype=seen.dtype))[:, :SIDE * SIDE] > 0


def card_of_cell(plan, cards):
    """For every cell the card whose payload's middle lies in it, and whether there is one."""
    _, row, col, level = plan
    side = (32 << level)[..., None]
    y = ((cards[..., 7] + cards[..., 9]) // 2)[:, None]
    x = ((cards[..., 6] + cards[..., 8]) // 2)[:, None]
    top, left = row[..., None] * side, col[..., None] * side
    inside = (y >= top) & (y < top + side) & (x >= left) & (x < left + side) & (cards[..., 3] >= 0)[:, None]
    assert inside.shape[-1] == CARDS
    return inside.float().argmax(-1), inside.any(-1)
