#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares fovea's maps with where people looked.

FOLDER holds images/ and fixations.json: image name -> one entry a person, each with lists x, y (pixels
of the image) and ms. For every image the program writes its maps (`fovea see IMAGE --maps DIR -q`, one
pixel a cell), and for every map this prints, as mean and standard error over the images:

  NSS      the map in units of its standard deviation above its mean, at the cell of each fixation
  covered  the share of fixations inside the 10 % highest cells: exactly round(0.1 * cells) cells,
           equal ones taken in reading order

Fixations are scaled from the image to the canvas; those outside the image are left out. A map without
any contrast scores NSS 0. Needs numpy and Pillow.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

MAPS = ("information", "salience", "coupling", "relevance")


def read_fixations(people, size):
    """All people's fixations as fractions of the image, [n][2] of (x, y) in [0, 1)."""
    points = np.array([(x, y) for person in people for x, y in zip(person["x"], person["y"])], float)
    points = points.reshape(-1, 2) / size
    return points[((points >= 0) & (points < 1)).all(axis=1)]


def score(cells, points):
    """(NSS, covered) of one map for fixations given as fractions of the canvas."""
    rows, cols = cells.shape
    # The canvas is a whole number of cells, so a fraction of the canvas is a fraction of the grid.
    index = (points[:, 1] * rows).astype(int) * cols + (points[:, 0] * cols).astype(int)
    flat = cells.ravel()
    deviation = flat.std()
    nss = ((flat - flat.mean()) / deviation)[index].mean() if deviation > 0 else 0.0
    highest = np.zeros(flat.size, bool)
    highest[np.argsort(-flat, kind="stable")[: max(1, round(0.1 * flat.size))]] = True
    return nss, highest[index].mean()


def see(program, image, folder):
    """Runs the program on one image; the maps it wrote, by name."""
    done = subprocess.run([program, "see", image, "--maps", folder, "-q"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"eval_gaze: {program} see {image} failed: {done.stderr.strip()}")
    files = {name: pathlib.Path(folder) / f"{name}.png" for name in MAPS}
    return {name: np.asarray(Image.open(file)).astype(float) for name, file in files.items() if file.exists()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="images/ and fixations.json")
    parser.add_argument("--program", default="build/release/bin/fovea", help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()

    try:
        fixations = json.loads((options.folder / "fixations.json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"eval_gaze: {options.folder} has no readable fixations.json: {error}")
    results = {name: [] for name in MAPS}
    images = 0
    for name in sorted(fixations):
        image = options.folder / "images" / name
        points = read_fixations(fixations[name], Image.open(image).size)
        if len(points) == 0:
            continue
        images += 1
        with tempfile.TemporaryDirectory() as folder:
            for map_name, cells in see(options.program, str(image), folder).items():
                results[map_name].append(score(cells, points))
        if sys.stderr.isatty():
            print(f"\r{images}/{len(fixations)} images", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)

    rows = []
    for map_name, scores in results.items():
        if not scores:
            continue
        values = np.array(scores)
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=min(1, len(values) - 1)) / len(values) ** 0.5
        rows.append({"map": map_name, "n": len(values), "nss": mean[0], "nss_error": error[0],
                     "covered": mean[1], "covered_error": error[1]})
    if options.json:
        print(json.dumps({"images": images, "rows": rows}))
        return
    print(f"{'map':12} {'images':>6} {'NSS':>15} {'covered by 10 % of the cells':>30}")
    for row in rows:
        print(f"{row['map']:12} {row['n']:6} {row['nss']:7.3f} +- {row['nss_error']:.3f}"
              f" {100 * row['covered']:20.1f} +- {100 * row['covered_error']:.1f} %")


if __name__ == "__main__":
    main()
