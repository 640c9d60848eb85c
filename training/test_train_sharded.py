#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_sharded.py as torchrun starts it, two processes on this machine, and train.py go on from each other's
checkpoints: python3 training/test_train_sharded.py

The model of models/tiny, a few samples a batch: about a minute of two cores. Needs PyTorch, and the Python module
fovea on the path; exits with 77 where one is missing.
"""
import json
import os
import subprocess
import sys
import tempfile
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
import checkpoint
import model
from data import Words

TINY = HERE.parent / "models/tiny"
SMALL = ["--tokenizer", TINY, "--device", "cpu", "--pool", "8", "--scale", "0.01", "--threads", "1"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(command):
    made = subprocess.run(command, text=True, capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if made.returncode:
        raise AssertionError(f"{command}:\n{made.stdout}{made.stderr}")


class TrainSharded(unittest.TestCase):
    def equal(self, folder, wanted):
        values, state = checkpoint.load(folder)
        self.assertEqual(set(values), set(wanted))
        for name, value in values.items():
            self.assertTrue(torch.equal(value, wanted[name]), name)
        return state

    def test_pieces_go_on_from_each_others_checkpoints(self):
        with tempfile.TemporaryDirectory() as scratch:
            first, second, third = (Path(scratch) / name for name in ("first", "second", "third"))
            run([*TORCHRUN, HERE / "train_sharded.py", *SMALL, "--out", first, "--steps", "2", "--zero", "3"])
            values, state = checkpoint.load(first)
            self.assertEqual((state["step"], state["pieces"]), (2, 1))
            begun = model.initial_parameters(model.Config(vocab_size=Words(TINY).vocab_size),
                                             torch.Generator().manual_seed(1))
            self.assertEqual(set(values), set(begun))
            self.assertTrue(all(torch.isfinite(value).all() for value in values.values()))
            self.assertTrue(any((value - begun[name].bfloat16()).abs().max() > 0 for name, value in values.items()))
            lines = [json.loads(line) for line in (first / "log0.jsonl").read_text().splitlines()]
            self.assertEqual(sum(arm["steps"] for line in lines for arm in line["arms"].values()), 2)

            # Steps of no length: what is saved again is what was read.
            still = ["--lr", "0"]
            run([sys.executable, HERE / "train.py", *SMALL, *still, "--resume", first, "--out", second, "--seconds", "1"])
            state = self.equal(second, values)
            self.assertEqual(state["pieces"], 2)
            self.assertGreater(state["step"], 2)
            run([*TORCHRUN, HERE / "train_sharded.py", *SMALL, *still, "--resume", second, "--out", third, "--steps", "2",
                 "--zero", "2", "--checkpointing"])
            after = self.equal(third, values)
            self.assertEqual((after["step"], after["pieces"]), (state["step"] + 2, 3))


if __name__ == "__main__":
    unittest.main()
