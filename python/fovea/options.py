# SPDX-License-Identifier: Apache-2.0
"""Keywords: their types, and what people may write made plain for the engine."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fovea import _fovea
from fovea.errors import InputError, wrong_type
from fovea.words import Plan

Point = tuple[float, float]
PlanLike = Union[str, "os.PathLike[str]", Plan, ArrayLike]
Fixations = Union[Point, Sequence[Point], Sequence[Sequence[Point]]]
MapLike = Union[str, "os.PathLike[str]", ArrayLike]
# The ids of an answer so far -> ids that may come next, or a bool for each token, or None: all.
Mask = Callable[[list[int]], Union[ArrayLike, None]]


class AskOptions(TypedDict, total=False):
    """Keywords of ask, stream, submit and aask; docs/ask.md says what they do. None: the default."""

    # Where to look.
    budget: int | None  # the most cells of a picture; 96, or all for plan="uniform"
    plan: PlanLike | Sequence[PlanLike] | None  # a maker's name; or a plan, or one for each picture
    look: str | None  # "mixed", "crops" or "off"
    looks: int | None  # at most so many looks
    sure: float | None  # no further look where the first token is at least so probable
    relook: float | None  # one look more, before a token that is less probable than this
    balance: str | None
    size_bias: bool | None
    fixation: Fixations | None  # x, y in pixels of the picture; several; or a list for each picture
    coupling: MapLike | Sequence[MapLike | None] | None  # 2-D arrays of 0..1 (float) or 0..65535
    attention: str | None  # docs/attention.md
    attention_text: str | None
    keep: float | None  # share of the keys of visual tokens that stays (docs/forgetting.md)
    forget: str | None  # which ones: "vl-cache", "sparse-vlm", "merge", ...
    kv: str | None  # how keys and values are stored: "f32", "bf16", "int8", "fp8" (docs/memory.md)
    drop_looks: bool | None
    # How to answer.
    max_tokens: int | None
    least_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    logit_bias: Mapping[int, float] | None
    mask: Mask | None
    seed: int | None
    answers: int | None
    stop: str | Sequence[str] | None
    ignore_end: bool | None
    system: str | None
    tools: Sequence[Any] | str | None  # as in OpenAI's chat API
    enable_thinking: bool | None
    allow_special: bool | None
    # What to report.
    logprobs: int | None  # Token.likely
    trace: bool | None  # Look.attention and Token.attention
    gaze: bool | None  # Look.picture
    logits: bool | None  # Answer.logits
    # How it runs beside others.
    share: bool | None
    salt: str | None
    priority: int | None
    deadline: float | None  # seconds from now
    max_pixels: int | None  # larger pictures are refused


class PlanOptions(TypedDict, total=False):
    """Keywords of plan and patches. None: the default."""

    plan: PlanLike | None
    budget: int | None
    fixation: Point | Sequence[Point] | None
    coupling: MapLike | None
    balance: str | None
    centre_bias: bool | None
    max_pixels: int | None
    threads: int | None


class SeeOptions(TypedDict, total=False):
    """Keywords of see. None: the default."""

    plan: str | None
    budget: int | None
    question: str | None
    fixation: Point | Sequence[Point] | None
    coupling: MapLike | None
    balance: str | None
    centre_bias: bool | None
    draw: bool | None  # Sight.picture
    max_pixels: int | None
    threads: int | None
    device: str | None


_ASK = frozenset(AskOptions.__annotations__)
_PLAN = frozenset(PlanOptions.__annotations__)
_SEE = frozenset(SeeOptions.__annotations__)
_KINDS = frozenset(name for name, _ in _fovea.plan_kinds())
# What says where to look, and has no say beside a plan that was made.
_STEERS = ("look", "looks", "sure", "relook", "balance", "fixation", "coupling", "centre_bias")


def ask_keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    made = _known(options, _ASK)
    if not made:
        return made
    _settle_plans(made, many=True)
    if "fixation" in made:
        made["fixation"] = _fixations_of_each(made["fixation"])
    if "coupling" in made:
        made["coupling"] = _maps(made["coupling"])
    if isinstance(made.get("stop"), str):
        made["stop"] = [made["stop"]]
    if "logit_bias" in made:
        made["logit_bias"] = list(dict(made["logit_bias"]).items())
    if "tools" in made:
        made["tools"] = json_text(made["tools"])
    if "mask" in made:
        made["mask"] = _bits_of(made["mask"])
    return made


def plan_keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    made = _known(options, _PLAN)
    _settle_plans(made, many=False)
    return _settle_one(made)


def see_keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    return _settle_one(_known(options, _SEE))


def json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _known(options: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise wrong_type(f"there is no keyword '{name}'{hint}")
    return {name: value for name, value in options.items() if value is not None}


def _settle_one(made: dict[str, Any]) -> dict[str, Any]:
    if "fixation" in made:
        points = made["fixation"]
        made["fixation"] = [points] if _is_point(points) else [tuple(point) for point in points]
    if "coupling" in made:
        made["coupling"] = _map(made["coupling"])
    return made


def _settle_plans(made: dict[str, Any], many: bool) -> None:
    """A maker's name stays in `plan`; plans that were made go to `plans`."""
    given = made.get("plan")
    if given is None or (isinstance(given, str) and given in _KINDS):
        return
    # A list of numbers is cells; a list of anything else is a plan for each picture.
    several = many and isinstance(given, (list, tuple)) and not _is_cells(given)
    plans = list(given) if several else [given]
    if not plans:
        raise InputError("plan=[]: give one for each picture")
    for word in _STEERS:
        if word in made:
            raise InputError(f"{word} goes with plan makers: a plan says by itself where to look")
    del made["plan"]
    made["plans"] = [_plan(plan) for plan in plans]


