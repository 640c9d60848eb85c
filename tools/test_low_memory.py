#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/low_memory counts as shown: python3 tools/test_low_memory.py"""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOADER = importlib.machinery.SourceFileLoader("low_memory", str(ROOT / "tools/low_memory"))
low_memory = importlib.util.module_from_spec(importlib.util.spec_from_loader("low_memory", LOADER))
sys.modules["low_memory"] = low_memory  # where its data classes look for their module
LOADER.exec_module(low_memory)


def outcome(status=0, text="good", errors="", is_met=True):
    return low_memory.Outcome(status, text, errors, [], 0.1, is_met)


class Runs(low_memory.Sweep):
    """A sweep whose runs end as they are told to."""

    def __init__(self, *outcomes):
        super().__init__(ROOT, ROOT)
        self.outcomes = list(outcomes)
        self.environments = []

    def run(self, scenario, environment=None, limit_kb=0):
        self.environments.append(environment)
        return self.outcomes.pop(0)


def place_trial():
    scenario = low_memory.Scenario("ask", ["ask"], expected=("good", []))
    return low_memory.Trial(scenario, "m of 8", {"FOVEA_FAIL_PLACE": "m:8:abc"}, place=("m", "abc"))


class LowMemory(unittest.TestCase):
    def test_a_place_that_is_met_is_tried_once(self):
        runs = Runs(outcome())
        runs.attempt(place_trial())
        self.assertEqual((runs.places_tried, runs.not_met, runs.ended_well), (1, 0, 1))
        self.assertFalse(runs.shows_too_little())

    def test_a_place_that_is_missed_is_tried_with_any_size(self):
        runs = Runs(outcome(is_met=False), outcome(status=1, errors="fovea: out of memory\n"))
        runs.attempt(place_trial())
        self.assertEqual(runs.environments[1]["FOVEA_FAIL_PLACE"], "m:0:abc")
        self.assertEqual((runs.places_tried, runs.not_met, runs.refused), (1, 0, 1))

    def test_runs_that_miss_their_place_show_nothing(self):
        runs = Runs(*[outcome(is_met=False) for _ in range(6)], *[outcome() for _ in range(97)])
        for _ in range(100):
            runs.attempt(place_trial())
        self.assertEqual((runs.places_tried, runs.not_met, runs.broken), (100, 3, []))
        self.assertTrue(runs.shows_too_little())

    def test_what_goes_wrong_without_a_place_is_wrong_too(self):
        runs = Runs(outcome(status=-11, is_met=False))
        runs.attempt(place_trial())
        self.assertEqual([wrong for wrong, _ in runs.broken], ["crashes with signal 11"])

    def test_every_subcommand_has_a_scenario(self):
        commands = set(re.findall(r'commands\["(\w+)"\]', (ROOT / "apps/fovea/main.cc").read_text()))
        self.assertGreater(len(commands), 10)
        self.assertEqual(commands - {scenario.arguments[0] for scenario in low_memory.scenarios()}, set())

    def test_a_whole_run_has_all_its_limits(self):
        scenarios = low_memory.scenarios()
        for count in range(1, len(scenarios) + 1):
            self.assertGreaterEqual(len(low_memory.limit_trials(scenarios[:count], 600)), 600)


if __name__ == "__main__":
    unittest.main()
