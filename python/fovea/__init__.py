# SPDX-License-Identifier: Apache-2.0
"""Fovea lets a vision-language model look the way eyes do.

    engine = fovea.Engine()
    answer = engine.ask("scene.png", "Which code is on the red star?", budget=96)
    print(answer.text, answer.usage.image_tokens, "of", answer.usage.image_tokens_full)

docs/python.md describes every function.
"""

import atexit

from fovea import _fovea, cards
from fovea._fovea import version
from fovea.engine import Engine, Session
from fovea.errors import Error, InputError, WorkError
from fovea.look import crops, devices, load_image, load_map, patches, plan, plan_kinds, see
from fovea.options import AskOptions, PlanOptions, SeeOptions
from fovea.request import Stream, Ticket
from fovea.words import (Answer, Crops, Device, Info, LikelyToken, Look, Memory, Patches, Plan, PlanKind,
                         Saccade, Sight, Token, Trace, Usage)

__all__ = [
    "Answer", "AskOptions", "Crops", "Device", "Engine", "Error", "Info", "InputError", "LikelyToken",
    "Look", "Memory", "Patches", "Plan", "PlanKind", "PlanOptions", "Saccade", "SeeOptions",
    "Session", "Sight", "Stream", "Ticket", "Token", "Trace", "Usage", "WorkError", "cards",
    "crops", "devices", "load_image", "load_map", "patches", "plan", "plan_kinds", "see", "version",
]
__version__: str = version()

# Requests that still run are stopped, and waited for, while Python can still be called.
atexit.register(_fovea.end)
