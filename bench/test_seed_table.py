#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The seeds' table from made-up figures: python3 bench/test_seed_table.py

Needs nothing but Python. Where bench/peers/gpu.py joins rows is tested here too.
"""
import contextlib
import io
import json
import re
import struct
import sys
import tempfile
import types
import unittest
import unittest.mock
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "peers")]
import gpu  # noqa: E402
import seed_attention  # noqa: E402
import seed_plans  # noqa: E402
import seed_table  # noqa: E402
from seed_table import Figures  # noqa: E402

GPU = {"pyramid/4096x4096x5": (0.03, "ms"), "pyramid/texture/4096x4096x5": (0.045, "ms"),
       "patches/grouped": (0.064, "ms"), "patches/mixed": (0.096, "ms"), "relevance/32x1024x1024": (0.2, "ms"),
       "plan/quadtree68/32x1024x1024": (0.12, "ms"), "front-end/32x1024x1024": (10, "us an image"),
       "front-end/upload/32x1024x1024": (60, "us an image"), "tower/4096": (9, "ms"), "tower/272": (0.75, "ms"),
       "prefill/1056": (8, "ms"), "prefill/100": (2, "ms"), "first-token/full": (18, "ms"),
       "first-token/68": (3, "ms"), "ceiling/h2d": (55, "GB/s"), "pyramid/update/1of20": (0.006, "ms"),
       "attention/tower4096": (0.2, "ms"), "gemm-steps/plain": (10, "ms"), "gemm-steps/registers": (5, "ms"),
       "gemm-steps/padded": (4.9, "ms")}
PEERS = {"pyramid/4096x4096x5": {"torch avg_pool2d chain fp32": 0.22, "torch avg_pool2d chain fp32, CUDA graph": 0.2},
         "patches/uniform/1x1024x1024": {"torch unfold fp32": 0.05},
         "patches/grouped": {"torch, one indexed copy a level": 0.64},
         "tower/4096": {"transformers eager": 19, "transformers' modules, CUDA graph": 10},
         "tower/272": {"transformers eager": 17, "transformers' modules, CUDA graph": 1.25},
         "allocation/1x1024x1024": {"torch, all cells at once": 0.5, "torch, a Python loop": 200},
         "first-token/full": {"transformers eager, all 1,024 tokens": 50}}


def gray16_png(rows):
    """A PNG whose rows take the five filters in turn."""
    before, packed = bytearray(2 * len(rows[0])), b""
    for y, row in enumerate(rows):
        line = b"".join(struct.pack(">H", value) for value in row)
        kind, coded = y % 5, bytearray()
        for i, byte in enumerate(line):
            left, corner = (line[i - 2], before[i - 2]) if i >= 2 else (0, 0)
            guess = left + before[i] - corner
            paeth = min((left, before[i], corner), key=lambda one: abs(guess - one))  # the first of equals
            coded.append((byte - (0, left, before[i], (left + before[i]) // 2, paeth)[kind]) & 255)
        packed += bytes([kind]) + coded
        before = line
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 16, 0, 0, 0, 0)),
              (b"IDAT", zlib.compress(packed)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(body)) + kind + body
                                           + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks)


def gpu_rows():
    """What `fovea bench gpu` prints, by the lists of tests/gpu_bench_test.cc: the rows of an emulated device."""
    text = (HERE.parent / "tests/gpu_bench_test.cc").read_text()
    lists = re.findall(r"std::set<std::string> k\w+Rows = \{(.*?)\};", text, re.S)
    return {name for names in lists for name in re.findall(r'"([^"]+)"', names)}


class Asked(dict):
    """Has nothing, and remembers what was asked for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def get(self, name, default=None):
        self.names.append(name)
        return default


class SeedTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def figures(self, rows, name="rows.json", machine=None):
        path = self.folder / name
        path.write_text(json.dumps({"machine": machine or {}, "rows": rows}))
        return Figures([path])

    def gpu(self, **changes):
        values = {**GPU, **{name.replace("__", "/"): value for name, value in changes.items()}}
        rows = [{"name": name, "value": figure[0], "unit": figure[1]} for name, figure in values.items() if figure]
        note = "900 GB/s, 21 % of copy; 1.02x over 0.0653 ms without (claimed 1.5x)"
        rows.append({"name": "patches/prefetch", "value": 0.064, "unit": "ms", "note": note})
        return self.figures(rows, "gpu.json", {"gpu": "a GPU"})

    def peers(self):
        return self.figures([{"name": name, "peer": peer, "peer_value": value, "peer_unit": "ms"}
                             for name, peers in PEERS.items() for peer, value in peers.items()], "peers.json")

    def report(self, gpu=None, plans=None):
        cpu = self.figures([{"name": "pyramid/4096x4096x5", "value": 1.5, "unit": "ms"}], "cpu.json",
                           {"cpu": "a CPU", "threads": 2})
        text, claims = seed_table.report(gpu or self.gpu(), cpu, self.peers(), plans or {"plans": [], "thresholds": []})
        return text, {claim.what: claim for claim in claims}

    def test_a_row_holds_the_claim_torch_and_every_tier(self):
        text, _ = self.report()
        self.assertIn("mipmaps, 4096x4096, 5 levels | 5 | 0.1 | 0.22 | 0.2 | 1.5 | 0.03 | 0.045 | 50x | 7.33x |", text)

    def test_claims_are_judged_by_what_was_measured(self):
        _, claims = self.report()
        for what, holds in (("mipmaps, 4096x4096, 5 levels: PyTorch takes", False),
                            ("mipmaps, 4096x4096, 5 levels: reached", True),
                            ("mipmaps, 4096x4096, 5 levels: times faster than torch eager", False),
                            ("273 instead of 4,096 patches make the tower faster: transformers eager", False),
                            ("273 instead of 4,096 patches make the tower faster: Fovea, CUDA", True),
                            ("273 instead of 4,096 patches make the tower faster: Fovea, CPU", None),
                            ("sampling grouped by level against mixed order", False),
                            ("prefetching the next cells", False),
                            ("upload and levels of a 1024x1024 RGBA32F picture, batch of 32", False),
                            ("levels of a frame of which a tenth changed (ours: a twentieth of the tiles)", True),
                            ("matrix product, registers", True), ("matrix product, padded", False)):
            self.assertIs(claims[what].holds, holds, what)

    def test_another_figure_gives_another_judgement(self):
        _, claims = self.report(self.gpu(patches__mixed=(0.14, "ms")))
        self.assertIs(claims["sampling grouped by level against mixed order"].holds, True)
        _, claims = self.report(self.gpu(patches__mixed=None))
        self.assertIs(claims["sampling grouped by level against mixed order"].holds, None)

    def test_a_batch_is_divided_and_a_figure_an_image_is_not(self):
        gpu = self.gpu()
        rows = seed_table.operations(gpu, Figures([]), self.peers())
        self.assertAlmostEqual(rows["sampling"].kernels, 0.064 / 32)
        self.assertAlmostEqual(rows["sampling"].eager, 0.64 / 32)
        self.assertAlmostEqual(rows["allocation"].kernels, 0.32 / 32)
        self.assertAlmostEqual(gpu.ms("front-end/32x1024x1024", images=32), 0.01)

    def test_every_row_asked_for_is_one_that_the_bench_prints(self):
        printed = gpu_rows()
        self.assertGreater(len(printed), 40)
        printed.add("pyramid/texture/4096x4096x5")  # textures are not emulated
        asked = Asked()
        gpu = Figures([])
        gpu.own, gpu.notes = asked, asked
        seed_table.report(gpu, Figures([]), Figures([]), {"plans": [], "thresholds": []})
        self.assertEqual(set(asked.names) - printed, set())
        self.assertIn("attention/kinds4096/hierarchical", asked.names)

    def test_a_loop_in_python_is_no_measure_of_torch(self):
        text, claims = self.report()
        allocation = "token allocation, 1024x1024 (Fovea: relevance and plan; GPU: batch of 32)"
        self.assertIn(f"{allocation} | 10 | 1 | 200 in a loop | 0.5 | - | 0.01 | - | 10x | 50x of the best |", text)
        self.assertEqual(claims[f"{allocation}: times faster than torch's best"].measured, "50x")
        self.assertNotIn(f"{allocation}: times faster than torch eager", claims)
        vision = claims["vision, sum (torch: every patch; Fovea: 272): times faster than torch's best"]
        self.assertEqual(vision.measured, "13.6x")  # (0.2 + 0.05 + 10 + 0.5) / (0.03 + 0.002 + 0.75 + 0.01)

    def test_the_claim_of_hierarchical_attention_is_judged_by_hierarchical_attention(self):
        dense = self.gpu()
        reached = "the same, hierarchical: an eighth of the blocks, the rest pooled (torch: dense): reached"
        self.assertIs(self.report(dense)[1][reached].holds, None)
        kind = self.gpu(**{"attention__kinds4096__hierarchical": (0.05, "ms")})
        self.assertIs(self.report(kind)[1][reached].holds, True)
        self.assertFalse(any(what.startswith("dense attention") and "reached" in what for what in self.report()[1]))

    def test_the_rules_and_both_machines_stand_beside_the_claims(self):
        text, claims = self.report()
        self.assertLess(text.index(seed_table.RULES), text.index("| claim |"))
        self.assertEqual({claim.theirs for claim in claims.values()} & {""}, set())
        mipmaps = claims["mipmaps, 4096x4096, 5 levels: reached"]
        self.assertEqual((mipmaps.theirs, mipmaps.ours), ("A100", "a GPU"))
        self.assertIn("reached | 0.1 ms | A100 | 0.03 ms | a GPU | yes |", text)

    def test_amdahl_lets_the_prefill_shrink_too(self):
        lines = " ".join(seed_table.amdahl(self.gpu()))
        self.assertIn("vision is 53 %", lines)         # 9.01 of 17.01 ms
        self.assertIn("gives 1.94x", lines)            # 1 / (0.470 + 0.530 / 11.86)
        self.assertIn("together give 6.2x", lines)     # 17.01 / 2.76
        self.assertIn("first token: 6.0x", lines)
        self.assertIn("Not measured", seed_table.amdahl(Figures([]))[0])

    def test_without_figures_nothing_is_judged_but_arithmetic(self):
        empty = Figures([])
        text, claims = seed_table.report(empty, empty, empty, {"plans": [], "thresholds": []})
        judged = [claim for claim in claims if claim.holds is not None]
        self.assertEqual(len(judged), len(seed_table.arithmetic_claims()) + len(seed_attention.arithmetic()))
        self.assertIn("not measured", text)


