# SPDX-License-Identifier: Apache-2.0
"""python -m fovea: the program."""

from fovea.program import main

main()
