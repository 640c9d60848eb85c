# SPDX-License-Identifier: Apache-2.0
import os
import pathlib

import pytest

import fovea
from fovea import cards

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENE = ROOT / "tests/fixtures/gaze/scene.png"  # 288 x 160 px
PACKAGES = pathlib.Path(fovea.__file__).absolute().parents[1]
PROGRAM = PACKAGES.parent / "bin/fovea"  # of the same build
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(PACKAGES))  # for a Python in another folder
# An answer that goes on until somebody ends it, or for seconds.
LONG = {"max_tokens": 7000, "ignore_end": True}


class Scene:
    """A picture that the embedded model knows how to read, with questions and their answers."""

    def __init__(self):
        made = cards.generate(7, 1, questions=8)
        self.pixels = made["images"][0]
        self.questions, self.answers = made["questions"][0], made["answers"][0]
        self.question, self.answer = self.questions[0], self.answers[0]


@pytest.fixture(scope="session")
def engine():
    return fovea.Engine()


@pytest.fixture(scope="session")
def scene():
    return Scene()
