#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/soak_server takes for a loss, by outcomes and samples that are made up."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import random
import sys
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))
loader = importlib.machinery.SourceFileLoader("soak_server", str(TOOLS / "soak_server"))
soak = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(soak)
from soak_questions import CHAT, RESPONSES, Questions, second_turn, why_wrong  # noqa: E402


def wrongs(work, *arguments):
    """(what work gave, how many complaints there were)"""
    soak.wrong.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        given = work(*arguments)
    return given, len(soak.wrong)


def outcome(sent_at, answered_at, status, text=b""):
    return sent_at, answered_at, CHAT, {"stream": True}, status, text


class Drains(unittest.TestCase):
    def test_503_is_an_answer_from_the_signal_on_alone(self):
        self.assertEqual(wrongs(soak.judge_drain, outcome(9, 10.1, 503), 10), ("told to come again", 0))
        self.assertEqual(wrongs(soak.judge_drain, outcome(8, 9.9, 503), 10), (None, 1))

    def test_429_never_is_one(self):
        self.assertEqual(wrongs(soak.judge_drain, outcome(9, 10.1, 429), 10), (None, 1))

    def test_what_was_sent_before_the_signal_is_answered_whole(self):
        self.assertEqual(wrongs(soak.judge_drain, outcome(9, 11, 200, b"data: [DONE]\n\n"), 10), ("answered", 0))
        self.assertEqual(wrongs(soak.judge_drain, outcome(9, 11, 200, b"data: {}\n\n"), 10), ("answered", 1))
        self.assertEqual(wrongs(soak.judge_drain, outcome(9, 11, None), 10), (None, 1))
        self.assertEqual(wrongs(soak.judge_drain, outcome(10.1, 11, None), 10), ("after the signal", 0))


def samples(minutes, slope):
    rng = random.Random(16)
    return [(second, 300 + slope * second / 60 + rng.uniform(-3, 3)) for second in range(int(60 * minutes))]


class Memory(unittest.TestCase):
    def test_what_is_flat_is_well(self):
        slope, complaints = wrongs(soak.judge_memory, samples(20, 0))
        self.assertAlmostEqual(slope, 0, delta=0.1)
        self.assertEqual(complaints, 0)

    def test_a_long_run_is_judged_by_its_slope(self):
        slope, complaints = wrongs(soak.judge_memory, samples(20, 1))
        self.assertAlmostEqual(slope, 1, delta=0.1)
        self.assertEqual(complaints, 1)

    def test_a_short_one_by_what_it_grew_and_a_few_seconds_are_not(self):
        self.assertEqual(wrongs(soak.judge_memory, samples(2, 1))[1], 0)
        self.assertEqual(wrongs(soak.judge_memory, samples(2, 30))[1], 1)
        self.assertEqual(wrongs(soak.judge_memory, samples(0.5, 30))[1], 0)


class Bodies(unittest.TestCase):
    def questions(self):
        made = Questions.__new__(Questions)
        made.pictures, made.forms = ["data:,0", "data:,1", "data:,2", "data:,3"], True
        return made

    def test_everything_is_asked_for(self):
        rng, keys, looks, paths = random.Random(1), set(), set(), set()
        for _ in range(2000):
            path, body = self.questions().random(rng, by_uuid=True)
            paths.add(path)
            keys.update(body)
            looks.update(body.get("fovea", {}))
            text = json.dumps(body)
            keys.update(key for key in ("uuid", '"image_url": null') if key in text)
        self.assertEqual(paths, {CHAT, RESPONSES})
        self.assertLessEqual({"response_format", "tools", "tool_choice", "text", "uuid", '"image_url": null'}, keys)
        self.assertLessEqual({"looks", "relook", "keep", "forget", "kv"}, looks)

    def test_a_second_turn_holds_the_first(self):
        first = {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 3}
        answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": None}}]})
        roles = [message["role"] for message in second_turn(first, answer)["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user"])

    def test_answers_that_are_not_whole_are_told(self):
        self.assertEqual(why_wrong(CHAT, {"n": 2}, 200, b'{"choices":[{},{}]}'), "")
        self.assertNotEqual(why_wrong(CHAT, {"n": 2}, 200, b'{"choices":[{}]}'), "")
        self.assertEqual(why_wrong(RESPONSES, {}, 200, b'{"status":"incomplete"}'), "")
        self.assertNotEqual(why_wrong(RESPONSES, {}, 200, b'{"status":"failed"}'), "")
        self.assertEqual(why_wrong(RESPONSES, {"stream": True}, 200, b"event: response.completed\ndata: {}\n\n"), "")
        self.assertNotEqual(why_wrong(RESPONSES, {"stream": True}, 200, b"event: response.created\ndata: {}\n\n"), "")
        self.assertNotEqual(why_wrong(CHAT, {}, 429, b""), "")


if __name__ == "__main__":
    unittest.main()
