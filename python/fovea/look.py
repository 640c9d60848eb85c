# SPDX-License-Identifier: Apache-2.0
"""Looking without a model: what would be looked at, and what a tower would be given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fovea import _fovea
from fovea.errors import InputError
from fovea.options import PlanOptions, SeeOptions, plan_keywords, see_keywords
from fovea.words import Crops, Device, Patches, Picture, Plan, PlanKind, Sight

if TYPE_CHECKING:
    from typing_extensions import Unpack


def see(image: Picture, **options: Unpack[SeeOptions]) -> Sight:
    """What would be looked at in a picture, and why: the plan, the maps, a picture of it all."""
    return _fovea.see(image, see_keywords(options))


def plan(image: Picture, **options: Unpack[PlanOptions]) -> Plan:
    """The cells alone."""
    return _fovea.patches(image, plan_keywords(options), False)[2]


def patches(image: Picture, **options: Unpack[PlanOptions]) -> Patches:
    """What a tower is given for a plan, in Qwen3-VL's layout.

    plan="uniform" without a budget is what transformers' processor makes of the picture.
    """
    size, canvas, made, fixations, values, positions, levels = _fovea.patches(
        image, plan_keywords(options), True)
    return Patches(values, positions, levels, made, size, canvas, fixations)


def crops(image: Picture, **options: Unpack[PlanOptions]) -> Crops:
    """A glance, and rectangles of fine cells behind it: a look for models not trained for mixed levels."""
    if options.get("plan") is not None:
        raise InputError("crops are made by glance+look: leave plan out")
    return Crops(*_fovea.crops(image, plan_keywords(options)))


def load_image(image: Picture, max_pixels: int | None = None) -> NDArray[np.uint8]:
    """The pixels of a picture as the engine reads them: [height, width, 3], rotated as EXIF says."""
    return _fovea.load_image(image, max_pixels or 0)


def load_map(path: str | os.PathLike[str]) -> NDArray[np.uint16]:
    """A picture as a map for coupling=, by its lightness: black 0, white 65535."""
    return _fovea.load_map(os.fspath(path))


def devices() -> list[Device]:
    """What this machine can compute on, the CPU first."""
    return [Device(*device) for device in _fovea.devices()]


def plan_kinds() -> list[PlanKind]:
    """The plan makers: what plan= takes."""
    return [PlanKind(*kind) for kind in _fovea.plan_kinds()]
