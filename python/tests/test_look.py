# SPDX-License-Identifier: Apache-2.0
"""Looking without a model: see, plan, patches."""

import json
import subprocess

import numpy as np
import pytest

import fovea
from conftest import PROGRAM, SCENE

NOISE = np.random.default_rng(3).integers(0, 256, (256, 320, 3), np.uint8)


def patches_by_hand(canvas, cells):
    """[4 * cells, 1536] in plain numpy, and their positions: the specification."""
    levels = [canvas.astype(np.int64)]
    while min(levels[-1].shape[:2]) > 1:
        last = levels[-1]
        last = np.pad(last, ((0, last.shape[0] % 2), (0, last.shape[1] % 2), (0, 0)), "edge")
        levels.append((last[::2, ::2] + last[1::2, ::2] + last[::2, 1::2] + last[1::2, 1::2] + 2) // 4)
    values, positions = [], []
    for level, row, col in cells:
        pixels = levels[level][row * 32:row * 32 + 32, col * 32:col * 32 + 32]
        pixels = np.pad(pixels, ((0, 32 - pixels.shape[0]), (0, 32 - pixels.shape[1]), (0, 0)), "edge")
        for y in (0, 1):
            for x in (0, 1):
                patch = pixels[y * 16:y * 16 + 16, x * 16:x * 16 + 16].astype(np.float32)
                patch = ((patch / np.float32(255) - np.float32(0.5)) / np.float32(0.5)).transpose(2, 0, 1)
                values.append(np.stack([patch, patch], axis=1).ravel())
                span = 1 << level
                positions.append([min((row * 2 + y) * span + (span - 1) / 2, canvas.shape[0] // 16 - 1),
                                  min((col * 2 + x) * span + (span - 1) / 2, canvas.shape[1] // 16 - 1)])
    return np.array(values), np.array(positions, np.float32)


@pytest.mark.parametrize("kind", [kind.name for kind in fovea.plan_kinds()])
def test_patches_are_those_of_the_plan(kind):
    made = fovea.patches(NOISE, plan=kind, budget=24)
    assert made.plan.maker == kind and 0 < made.plan.tokens <= 24
    values, positions = patches_by_hand(NOISE, made.plan.cells.tolist())
    assert np.array_equal(made.values, values) and np.array_equal(made.positions, positions)
    assert np.array_equal(made.levels, np.repeat(made.plan.cells[:, 0], 4))
    assert made.grid_thw == (1, 16, 20) and made.canvas == made.image == (320, 256)
    assert np.array_equal(fovea.plan(NOISE, plan=kind, budget=24).cells, made.plan.cells)
    assert np.array_equal(fovea.see(NOISE, plan=kind, budget=24, draw=False).cells, made.plan.cells)


def test_uniform_is_every_cell():
    made = fovea.patches(NOISE, plan="uniform")
    assert made.values.shape == (320, 1536) and made.values.dtype == np.float32
    assert np.array_equal(made.values, patches_by_hand(NOISE, made.plan.cells.tolist())[0])
    assert made.plan.budget == 0 and (made.levels == 0).all()
    # Neither the number of threads nor the way the plan came changes a bit.
    for other in (fovea.patches(NOISE, plan="uniform", threads=1), fovea.patches(NOISE, plan=made.plan)):
        assert np.array_equal(other.values, made.values)
    assert np.from_dlpack(made.values).shape == made.values.shape
    small = fovea.patches(np.zeros((40, 50, 3), np.uint8), plan="uniform")
    assert small.canvas == (288, 256) and small.image == (50, 40)


def test_given_plans():
    cells = np.array([[0, 2, 3], [2, 0, 1], [1, 1, 1]])
    made = fovea.patches(NOISE, plan=cells)
    assert made.plan.cells.tolist() == [[2, 0, 1], [1, 1, 1], [0, 2, 3]]  # in the order of a plan
    assert np.array_equal(made.values, patches_by_hand(NOISE, made.plan.cells.tolist())[0])
    assert fovea.plan(NOISE, plan=cells).maker == "given"
    for wrong, line in (([[0, 0, 0], [0, 0, 0]], "twice"), ([[0, 8, 0]], "not on the canvas"),
                        ([[30, 0, 0]], "not on the canvas"), (cells * 1.0, "whole"), (cells[:0], "no cells"),
                        (fovea.Plan(cells, canvas=(32, 32)), "canvas"), (-cells, "below 0")):
        with pytest.raises(fovea.InputError, match=line):
            fovea.patches(NOISE, plan=wrong)
    with pytest.raises(fovea.InputError, match="budget"):
        fovea.patches(NOISE, plan=cells, budget=2)
    for word, value in {"fixation": (9, 9), "coupling": np.ones((2, 2)), "balance": "mean",
                        "centre_bias": False}.items():
        with pytest.raises(fovea.InputError, match=f"{word} goes with plan makers"):
            fovea.patches(NOISE, plan=cells, **{word: value})


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_it_sees_what_the_program_sees():
    told = json.loads(subprocess.run([PROGRAM, "see", SCENE, "--budget", "40", "--json", "-", "-q"],
                                     check=True, capture_output=True).stdout)
    sight = fovea.see(SCENE, budget=40)
    assert sight.cells.tolist() == told["cells"] and list(sight.canvas) == told["canvas"]
    assert sight.patch_bytes == told["patch_bytes"] and sight.tokens_full == told["tokens_full"]
    assert sight.picture.ndim == 3 and fovea.see(SCENE, draw=False).picture is None


def test_what_a_sight_holds():
    sight = fovea.see(NOISE, fixation=[(10, 20), (300, 200)], plan="cortical", budget=30,
                      question="What?", balance="sum", centre_bias=False, threads=1, device="cpu")
    assert sight.fixations.tolist() == [[10, 20], [300, 200]]
    for name in ("information", "salience", "coupling", "relevance"):
        assert getattr(sight, name).shape == (8, 10) and getattr(sight, name).dtype == np.uint16
    assert "relevance" in sight.times and "cortical" in repr(sight)
    there = np.zeros((4, 5))
    there[3, 4] = 1
    fine = fovea.plan(NOISE, coupling=there, balance="coupling", plan="glance+look", budget=40).cells
    assert [0, 7, 9] in fine.tolist()


def test_maps_from_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "map.png"
    image.fromarray(np.array([[0, 255]], np.uint8)).save(path)
    assert fovea.load_map(path).tolist() == [[0, 65535]]
    assert fovea.see(NOISE, coupling=path).coupling.max() > 0


def test_wrong_options():
    for wrong in ({"plan": "spiral"}, {"budget": 0}, {"fixation": (999, 0)}, {"balance": "x"},
                  {"device": "abacus"}, {"threads": -1}, {"threads": 10**6}):
        with pytest.raises(fovea.InputError):
            fovea.see(NOISE, **wrong)
    for wrong in ({"looks": 2}, {"plan": 3}, {"fixation": 3}, {"fixation": [(1, 2, 3)]}):
        with pytest.raises(TypeError):
            fovea.see(NOISE, **wrong)


def test_the_machine():
    assert fovea.devices()[0].name == "cpu" and fovea.__version__ == fovea.version()
    assert {"uniform", "quadtree", "glance+look"} <= {kind.name for kind in fovea.plan_kinds()}
