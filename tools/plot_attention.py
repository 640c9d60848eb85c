#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/attention.svg from what the bench of attention measured:

    build/release/bin/fovea bench attention --json > rows.json
    tools/plot_attention.py rows.json -o docs/attention.svg

Left: milliseconds over the number of patches, both on a logarithmic scale, a line for each kind. Right: how far
a kind is from dense attention in f64 (RMSE) over the share of keys that it computes, at the largest length.
Rows other than attention/PATCHES/KIND are left out. Needs nothing but Python.
"""
import argparse
import json
import math
import re
import sys
from xml.sax.saxutils import escape

NAME = re.compile(r"attention/(\d+)/(.+)")
NOTE = re.compile(r"([\d.]+) % of the keys.*RMSE ([\d.]+)")
COLOURS = ["#000000", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#7f3c8d", "#a5aa99",
           "#666666", "#b38600", "#80ba5a"]
WIDTH, HEIGHT, MARGIN, GAP, LEGEND = 380, 300, 56, 60, 120


def read_rows(text):
    """{kind: [(patches, ms, share of keys in %, RMSE)]}, by patches; kinds in the order of the bench."""
    kinds = {}
    for row in json.loads(text)["rows"]:
        name, note = NAME.fullmatch(row["name"]), NOTE.search(row.get("note", ""))
        if name and note and row["value"] > 0:
            kinds.setdefault(name[2], []).append(
                (int(name[1]), float(row["value"]), float(note[1]), float(note[2])))
    if not kinds:
        raise ValueError("no rows of attention/PATCHES/KIND in it; give what `fovea bench attention --json` prints")
    return {kind: sorted(points) for kind, points in kinds.items()}


class Panel:
    """A frame with its axes; a scale is 'log' or 'linear'."""

    def __init__(self, left, xs, ys, x_scale, y_scale):
        self.left, self.scales = left, (x_scale, y_scale)
        self.ranges = [self.range_of(values, scale) for values, scale in ((xs, x_scale), (ys, y_scale))]

    @staticmethod
    def range_of(values, scale):
        if scale == "log":
            least, most = min(values), max(values)
            return (least / 1.3, most * 1.3)
        return (0, max(max(values) * 1.08, 1e-9))

    def share(self, axis, value):
        least, most = self.ranges[axis]
        if self.scales[axis] == "log":
            return math.log(value / least) / math.log(most / least)
        return (value - least) / (most - least)

    def at(self, x, y):
        return (self.left + self.share(0, x) * WIDTH, MARGIN + (1 - self.share(1, y)) * HEIGHT)

    def ticks(self, axis):
        least, most = self.ranges[axis]
        if self.scales[axis] == "log":
            powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
            every = [m * 10.0**p for p in powers for m in (1, 2, 5)]
            return [tick for tick in every if least <= tick <= most]
        step = 10.0 ** math.floor(math.log10(most))
        step = next(s for s in (step / 5, step / 2, step) if most / s <= 8)
        return [i * step for i in range(int(most / step) + 1)]

    def frame(self, x_ticks, x_words, y_words):
        out = [f'<rect x="{self.left}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
        for tick in x_ticks:
            x = self.at(tick, self.ranges[1][1])[0]
            out.append(f'<line x1="{x:.1f}" y1="{MARGIN}" x2="{x:.1f}" y2="{MARGIN + HEIGHT}" stroke="#eee"/>')
            out.append(label(x, MARGIN + HEIGHT + 16, f"{tick:,g}", "middle"))
        for tick in self.ticks(1):
            y = self.at(self.ranges[0][1], tick)[1]
            out.append(f'<line x1="{self.left}" y1="{y:.1f}" x2="{self.left + WIDTH}" y2="{y:.1f}" stroke="#eee"/>')
            out.append(label(self.left - 6, y + 4, f"{tick:g}", "end"))
        out.append(label(self.left + WIDTH / 2, MARGIN + HEIGHT + 36, x_words, "middle"))
        out.append(label(self.left, MARGIN - 10, y_words, "start"))
        return out


def label(x, y, words, anchor, colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def dot(x, y, colour):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def draw(kinds):
    colours = {kind: COLOURS[i % len(COLOURS)] for i, kind in enumerate(kinds)}
    lengths = sorted({point[0] for points in kinds.values() for point in points})
    times = [point[1] for points in kinds.values() for point in points]
    time = Panel(MARGIN, lengths, times, "log", "log")
    out = time.frame(lengths, "patches", "milliseconds")
    for kind, points in kinds.items():
        places = [time.at(point[0], point[1]) for point in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colours[kind]}" stroke-width="1.5"/>')
        out += [dot(x, y, colours[kind]) for x, y in places]
    last = {kind: points[-1] for kind, points in kinds.items() if points[-1][0] == lengths[-1]}
    error = Panel(MARGIN + WIDTH + GAP, [point[2] for point in last.values()],
                  [point[3] for point in last.values()], "log", "linear")
    out += error.frame(error.ticks(0), f"% of the keys, {lengths[-1]:,} patches", "RMSE of dense attention in f64")
    for kind, point in last.items():
        out.append(dot(*error.at(point[2], point[3]), colours[kind]))
    left = MARGIN + 2 * WIDTH + GAP + 16
    for i, kind in enumerate(kinds):
        out += [dot(left, MARGIN + 10 + 18 * i, colours[kind]), label(left + 9, MARGIN + 14 + 18 * i, kind, "start")]
    width, height = left + LEGEND, MARGIN + HEIGHT + 50
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", help="the bench's JSON; - reads stdin")
    parser.add_argument("-o", "--out", required=True, help="the picture, SVG")
    args = parser.parse_args()
    try:
        text = sys.stdin.read() if args.rows == "-" else open(args.rows, encoding="utf-8").read()
        picture = draw(read_rows(text))
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(picture)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"cannot draw {args.rows}: {error}")


if __name__ == "__main__":
    main()
