#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of attention from made-up rows: python3 tools/test_plot_attention.py"""
import json
import sys
import unittest
import xml.dom.minidom
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import plot_attention  # noqa: E402



def row(patches, kind, ms, share, rmse):
    note = f"4.5x dense (10.0 ms), {share} % of the keys; of dense in f64: cosine 0.9900, RMSE {rmse}"
    return {"name": f"attention/{patches}/{kind}", "value": ms, "unit": "ms", "note": note}


ROWS = [row(4096, "dense", 100.0, 100.0, 0.0), row(1024, "dense", 10.0, 100.0, 0.0),
        row(4096, "a<b", 20.0, 12.5, 0.25), row(1024, "a<b", 5.0, 12.5, 0.2),
        {"name": "attention/prefill-4096/strided", "value": 3.0, "unit": "ms", "note": "2.0x dense"},
        {"name": "tower/4096/dense", "value": 3.0, "unit": "ms"}]


class PlotAttention(unittest.TestCase):
    def test_reads_the_rows_of_kinds_alone_by_length(self):
        kinds = plot_attention.read_rows(json.dumps({"rows": ROWS}))
        self.assertEqual(kinds, {"dense": [(1024, 10.0, 100.0, 0.0), (4096, 100.0, 100.0, 0.0)],
                                 "a<b": [(1024, 5.0, 12.5, 0.2), (4096, 20.0, 12.5, 0.25)]})

    def test_draws_a_line_for_each_kind_and_a_point_for_each_row(self):
        picture = plot_attention.draw(plot_attention.read_rows(json.dumps({"rows": ROWS})))
        document = xml.dom.minidom.parseString(picture)
        self.assertEqual(len(document.getElementsByTagName("polyline")), 2)
        # Four of times, two of errors, two of the legend.
        self.assertEqual(len(document.getElementsByTagName("circle")), 8)
        words = [node.firstChild.data for node in document.getElementsByTagName("text")]
        self.assertIn("a<b", words)
        self.assertIn("% of the keys, 4,096 patches", words)

    def test_more_time_stands_higher_and_more_patches_further_right(self):
        panel = plot_attention.Panel(0, [1024, 4096], [5.0, 100.0], "log", "log")
        self.assertLess(panel.at(1024, 5.0)[0], panel.at(4096, 5.0)[0])
        self.assertGreater(panel.at(1024, 5.0)[1], panel.at(1024, 100.0)[1])

    def test_says_what_to_give_where_there_are_no_rows(self):
        with self.assertRaisesRegex(ValueError, "fovea bench attention"):
            plot_attention.read_rows('{"rows": []}')


if __name__ == "__main__":
    unittest.main()
