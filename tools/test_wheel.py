#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the wheel of tools/build_wheel in a fresh virtual environment and asks it a question there,
without a compiler, a network or the source tree; exits with 77, saying so, where a tool is missing.

    .venv-test/bin/python tools/test_wheel.py [--build build/release]
"""

import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCENE = ROOT / "tests/fixtures/gaze/scene.png"

ASK = """
import pathlib, sys
import fovea
from fovea import cards
made = cards.generate(7, 1, questions=4)
engine = fovea.Engine()
for question, expected in zip(made["questions"][0], made["answers"][0]):
    answer = engine.ask(made["images"][0], question, budget=96)
    assert answer.text == expected, (question, answer)
# Everything of ours comes from the environment: module, model, libraries.
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
ours = {path for path in mapped if "fovea" in path or any(f"/lib{name}" in path for name in NAMES)}
assert any("models/tiny" in path for path in ours), ours
stray = {path for path in ours if not path.startswith(str(pathlib.Path(sys.prefix).resolve()))}
assert not stray, stray
print("answered", fovea.__version__)
"""


# lmms-eval finds the package by this; it is not asked for here, so that nothing is loaded.
ENTRY_POINT = """
import importlib.metadata, importlib.util
[found] = importlib.metadata.entry_points(group="lmms_eval.models", name="fovea")
assert found.value == "fovea.lmms_eval:manifest" and found.dist.name == "fovea", found
assert "def manifest" in open(importlib.util.find_spec(found.module).origin).read(), found
print("found by lmms-eval")
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def check(condition, line):
    if not condition:
        sys.exit(f"fovea: {line}")


def make_environment(folder, wheel):
    """A virtual environment with the wheel, and a folder that holds numpy alone."""
    venv = folder / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True)
    if made.returncode:
        skip(f"no virtual environment can be made: {made.stderr.strip().splitlines()[-1:]}")
    subprocess.run([venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
                    "--no-deps", wheel], check=True, stdin=subprocess.DEVNULL)
    packages = folder / "packages"
    packages.mkdir()
    site = pathlib.Path(importlib.util.find_spec("numpy").origin).parent.parent
    for path in site.glob("numpy*"):
        (packages / path.name).symlink_to(path)
    return venv, packages


def installed_by_cmake(build, folder):
    """What `pip install ./python` puts into the package: paths below fovea, from the same build."""
    run = subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", folder],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    check(run.returncode == 0, f"cmake could not install the package:\n{run.stderr}")
    return {path.relative_to(folder).as_posix() for path in (folder / "fovea").rglob("*") if not path.is_dir()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    for module in ("ensurepip", "numpy"):
        if importlib.util.find_spec(module) is None:
            skip(f"{sys.executable} has no {module}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        built = subprocess.run([sys.executable, ROOT / "tools/build_wheel", "--build", arguments.build,
                                "-o", folder], stdout=subprocess.PIPE, text=True)
        check(built.returncode == 0, "the wheel could not be built")
        wheel = pathlib.Path(built.stdout.splitlines()[-1])
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        check(f"-{tag}-{tag}-" in wheel.name, f"{wheel.name} is not for this Python")
        repaired = "manylinux" in wheel.name
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("fovea/py.typed", "fovea/_fovea.pyi", "fovea/bin/fovea",
                     "fovea/models/tiny/config.json"):
            check(name in names, f"{wheel.name} has no {name}")

        packed = {name for name in names if name.startswith("fovea/") and not name.endswith("/")}
        installed = installed_by_cmake(arguments.build, folder / "installed")
        check(packed == installed, f"pip and build_wheel differ in {sorted(packed ^ installed)}")

        venv, packages = make_environment(folder, wheel)
        environment = {"PATH": str(venv / "bin"), "PYTHONPATH": str(packages), "HOME": str(folder),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        libraries = ["jpeg", "png", "webp", "hwy", "fmt", "freetype", "pcre2", "utf8proc"]
        code = f"NAMES = {libraries if repaired else []}\n" + ASK
        for command, expected in (
                ([venv / "bin/python", "-c", code], "answered"),
                ([venv / "bin/python", "-c", ENTRY_POINT], "found by lmms-eval"),
                ([venv / "bin/fovea", "--version"], ""),
                ([venv / "bin/fovea", "ask", SCENE, "Which code is on the red star?", "--json"], '"text"'),
                ([venv / "bin/python", "-m", "fovea", "info"], "cpu")):
            run = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True)
            check(run.returncode == 0 and expected in run.stdout,
                  f"{' '.join(map(str, command[:3]))[:200]} failed:\n{run.stdout}{run.stderr}")
        size = wheel.stat().st_size / 1e6
        print(f"{wheel.name}, {size:.0f} MB{'' if repaired else ' (with the libraries of this system)'}: "
              "installed and asked")


if __name__ == "__main__":
    main()
