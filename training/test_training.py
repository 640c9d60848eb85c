#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on the CPU, in small: python3 training/test_training.py

Needs PyTorch, and the Python module fovea on the path; exits with 77 where one is missing.
"""
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
import model
from data import LEVEL_CELLS, Pool, Words, to_cells
from loss import Arm, Steps
from optimizer import Optimizer, orthogonalise

TINY = HERE.parent / "models/tiny"
SMALL = dict(vision_size=64, vision_heads=2, vision_inner=128, depth=2, taps=(0,), size=64, heads=2, kv_heads=1,
             head_dim=32, mrope_section=(6, 5, 5), inner=96, layers=3, gaze_layer=2, gaze_size=32)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.words = Words(TINY)
        cls.pool = Pool(cls.words, TINY, scenes=8, device=torch.device("cpu"), seed=2 ** 39, batch=8, workers=1,
                        threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.pool.close()

    def steps(self):
        torch.manual_seed(0)
        config = model.Config(vocab_size=self.words.vocab_size, **SMALL)
        values = model.initial_parameters(config, torch.Generator().manual_seed(0))
        optimizer = Optimizer(values, model.is_block_matrix, torch.device("cpu"), torch.float32)
        return Steps(config, optimizer.parameters, self.pool), optimizer

    def test_a_few_steps_lower_the_loss(self):
        steps, optimizer = self.steps()
        arm, losses = Arm("look", 4, 4, (32,)), []
        optimizer.lr.fill_(2e-3)
        for _ in range(48):
            loss, _, _ = steps.loss(arm)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        first, last = sum(losses[:4]) / 4, sum(losses[-4:]) / 4
        self.assertLess(last, 0.8 * first, losses)

    def test_every_arm_has_a_finite_loss_that_reaches_every_weight(self):
        steps, optimizer = self.steps()
        for arm in (Arm("look", 2, 2, (32,)), Arm("gaze", 2, 2, (32,), own_gaze=True),
                    Arm("looks", 2, 2, (16, 16)), Arm("glance", 2, 2), Arm("uniform", 1, 2), Arm("full", 1, 1),
                    Arm("quadtree", 2, 2)):
            loss, figures, _ = steps.loss(arm)
            self.assertTrue(torch.isfinite(loss), arm.name)
            self.assertEqual(figures[:, 0].sum(), arm.batch * arm.questions)
            loss.backward()
        for name, parameter in optimizer.parameters.items():
            if "k_proj" not in name:  # the scores of a first layer may hardly depend on it
                self.assertGreater(parameter.grad.abs().max().item(), 0, name)

    def test_a_look_sees_the_glance_and_not_the_other_way_round(self):
        steps, _ = self.steps()
        torch.manual_seed(1)
        cells = self.pool.cells[0].float().view(1, -1, 4, 768) / 127.5 - 1
        index = torch.cat((torch.arange(64) + 1280, torch.tensor([5, 70])))
        side = torch.tensor([8] * 64 + [32] * 2)
        place = index - torch.tensor([1280] * 64 + [0] * 2)
        level = torch.tensor([[2] * 64 + [0] * 2])
        row, col = (place // side)[None], (place % side)[None]

        def encode(patches):
            return model.tower(steps.p, steps.c, patches, row, col, level, (64, 2))[0]

        with torch.no_grad():
            before = encode(cells[:, index])
            changed = cells[:, index].clone()
            changed[:, 64:] += 0.5
            self.assertTrue(torch.equal(encode(changed)[:, :64], before[:, :64]))
            changed = cells[:, index].clone()
            changed[:, 0] += 0.5
            self.assertFalse(torch.allclose(encode(changed)[:, 64:], before[:, 64:]))

    def test_cells_are_those_of_the_pyramid(self):
        image = torch.randint(0, 256, (1, 1024, 1024, 3), dtype=torch.uint8)
        cells = to_cells(image)
        self.assertEqual(cells.shape[1], sum(LEVEL_CELLS))
        fine = cells[0, 33].view(4, 3, 16, 16)  # row 1, column 1; its second patch lies to the right
        self.assertTrue(torch.equal(fine[1].permute(1, 2, 0), image[0, 32:48, 48:64]))
        box = image[0, :2, :2].int().sum((0, 1))
        self.assertTrue(torch.equal(cells[0, 1024].view(4, 3, 256)[0, :, 0].int(), (box + 2) // 4))

    def test_muon_makes_all_directions_count_alike(self):
        torch.manual_seed(2)
        singular = torch.linalg.svdvals(orthogonalise(torch.randn(3, 24, 40) @ torch.diag(torch.linspace(0.1, 3, 40))))
        self.assertLess(singular.max(), 1.3)
        self.assertGreater(singular.min(), 0.5)


if __name__ == "__main__":
    unittest.main()
