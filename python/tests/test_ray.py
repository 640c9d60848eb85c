# SPDX-License-Identifier: Apache-2.0
"""fovea.ray: by itself, and in Ray Data where Ray is installed (tools/python_suites)."""

import asyncio
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import ENVIRONMENT, PROGRAM, ROOT

import fovea
from fovea import cards
from fovea.ray import COLUMNS, Ask

EXAMPLE = ROOT / "examples/ray_batch.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five scenes, of which the third is damaged."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder = tmp_path_factory.mktemp("pictures")
    for number, pixels in enumerate(cards.generate(11, 5, width=512, height=512, cards_min=8, cards_max=8)["images"]):
        image.fromarray(pixels).save(folder / f"{number}.png")
    (folder / "2.png").write_bytes((folder / "2.png").read_bytes()[:200])
    return folder


QUESTION = "How many of the cards are stars?"


@pytest.fixture(scope="module")
def wanted(folder):
    """What the engine says by itself; None of the damaged one."""
    engine = fovea.Engine(threads=1)
    return [None if number == 2 else engine.ask(str(folder / f"{number}.png"), QUESTION, budget=96).text
            for number in range(5)]


def test_a_batch_keeps_its_order_and_tells_failures_in_a_column(folder, wanted):
    ask = Ask(question=QUESTION, threads=1, at_once=2, budget=96)
    paths = np.array([str(folder / f"{number}.png") for number in range(5)], object)
    made = asyncio.run(ask({"path": paths, "mine": np.arange(5)}))
    assert set(made) == {"path", "mine", *COLUMNS} and all(len(column) == 5 for column in made.values())
    assert [text or None for text in made["text"]] == wanted
    assert [error is None for error in made["error"]] == [True, True, False, True, True]
    assert made["error"][2] and made["finish"][2] == "" and np.isnan(made["confidence"][2])
    assert made["mine"].tolist() == [0, 1, 2, 3, 4] and made["image_tokens"][0] > 0


def test_questions_of_each_row_and_pictures_as_arrays(scene):
    ask = Ask(threads=1, pictures="pixels", budget=96)
    rows = 2
    batch = {"pixels": np.stack([scene.pixels] * rows), "question": np.array(scene.questions[:rows], object)}
    assert asyncio.run(ask(batch))["text"].tolist() == scene.answers[:rows]


def test_what_is_wrong_for_every_row_is_raised():
    with pytest.raises(fovea.InputError, match="nowhere"):
        Ask(question="?", plan="nowhere")
    with pytest.raises(fovea.InputError, match="at_once"):
        Ask(question="?", at_once=0)
    with pytest.raises(fovea.InputError, match="no column 'path'"):
        asyncio.run(Ask(question="?")({"file": np.array(["a.png"], object)}))


@pytest.fixture
def ray_example(folder, tmp_path):
    for name in ("ray", "ray.data"):
        pytest.importorskip(name, reason="Ray is not installed")
    out = tmp_path / "answers.jsonl"
    # Workers give way to everything else by default, so that they would hardly start beside a build.
    environment = dict(ENVIRONMENT, RAY_USAGE_STATS_ENABLED="0", RAY_DATA_DISABLE_PROGRESS_BARS="1", RAY_worker_niceness="0")

    def run(*flags):
        done = subprocess.run([sys.executable, EXAMPLE, folder, QUESTION, out, *map(str, flags)], text=True,
                              capture_output=True, env=environment, timeout=500)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout, [json.loads(line) for line in out.read_text().splitlines()]

    run.out = out
    return run


def check(lines, folder, wanted):
    assert [line["picture"] for line in lines] == [str(folder / f"{number}.png") for number in range(5)]
    assert [line.get("text") for line in lines] == wanted
    assert "error" in lines[2]


def test_two_nodes_answer_a_folder_and_go_on_where_they_were_stopped(ray_example, folder, wanted):
    _, lines = ray_example("--nodes", 2, "--workers", 2)
    check(lines, folder, wanted)
    # As one that was killed leaves it: two lines, and a part of the third.
    whole = ray_example.out.read_text().splitlines()
    ray_example.out.write_text("\n".join([*whole[:2], whole[2][:9]]))
    before = ray_example.out.read_text().splitlines()[:2]
    said, lines = ray_example("--workers", 2)
    assert said.split() == ["5", "pictures,", "3", "of", "them", "now"]
    check(lines, folder, wanted)
    assert ray_example.out.read_text().splitlines()[:2] == before


def test_the_http_processor_asks_a_server(ray_example, folder, wanted):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    pytest.importorskip("ray.data.llm", reason="ray.data.llm cannot be imported here", exc_type=ImportError)
    with subprocess.Popen([PROGRAM, "serve", "--port", "0", "--threads", "1"], stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ)) as server:
        try:
            url = next(found.group(0) for line in server.stderr
                       if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            _, lines = ray_example("--url", url, "--workers", 1)
            check(lines, folder, wanted)
        finally:
            server.terminate()
