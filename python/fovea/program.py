# SPDX-License-Identifier: Apache-2.0
"""The program `fovea`, which lies in the package: `pip install` puts this function on the path."""

from __future__ import annotations

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "fovea"


def main() -> None:
    if not PROGRAM.exists():
        print(f"fovea: there is no {PROGRAM}; this package came without the program", file=sys.stderr)
        sys.exit(1)
    os.execv(PROGRAM, ["fovea", *sys.argv[1:]])


if __name__ == "__main__":
    main()
