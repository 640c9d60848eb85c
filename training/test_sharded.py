#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on two processes of this machine (gloo), beside one: python3 training/test_sharded.py

Needs PyTorch, and the Python module fovea on the path; exits with 77 where one is missing.
"""
import importlib.util
import sys
import unittest
from pathlib import Path

try:
    import torch
    import fovea.cards  # noqa: F401
    from tokenizers import Tokenizer  # noqa: F401
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    sys.exit(77)

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from loss import Arm
from sharded import part_of, spans
from sharded_steps import Job, run_job
from test_training import SMALL

# Sums over two halves of a batch are rounded in another order; Muon's five steps make more of it.
LOSS_WITHIN, VALUES_WITHIN = 2e-6, 1e-4


class Sharded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one, cls.values = run_job(Job(sizes=SMALL), 1)

    def compare(self, job, loss_within=LOSS_WITHIN, values_within=VALUES_WITHIN):
        """Two processes with halves of the batch, and one with all of it."""
        found, values = run_job(job, 2)
        for rank in found:
            for mine, wanted in zip(rank["losses"], self.one[0]["losses"], strict=True):
                self.assertLess(abs(mine - wanted), loss_within * wanted)
        self.assertEqual(set(values), set(self.values))
        for name, value in values.items():
            worst = (value - self.values[name]).abs().max().item()
            self.assertLess(worst, values_within, name)
        return found

    def about_a_half(self, found, name):
        for rank in found:
            self.assertLess(abs(rank[name] / self.one[0][name] - 0.5), 0.02, name)

    def test_zero_2_trains_as_one_process_does_with_half_of_the_bytes(self):
        found = self.compare(Job(zero=2, sizes=SMALL))
        for name in ("parameters", "gradients", "states"):
            self.about_a_half(found, name)

    def test_zero_3_with_checkpointing_trains_as_one_process_does_with_half_of_the_bytes(self):
        found = self.compare(Job(zero=3, checkpointing=True, sizes=SMALL))
        for name in ("parameters", "gradients", "states"):
            self.about_a_half(found, name)

    def test_without_parts_every_process_has_everything(self):
        found = self.compare(Job(zero=0, sizes=SMALL))
        for name in ("parameters", "gradients", "states"):
            self.assertEqual(found[0][name], self.one[0][name])

    def test_bf16_comes_close(self):
        # bf16 has 8 bits: a loss of some 20 summands moves by less than a hundredth.
        self.compare(Job(zero=3, checkpointing=True, dtype="bfloat16", sizes=SMALL), 1e-2, 1e-2)

    @unittest.skipUnless(importlib.util.find_spec("deepspeed"), "deepspeed is not installed")
    def test_deepspeed_trains_as_one_process_does_with_half_of_the_states(self):
        one, values = run_job(Job(engine="adamw", sizes=SMALL), 1)
        for zero in (2, 3):
            found, after = run_job(Job(zero=zero, engine="deepspeed", checkpointing=True, sizes=SMALL), 2)
            for rank in found:
                self.assertEqual(len(rank["losses"]), len(one[0]["losses"]))
                for mine, wanted in zip(rank["losses"], one[0]["losses"]):
                    self.assertLess(abs(mine - wanted), LOSS_WITHIN * wanted)
                self.assertLess(abs(rank["states"] / one[0]["states"] - 0.5), 0.02)
            for name, value in after.items():
                self.assertLess((value - values[name]).abs().max().item(), VALUES_WITHIN, name)

    def test_every_parameter_has_a_part(self):
        self.assertEqual(part_of("model.visual.blocks.3.attn.qkv.bias"), "model.visual.blocks.3.")
        self.assertEqual(part_of("model.visual.merger.norm.weight"), "model.visual.merger.")
        self.assertEqual(part_of("model.visual.deepstack_merger_list.0.linear_fc1.weight"),
                         "model.visual.deepstack_merger_list.0.")
        self.assertEqual(part_of("fovea.gaze.key.weight"), "")
        self.assertEqual(spans(5, 2), [3, 2])
        self.assertEqual(spans(1, 2), [1, 0])


if __name__ == "__main__":
    unittest.main()
