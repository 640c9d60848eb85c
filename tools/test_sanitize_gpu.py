#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/sanitize_gpu.py makes of compute-sanitizer's words: python3 tools/test_sanitize_gpu.py"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sanitize_gpu import TOLD_NOTHING, judge  # noqa: E402

PASSED = "[  PASSED  ] 1 test.\n"
NOTHING = "========= ERROR SUMMARY: 0 errors\n"
SOMETHING = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"


def race(kernel):
    return (f"========= Error: Race reported between Read access at {kernel}+0xaf0\n"
            f"=========     and Write access at {kernel}+0x2a40 [16 hazards]\n")


class Judges(unittest.TestCase):
    def verdict(self, log, status=0):
        return judge(status, log)[0]

    def test_a_test_that_passes_without_a_report_is_clean(self):
        self.assertEqual(self.verdict(PASSED + NOTHING), "clean")
        self.assertEqual(self.verdict(PASSED + f"========= Error: {TOLD_NOTHING}\n", 255), "clean")

    def test_a_race_is_a_failure_whosever_the_kernel_is(self):
        for kernel in ("fovea::rotate_heads(fovea::RotaryJob)", "nvjet_sm90_tss_64x8_1x4_h_bz_bias_TNT"):
            verdict, found = judge(0, race(kernel) + PASSED + SOMETHING)
            self.assertEqual((verdict, len(found)), ("failed", 1))

    def test_every_kind_of_report_is_seen(self):
        for report in ("Invalid __global__ read of size 4 bytes", "Uninitialized __global__ memory read of size 2 bytes",
                       "Host API memory access error at host access to 0x48 of size 240 bytes",
                       "Program hit cudaErrorInvalidValue (error 1) on CUDA API call to cudaMemcpyAsync.",
                       "Internal Sanitizer Error: The Sanitizer failed to handle a hardware exception."):
            verdict, found = judge(0, f"========= {report}\n" + PASSED + NOTHING)
            self.assertEqual((verdict, found), ("failed", [f"========= {report}"]))

    def test_a_test_that_is_skipped_is_not_clean(self):
        self.assertEqual(self.verdict("[  SKIPPED ] A.B (0 ms)\n[  PASSED  ] 0 tests.\n" + NOTHING), "skipped")

    def test_silence_is_not_success(self):
        self.assertEqual(self.verdict(PASSED), "failed")
        self.assertEqual(self.verdict(NOTHING), "failed")
        self.assertEqual(self.verdict("[  FAILED  ] 1 test, listed below:\n" + PASSED + NOTHING), "failed")
        self.assertEqual(self.verdict(PASSED + NOTHING, None), "failed")
        self.assertEqual(self.verdict(PASSED + "========= ERROR SUMMARY: 2 errors\n"), "failed")


if __name__ == "__main__":
    unittest.main()
