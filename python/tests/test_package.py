# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: examples, types, documentation."""

import ast
import re
import subprocess
import sys

import pytest

import fovea
from conftest import ENVIRONMENT, PROGRAM, ROOT, SCENE
from fovea import _fovea, options


def test_the_example_runs(scene, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "scene.png"
    image.fromarray(scene.pixels).save(path)
    for picture in (path, SCENE):
        run = subprocess.run([sys.executable, ROOT / "examples/ask.py", picture], text=True,
                             capture_output=True, env=ENVIRONMENT)
        assert run.returncode == 0 and run.stderr == "", run.stderr
        assert "visual tokens of" in run.stdout and "patches (" in run.stdout
    assert subprocess.run([sys.executable, ROOT / "examples/ask.py"], capture_output=True).returncode == 1


def test_types_hold(tmp_path):
    pytest.importorskip("mypy")
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path,
                          ROOT / "examples/ask.py", *(ROOT / "python/fovea").glob("*.py")],
                         text=True, capture_output=True, cwd=ROOT / "python")
    assert run.returncode == 0, run.stdout


def test_the_stub_names_what_is_there():
    tree = ast.parse((ROOT / "python/fovea/_fovea.pyi").read_text())

    def names(body):
        return {node.target.id if isinstance(node, ast.AnnAssign) else node.name for node in body
                if isinstance(node, (ast.AnnAssign, ast.ClassDef, ast.FunctionDef))}

    assert names(tree.body) == {name for name in dir(_fovea) if not name.startswith("_")}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            own = {name for name in vars(getattr(_fovea, node.name)) if not name.startswith("_")}
            assert names(node.body) == own, node.name


def test_the_documentation_names_everything():
    text = (ROOT / "docs/python.md").read_text()
    keywords = {*options.AskOptions.__annotations__, *options.SeeOptions.__annotations__,
                *options.PlanOptions.__annotations__}
    for name in [*fovea.__all__, *keywords]:
        assert re.search(rf"\b{name}\b", text), name


def test_its_python_runs(scene, tmp_path):
    """The pieces of code in docs/python.md, one after the other."""
    image = pytest.importorskip("PIL.Image")
    image.fromarray(scene.pixels).save(tmp_path / "scene.png")
    text = (ROOT / "docs/python.md").read_text()
    # Those that need more than numpy run in tests of their own, where it is installed.
    more = re.compile(r"import (torch|ray)|from (torch|ray|transformers)|fovea\.ops")
    pieces = [piece for piece in re.findall(r"```python\n(.*?)```", text, re.S) if not more.search(piece)]
    assert len(pieces) >= 4
    run = subprocess.run([sys.executable, "-c", "\n".join(pieces)], cwd=tmp_path, text=True,
                         capture_output=True, env=ENVIRONMENT)
    assert run.returncode == 0, run.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_the_names_are_those_of_the_command_line():
    for command, keywords in (("ask", options.AskOptions), ("see", options.SeeOptions)):
        told = subprocess.run([PROGRAM, command, "--help"], check=True, text=True, capture_output=True)
        flags = {flag.replace("-", "_") for flag in re.findall(r"--([a-z][a-z-]+)", told.stdout)}
        # What is said elsewhere: to Engine, by the object that comes back, or by the shell.
        elsewhere = {"model", "weights", "kernels", "memory", "device", "threads", "stats", "json", "quiet",
                     "trace_picture", "maps", "output", "help", "help_all", "version", "no_centre_bias", "seed"}
        assert flags - elsewhere <= set(keywords.__annotations__), command