def _plan(given: Any) -> str | tuple[str, NDArray[np.int32], tuple[int, int]]:
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    plan = given if isinstance(given, Plan) else Plan(given)
    cells = _array(plan.cells)
    if cells.ndim != 2 or cells.shape[1] != 3 or cells.dtype.kind not in "iu":
        raise InputError(f"cells of the shape {list(cells.shape)} and the type {cells.dtype}: give "
                         "whole numbers, [n, 3]: level, row, column")
    if not len(cells):
        raise InputError("the plan has no cells")
    if cells.min() < 0 or cells.max() >= 1 << 31:
        raise InputError("cells: a level, row or column is below 0 or over 2**31")
    return plan.maker, np.ascontiguousarray(cells, np.int32), plan.canvas or (0, 0)


def _is_cells(given: Sequence[Any]) -> bool:
    first = given[0] if len(given) else None
    return isinstance(first, (list, tuple)) and len(first) == 3 and isinstance(first[0], int)


def _is_point(value: Any) -> bool:
    return len(value) == 2 and all(isinstance(n, (int, float, np.number)) for n in value)


def _fixations_of_each(value: Any) -> list[list[tuple[float, ...]]]:
    if _is_point(value):
        return [[tuple(value)]]
    if all(_is_point(point) for point in value):
        return [[tuple(point) for point in value]]  # of the first picture
    return [[tuple(point) for point in points] for points in value]


def _maps(value: Any) -> list[NDArray[np.uint16] | None]:
    if isinstance(value, (list, tuple)):
        return [None if one is None else _map(one) for one in value]
    return [_map(value)]


def _map(value: Any) -> NDArray[np.uint16]:
    """16-bit scores of a map: a picture's lightness, 0..1 as float, or such scores."""
    if isinstance(value, (str, os.PathLike)):
        return _fovea.load_map(os.fspath(value))
    array = _array(value)
    if array.ndim != 2:
        raise InputError(f"a coupling map has the shape {list(array.shape)}; give [rows, columns]")
    if array.dtype.kind in "fb":
        if array.size and not (array.min() >= 0 and array.max() <= 1):
            raise InputError("a coupling map of floating-point numbers: give values from 0 to 1")
        array = np.rint(array.astype(np.float64) * 65535).astype(np.uint16)
    elif array.dtype != np.uint16:
        raise InputError(f"a coupling map has the type {array.dtype}; give uint16 (0..65535) or a "
                         "floating-point type (0..1)")
    return np.ascontiguousarray(array)


def _array(value: Any) -> NDArray[Any]:
    """An array's values; of a tensor on a device by its own cpu(), which waits for the caller's stream."""
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)


def _bits_of(mask: Mask) -> Callable[[list[int], int], bytes | None]:
    """The mask as the engine asks it: a bit for each of `count` tokens, the lowest first."""
    if not callable(mask):
        raise wrong_type(f"mask={mask!r}: give something that can be called")

    def bits(ids: list[int], count: int) -> bytes | None:
        said = mask(ids)
        if said is None:
            return None
        array = np.asarray(said)
        allowed = np.zeros(count, np.bool_)
        if array.dtype == np.bool_:
            if array.ndim != 1 or len(array) > count:
                raise InputError(f"a mask of the shape {list(array.shape)}: give one bool a token")
            allowed[: len(array)] = array
        elif array.size:
            if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= count:
                raise InputError("a mask gave something else than ids of tokens")
            allowed[array] = True
        return np.packbits(allowed, bitorder="little").tobytes()

    return bits
