# SPDX-License-Identifier: Apache-2.0
"""Fovea lets a vision-language model look the way eyes do."""

from fovea import cards
from fovea._fovea import version

__all__ = ["cards", "version"]
__version__ = version()