class Attention(unittest.TestCase):
    """Claims of attention that sees fewer keys, and of tokens that are pruned."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name, content):
        (self.folder / name).write_text(json.dumps(content))
        return self.folder / name

    def accuracies(self, **rows):
        """Each a kind of attention, or "dense", with (arm, budget, accuracy) of 320 questions."""
        files = []
        for kind, found in rows.items():
            settings = {} if kind == "dense" else {"attention": kind + ":0.1"}
            files.append(self.file(kind + ".json", {
                "settings": settings,
                "rows": [{"arm": arm, "budget": budget, "family": "all", "accuracy": accuracy, "n": 320}
                         for arm, budget, accuracy in found]}))
        return seed_attention.Accuracies(files)

    def claims(self, cpu=(), accuracies=None):
        rows = [{"name": name, "value": value, "unit": "ms"} for name, value in dict(cpu).items()]
        cpu = Figures([self.file("cpu.json", rows)])
        found = seed_attention.claims(Figures([]), cpu, Figures([]), accuracies or seed_attention.Accuracies([]))
        return {claim.what: claim for claim in found}

    def test_a_claim_of_both_needs_both(self):
        times = {"attention/4096/dense": 10, "attention/4096/hierarchical": 4, "attention/4096/performer": 1}
        whole = [("full", 0, 1)]
        for lost, holds in ((0.0, True), (0.015, True), (0.016, False)):
            claims = self.claims(times, self.accuracies(dense=whole, hierarchical=[("full", 0, 1 - lost)]))
            found = next(claim for what, claim in claims.items() if "hierarchical" in what)
            self.assertIs(found.holds, holds, lost)
            self.assertIn("2.5x, ", found.measured)
        claims = self.claims(times, self.accuracies(dense=whole, performer=[("full", 0, 0.45)]))
        self.assertIs(claims["attention of fewer keys, 1024x1024: Performer"].holds, False)
        self.assertIs(claims["attention of fewer keys, 1024x1024: Linformer"].holds, None)
        claims = self.claims(times)
        self.assertIs(claims["attention of fewer keys, 1024x1024: Performer"].holds, None, "half of it is known")

    def test_pruning_is_judged_beside_all_keys(self):
        claims = self.claims(accuracies=self.accuracies(dense=[
            ("full", 0, 1), ("forget-vl-cache", 102, 0.995), ("forget-sparse-vlm", 256, 0.96)]))
        self.assertIs(claims["VL-Cache keeps a tenth"].holds, True)
        self.assertIs(claims["SparseVLM keeps a quarter"].holds, False)
        self.assertIn("4.0 points lost of 320", claims["SparseVLM keeps a quarter"].measured)
        self.assertIs(claims["SparseVLM keeps 40 %"].holds, None)

    def test_pages_of_64_kb_for_2_kb_save_nothing(self):
        textures, int8 = seed_attention.arithmetic()
        self.assertIs(textures.holds, False)
        self.assertIn("-1,580", textures.measured.replace("1580", "1,580"))
        self.assertIs(int8.holds, True)
        self.assertEqual(int8.measured, "1.97x")

    def test_each_claim_stands_once(self):
        found = [claim.what for claim in seed_attention.claims(Figures([]), Figures([]), Figures([]),
                                                               seed_attention.Accuracies([]))]
        self.assertEqual(len(found), len(set(found)))

    def test_a_file_of_something_else_is_refused(self):
        with self.assertRaises(SystemExit):
            seed_attention.Accuracies([self.file("other.json", {"rows": []})])


class Plans(unittest.TestCase):
    PLAN = {"canvas": [256, 128], "plan": "quadtree", "budget": 8,
            "cells": [[1, 0, 0], [1, 0, 1], [1, 0, 2], [1, 1, 0], [1, 1, 1], [1, 1, 2], [1, 1, 3], [0, 0, 6], [0, 0, 7],
                      [0, 1, 6], [0, 1, 7]]}

    def test_bytes_of_a_plan(self):
        counted = seed_plans.count(self.PLAN)
        self.assertEqual(counted["cells_by_level"], [4, 7])
        self.assertEqual(counted["area"], [4 / 32, 28 / 32])
        self.assertEqual(counted["dense_sampled"], 256 * 128 * 3)
        self.assertEqual(counted["sampled"], 11 * 3072)
        self.assertEqual(counted["dense_front_end"], 256 * 128 * 3 + 32 * 6144)
        built = 256 * 128 * 3 + 128 * 64 * 3
        self.assertEqual(counted["front_end"], built + 256 * 128 * 3 + 11 * (3072 + 6144))

    def test_level_0_alone_needs_no_other_levels_and_a_cell_over_the_edge_counts_what_it_covers(self):
        counted = seed_plans.count({"canvas": [64, 32], "plan": "uniform", "budget": 2,
                                    "cells": [[0, 0, 0], [0, 0, 1]]})
        self.assertEqual(counted["front_end"], counted["dense_front_end"])
        counted = seed_plans.count({"canvas": [96, 32], "plan": "cortical", "budget": 1, "cells": [[2, 0, 0]]})
        self.assertEqual(counted["area"], [0, 0, 1])

    def test_the_seeds_areas_give_other_savings_than_they_claim(self):
        saved = [round(100 * (1 - seed_plans.share_of(claim["area"]))) for claim in seed_plans.CLAIMS]
        self.assertEqual(saved, [79, 88, 83])

    def test_savings_of_plans_are_judged(self):
        plans = [dict(seed_plans.count(self.PLAN), said=claim["said"], photo="a") for claim in seed_plans.CLAIMS]
        claims = seed_table.byte_claims({"plans": plans, "thresholds": []})
        self.assertEqual([claim.holds for claim in claims], [True, False, False, False, False, False])
        self.assertEqual(len(seed_plans.table({"plans": plans, "thresholds": []})), 2 + len(plans))

    def test_maps_are_read_through_every_filter(self):
        rows = [[(x * 9973 + y * 7919 + x * y * 31) % 65536 for x in range(7)] for y in range(11)]
        self.assertEqual(seed_plans.read_gray16(gray16_png(rows)), rows)

    def test_thresholds_send_cells_to_levels(self):
        rows = [[65535, 40000], [20000, 0]]
        self.assertEqual(seed_plans.threshold_shares(rows), [0.25] * 4)
        self.assertIn("25, 25, 25, 25 %", seed_plans.threshold_line({"thresholds": [{"shares": [0.25] * 4}]}))


class Joining(unittest.TestCase):
    def test_every_row_meets_its_peers_and_its_target(self):
        ours = [{"name": "front-end/32x1024x1024", "value": 8, "unit": "us an image"},
                {"name": "decode/1", "value": 470, "unit": "tokens/s"},
                {"name": "ceiling/copy", "value": 4300, "unit": "GB/s"}]
        peers = [{"name": "front-end/32x1024x1024", "peer": "torch", "peer_value": 0.4, "unit": "ms"},
                 {"name": "decode/1", "peer": "transformers", "peer_value": 235, "unit": "tokens/s"},
                 {"name": "decode/1", "peer": "odd", "peer_value": 2, "unit": "images/s"},
                 {"name": "processor", "peer": "transformers", "peer_value": 2, "unit": "ms"}]
        rows = gpu.join(ours, peers)
        self.assertEqual([row["name"] for row in rows],
                         ["front-end/32x1024x1024", "decode/1", "decode/1", "ceiling/copy", "processor"])
        self.assertAlmostEqual(rows[0]["ratio"], 50)
        self.assertAlmostEqual(rows[1]["ratio"], 2)
        self.assertNotIn("ratio", rows[2])
        self.assertEqual([row.get("reached") for row in rows], [True, False, False, None, None])

    def test_every_kind_of_attention_meets_dense_attention_of_its_length(self):
        printed = gpu_rows()
        kinds = {name for name in printed if name.startswith("attention/kinds4096/")}
        self.assertEqual(kinds, {f"attention/kinds4096/{kind}" for kind in gpu.KINDS})
        measured = re.findall(r'"(attention/[a-z0-9]+)": \(', (HERE / "peers/gpu_torch.py").read_text())
        for name in sorted(kinds | {name.replace("4096", "16384") for name in kinds}):
            dense = name.split("/")[1].replace("kinds", "attention/tower")
            self.assertIn(dense, measured)
            [row] = gpu.join([{"name": name, "value": 50, "unit": "us"}],
                             [{"name": dense, "peer": "torch SDPA cuDNN", "peer_value": 0.15, "unit": "ms"}])
            self.assertAlmostEqual(row["ratio"], 3)

    def test_a_part_that_ends_its_process_is_noted_and_the_rest_goes_on(self):
        fake = ("import json, sys\n"
                "print(json.dumps({'machine': {'torch': '2'}}))\n"
                "for part in sys.argv[2].split(','):\n"
                "    print(json.dumps({'part': part}))\n"
                "    print(json.dumps({'name': part, 'peer': 'p', 'peer_value': 1, 'unit': 'ms'}), flush=True)\n"
                "    if part == 'tower': sys.exit(3)\n")
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            path = Path(folder) / "fake.py"
            path.write_text(fake)
            args = types.SimpleNamespace(smoke=True, compile=False, config=None)
            with unittest.mock.patch.object(gpu, "__file__", str(path)):
                machine, rows, notes = gpu.run_peers(args, ["pyramid", "tower", "decode"])
        self.assertEqual(machine, {"torch": "2"})
        self.assertEqual([row["name"] for row in rows], ["pyramid", "tower", "decode"])
        self.assertEqual([note["name"] for note in notes], ["tower"])

    def test_rounds_become_medians(self):
        rounds = [[{"name": "a", "peer": "p", "peer_value": value, "unit": "ms"}] for value in (3, 1, 2)]
        self.assertEqual(gpu.medians(rounds), [{"name": "a", "peer": "p", "peer_value": 2, "unit": "ms"}])
        one = [{"name": "a", "value": 4, "unit": "ms"}]
        self.assertEqual(gpu.medians([one]), one)


if __name__ == "__main__":
    unittest.main()
