#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of cuda_test under compute-sanitizer, on a machine with a GPU.

  tools/sanitize_gpu.py memcheck|racecheck|initcheck [--tests FILTER] [--at-once N] [--logs DIR]

Each test has a process of its own. Ends with 1 where the tool reports something, a test fails or does not end.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = {
    # Some tests ask for memory that is not there: such calls may fail.
    "memcheck": ["--report-api-errors", "no"],
    # All kernels: one of cuBLASLt's that racecheck leaves as it is ends in an internal error of the tool.
    "racecheck": [],
    # Only ours: it does not see all that cuBLASLt reads and writes.
    "initcheck": ["--kernel-name", "kns=fovea", "--report-api-errors", "no"],
}
FOUND = re.compile(r"^========= (Error|Warning|Invalid|Uninitialized|Host API|Program hit|Internal)\b.*")
TOLD_NOTHING = "Target application terminated before first instrumented API call"


def judge(status, log):
    """-> ("clean" | "skipped" | "failed", what was reported). `status` is None where the test did not end."""
    if status is None:
        return "failed", ["did not end"]
    found = [line for line in log.splitlines() if FOUND.match(line) and TOLD_NOTHING not in line]
    if found:
        return "failed", found
    if re.search(r"^\[  PASSED  \]", log, re.M) is None or "[  FAILED" in log:
        return "failed", ["the test did not pass"]
    if "SUMMARY: 0 " not in log and TOLD_NOTHING not in log:
        return "failed", ["the tool did not say that it found nothing"]
    return ("skipped" if "[  SKIPPED ]" in log else "clean"), []


def tests_of(binary, chosen):
    listed = subprocess.run([binary, "--gtest_list_tests", f"--gtest_filter={chosen}"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    suite, names = "", []
    for line in listed.splitlines():
        if line.startswith(" "):
            names.append(suite + line.split()[0])
        elif line.split(" ")[0].endswith("."):
            suite = line.split(" ")[0]
    return names


def run(tool, binary, name, seconds, logs):
    command = ["compute-sanitizer", "--tool", tool, *OPTIONS[tool], str(binary), f"--gtest_filter={name}"]
    path = logs / (name.replace("/", "_") + ".log")
    began = time.monotonic()
    with open(path, "w", encoding="utf-8") as log:
        try:
            status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds).returncode
        except subprocess.TimeoutExpired:
            status = None
    verdict, found = judge(status, path.read_text(encoding="utf-8", errors="replace"))
    return name, verdict, found, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=OPTIONS)
    parser.add_argument("--tests", default="*", help="as --gtest_filter")
    parser.add_argument("--at-once", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1800, help="that a test may take")
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/cuda_test")
    parser.add_argument("--logs", type=Path, help="a folder that keeps what the tool said")
    options = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        sys.exit("compute-sanitizer is not on PATH: it is part of the CUDA toolkit")
    if not os.access(options.binary, os.X_OK):
        sys.exit(f"there is no program {options.binary}: build it, or name it with --binary")
    names = tests_of(options.binary, options.tests)
    if not names:
        sys.exit(f"no test of {options.binary} is called {options.tests}")
    logs = options.logs or Path(tempfile.mkdtemp(prefix="sanitize_"))
    logs.mkdir(parents=True, exist_ok=True)
    verdicts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        jobs = [pool.submit(run, options.tool, options.binary, name, options.seconds, logs) for name in names]
        for ended, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            name, verdict, found, took = job.result()
            verdicts[verdict] += 1
            # A line for each, so that a run that is cut off has said what it found.
            print(f"{ended:4} of {len(names)}  {verdict:8}{took:6.0f} s  {name}{': ' + found[0] if found else ''}",
                  flush=True)
    print(f"{options.tool}: {len(names)} tests, {verdicts['clean']} clean, {verdicts['skipped']} skipped, "
          f"{verdicts['failed']} failed; logs in {logs}")
    if verdicts["skipped"] == len(names):
        sys.exit("all tests were skipped: is there a GPU?")
    sys.exit(1 if verdicts["failed"] else 0)


if __name__ == "__main__":
    main()
