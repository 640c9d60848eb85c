# SPDX-License-Identifier: Apache-2.0
"""CardField: scenes and questions from a seed (docs/cards.md)."""

from __future__ import annotations

import atexit
import functools
import operator
import os
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from fovea import _fovea

SHAPES = tuple(_fovea.SHAPES)
COLOURS = tuple(_fovea.COLOURS)
DIRECTIONS = tuple(_fovea.DIRECTIONS)
FAMILIES = tuple(_fovea.FAMILIES)
KINDS = ("code", "ticks", "gap", "arrow")
ALPHABET = _fovea.ALPHABET
MAX_CARDS = _fovea.MAX_CARDS
# Columns of generate()'s array `cards`.
COLUMNS = ("x", "y", "side", "shape", "colour", "kind", "x0", "y0", "x1", "y1", "char1", "char2",
           "ticks", "direction", "target", "payload_px")


def generate(seed: int, count: int, *, width: int = 1024, height: int = 1024, cards_min: int = 24,
             cards_max: int = 24, payload_min: int = 10, payload_max: int = 13, questions: int = 32,
             families: Iterable[str] | None = None, tokenizer: str | os.PathLike[str] | None = None,
             question_tokens: int = 24, answer_tokens: int = 4, threads: int = 0,
             blank_payloads: bool = False, images: NDArray[np.uint8] | None = None,
             texts: bool = False) -> dict[str, Any]:
    """Scenes of the seeds seed .. seed + count - 1, each with its questions, as a dict.

    images           uint8 [n, height, width, 3]; filled in place where given
    cards            int16 [n, 48, 16], columns as in COLUMNS; -1 where there is nothing
    family           int8 [n, questions], places in FAMILIES, which take turns
    evidence         uint64 [n, questions], a bit for each card whose payload must be read
    question_ids     int32 [n, questions, question_tokens], -1 behind the text; with a tokenizer,
                     which is the path of a checkpoint folder or of its tokenizer.json
    question_length  int8 [n, questions]
    answer_ids       int32 [n, questions, answer_tokens]; answer_length likewise
    questions        lists of str, with texts=True or without a tokenizer; answers likewise

    threads=0 takes the cores this process may use; the result is the same for any number.
    """
    if isinstance(families, str):
        raise TypeError("families: give a list of names")
    count = _whole("count", count, 0, 1 << 31)
    questions = _whole("questions", questions, 0, 1 << 20)
    families = list(FAMILIES if families is None else families)
    if not families:
        raise ValueError("families: give at least one of " + ", ".join(FAMILIES))
    shape = (count, _whole("height", height, 1, 1 << 15), _whole("width", width, 1, 1 << 15), 3)
    if images is None:
        images = np.empty(shape, np.uint8)
    elif not (isinstance(images, np.ndarray) and images.shape == shape and
              images.dtype == np.uint8 and images.flags.c_contiguous and images.flags.writeable):
        raise ValueError(f"images: give a writable, contiguous uint8 array of shape {shape}")
    result = {
        "images": images,
        "cards": np.empty((count, MAX_CARDS, len(COLUMNS)), np.int16),
        "family": np.empty((count, questions), np.int8),
        "evidence": np.empty((count, questions), np.uint64),
    }
    tokens = {}
    loaded = None
    if tokenizer is not None:
        question_tokens = _whole("question_tokens", question_tokens, 1, 127)
        answer_tokens = _whole("answer_tokens", answer_tokens, 1, 127)
        tokens = {
            "question_ids": np.empty((count, questions, question_tokens), np.int32),
            "question_length": np.empty((count, questions), np.int8),
            "answer_ids": np.empty((count, questions, answer_tokens), np.int32),
            "answer_length": np.empty((count, questions), np.int8),
        }
        loaded = _tokenizer(os.fspath(tokenizer))
    written = _fovea.fill_cards(
        seed=_whole("seed", seed, 0, 1 << 64), cards_min=cards_min, cards_max=cards_max,
        payload_min=payload_min, payload_max=payload_max, blank_payloads=blank_payloads,
        families=families, images=images, cards=result["cards"], family=result["family"],
        evidence=result["evidence"], tokenizer=loaded, token_arrays=list(tokens.values()),
        texts=bool(texts) or loaded is None, threads=_whole("threads", threads, 0, 1025))
    result.update(tokens)
    if written is not None:
        result["questions"], result["answers"] = written
    return result


def _whole(name: str, value: SupportsIndex, least: int, end: int) -> int:
    value = operator.index(value)
    if not least <= value < end:
        raise ValueError(f"{name}={value}: give a whole number from {least} to {end - 1}")
    return value


@functools.lru_cache(maxsize=4)
def _tokenizer(path: str) -> _fovea.Tokenizer:
    return _fovea.Tokenizer.load(path)


atexit.register(_tokenizer.cache_clear)  # nanobind reports what outlives the interpreter as leaked
