# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes that real plans move, level by level, for the seeds' three savings of 61, 90 and 83 %.

Sampled: a cell is 32 x 32 pixels of 3 bytes, whatever its level, so a plan reads 3,072 bytes a cell and the dense path
3,072 for each level-0 cell of the canvas. This is all that the seeds count, and it is one minus the share of tokens:
chosen with the budget, not found.

Whole front end: what the seeds leave out. The levels are made from every pixel (level 0 read once, every level up to
the plan's coarsest written once), relevance reads every pixel of level 0 once more, each cell's pixels are read once
and its four patches written once as bf16 (6,144 bytes; a still picture's frame is stored once). The dense path reads
every pixel once and writes the patches of every level-0 cell. Caches are left out on both sides: this counts what the
kernels touch. Where the levels stay in the second-level cache the memory sees less of it, on both sides.

Area: the share of the canvas that cells of each level cover, to be compared with the shares that the seeds assume. A
glance and its look cover some places twice.
"""
import json
import subprocess
import tempfile
import zlib
from pathlib import Path

CELL_PX, CELL_BYTES, CELL_PATCH_BYTES = 32, 32 * 32 * 3, 4 * 768 * 2
THRESHOLDS = (0.8, 0.5, 0.2)  # level 0 above the first, then 1, 2, else 3

# What the seeds assume: share of all places at level 0, 1, ..; and the maker whose plans are of that kind.
CLAIMS = [
    {"percent": 61, "maker": "quadtree", "area": [0.10, 0.30, 0.60],
     "said": "10 % of the places at level 0, 30 % at level 1, 60 % at level 2"},
    {"percent": 90, "maker": "glance+look", "area": [0.10, 0, 0.25, 0, 1],
     "said": "level 4 whole, a quarter of level 2, a tenth of level 0"},
    {"percent": 83, "maker": "thresholds", "area": [0.08, 0.22, 0.45, 0.25],
     "said": "8, 22, 45 and 25 % of the places at levels 0 to 3"},
]
HEADLINE = {"percent": None, "maker": "quadtree", "share": 68 / 1024, "said": "68 of 1,024 tokens"}


def share_of(area):
    """Tokens as a share of level 0's: a cell of level l covers 4^l of them."""
    return sum(part / 4 ** level for level, part in enumerate(area))


def level_bytes(canvas, level):
    width, height = (-(-side // 2 ** level) for side in canvas)
    return width * height * 3


def count(plan):
    """Bytes and areas of one plan, as `fovea see --json` writes it."""
    canvas, cells = plan["canvas"], plan["cells"]
    levels = max(cell[0] for cell in cells) + 1
    cols, rows = (side // CELL_PX for side in canvas)
    by_level, area = [0] * levels, [0] * levels
    for level, row, col in cells:
        side = 2 ** level
        by_level[level] += 1
        area[level] += (min(rows, (row + 1) * side) - row * side) * (min(cols, (col + 1) * side) - col * side)
    dense = level_bytes(canvas, 0)
    built = dense + sum(level_bytes(canvas, level) for level in range(1, levels)) if levels > 1 else 0
    scored = 0 if plan["plan"] in ("uniform", "cortical") else dense
    written = len(cells) * CELL_PATCH_BYTES
    return {"maker": plan["plan"], "budget": plan["budget"], "tokens": len(cells), "tokens_full": rows * cols,
            "canvas": canvas, "cells_by_level": by_level, "area": [part / (rows * cols) for part in area],
            "dense_sampled": dense, "sampled": len(cells) * CELL_BYTES,
            "dense_front_end": dense + rows * cols * CELL_PATCH_BYTES,
            "front_end": built + scored + len(cells) * CELL_BYTES + written}


def read_gray16(data):
    """The rows of a 16-bit grey PNG without interlacing, as `fovea see --maps` writes them."""
    at, packed = 8, b""
    width = height = 0
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            if tuple(body[8:]) != (16, 0, 0, 0, 0):
                raise ValueError(f"not a 16-bit grey PNG: {tuple(body[8:])}")
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    raw, rows, before = zlib.decompress(packed), [], bytearray(2 * width)
    for y in range(height):
        line = raw[y * (2 * width + 1):(y + 1) * (2 * width + 1)]
        before = unfilter(line[0], bytearray(line[1:]), before)
        rows.append([before[2 * x] << 8 | before[2 * x + 1] for x in range(width)])
    return rows


def unfilter(kind, line, before):
    """One row of PNG's five filters; a pixel is two bytes."""
    for i in range(len(line)):
        left = line[i - 2] if i >= 2 else 0
        above, corner = before[i], before[i - 2] if i >= 2 else 0
        guess = left + above - corner
        nearest = min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))[2]
        line[i] = (line[i] + (0, left, above, (left + above) // 2, nearest)[kind]) & 255
    return line


def threshold_shares(rows):
    """Share of level-0 cells that the seeds' thresholds send to levels 0 to 3, without a budget."""
    levels, cells = [0] * 4, 0
    for score in (value / 65535 for row in rows for value in row):
        levels[next((level for level, least in enumerate(THRESHOLDS) if score > least), 3)] += 1
        cells += 1
    return [part / cells for part in levels]


def see(program, photo, maker, budget, maps=None):
    command = [program, "see", photo, "--plan", maker, "--budget", str(budget), "--json", "-", "-q"]
    command += ["--maps", maps] if maps else []
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def plans_of(program, photos):
    """Runs `fovea see` on every photo for every claim. -> {"plans": [...], "thresholds": [...]}"""
    found = {"plans": [], "thresholds": []}
    for photo in photos:
        with tempfile.TemporaryDirectory() as maps:
            full = see(program, photo, "quadtree", 1, maps)["tokens_full"]
            shares = threshold_shares(read_gray16((Path(maps) / "relevance.png").read_bytes()))
        found["thresholds"].append({"photo": photo.name, "shares": shares})
        for claim in [*CLAIMS, HEADLINE]:
            share = claim.get("share") or share_of(claim["area"])
            plan = see(program, photo, claim["maker"], max(1, round(share * full)))
            found["plans"].append(dict(count(plan), photo=photo.name, said=claim["said"]))
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def table(found):
    """Markdown: what was claimed against what the plans of the photographs move, means over photographs."""
    lines = ["| the seeds' case | claimed | its own areas give | real plans | area at level 0, 1, 2, .. "
             "| sampled bytes saved | front end's bytes saved |", "|---|---|---|---|---|---|---|"]
    for claim in [*CLAIMS, HEADLINE]:
        plans = [plan for plan in found["plans"] if plan["said"] == claim["said"]]
        if not plans:
            continue
        levels = max(len(plan["area"]) for plan in plans)
        area = [mean((plan["area"] + [0] * levels)[level] for plan in plans) for level in range(levels)]
        claimed = f"{claim['percent']} %" if claim["percent"] else ""
        own = f"{100 * (1 - share_of(claim['area'])):.0f} %" if "area" in claim else ""
        tokens = mean(plan["tokens"] / plan["tokens_full"] for plan in plans)
        sampled = 1 - mean(plan["sampled"] / plan["dense_sampled"] for plan in plans)
        whole = 1 - mean(plan["front_end"] / plan["dense_front_end"] for plan in plans)
        lines.append(f"| {claim['said']} | {claimed} | {own} | {claim['maker']}, {100 * tokens:.1f} % of the tokens | "
                     + ", ".join(f"{100 * part:.0f}" for part in area)
                     + f" % | {100 * sampled:.0f} % | {100 * whole:.0f} % |")
    return lines


def threshold_line(found):
    """What fixed thresholds choose by themselves, without a budget."""
    shares = [mean(one["shares"][level] for one in found["thresholds"]) for level in range(4)]
    saved = [100 * (1 - share_of(one["shares"])) for one in found["thresholds"]]
    return (f"Thresholds of 0.8, 0.5 and 0.2 on the relevance of {len(saved)} photographs, without a budget, send "
            + ", ".join(f"{100 * share:.0f}" for share in shares) + " % of the places to levels 0 to 3 (the seeds: "
            f"8, 22, 45, 25): {mean(saved):.0f} % of the sampled bytes saved, {min(saved):.0f} to {max(saved):.0f} by "
            "photograph.")
