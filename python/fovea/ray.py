# SPDX-License-Identifier: Apache-2.0
"""Fovea in Ray Data: a class for Dataset.map_batches, whose actors load a model once and ask it about many pictures
side by side.

    answers = pictures.map_batches(fovea.ray.Ask, fn_constructor_kwargs={"question": "What is on the table?",
                                   "model": DIR}, batch_size=16, compute=ray.data.ActorPoolStrategy(size=2))

docs/python.md tells the rest. Nothing here needs Ray: it calls the class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np

from fovea.engine import Engine
from fovea.errors import Error, InputError
from fovea.words import Answer

# The columns that are added; in a row that failed all but `error` are empty.
COLUMNS = ("text", "finish", "confidence", "tokens", "image_tokens", "image_tokens_full", "error")


class Ask:
    """Asks one question about each row's picture, or each row's own question.

    question   a text; or None: the column `questions` has each row's
    pictures   the column of pictures: paths, bytes of files, or arrays as fovea takes them
    at_once    questions of this actor that the engine has at once, over all of its batches
    model, device, weights, threads, memory, kernels   as of fovea.Engine
    options    as of engine.ask

    A batch (batch_format "default" or "numpy") comes back with the columns COLUMNS added, its rows in their order.
    What is wrong with a picture or a question is its row's `error`, None in all others; what is wrong with the
    machine or with the options is raised, and ends the job.
    """

    def __init__(self, model: str = "tiny", question: str | None = None, *, pictures: str = "path",
                 questions: str = "question", at_once: int = 8, device: str = "cpu", weights: str | None = None,
                 threads: int = 0, memory: int = 0, kernels: str = "best", **options: Any) -> None:
        if at_once < 1:
            raise InputError(f"at_once={at_once}: give 1 or more")
        self.engine = Engine(model, device, weights=weights, threads=threads, memory=memory, kernels=kernels)
        self.question, self.pictures, self.questions, self.options = question, pictures, questions, options
        self._room = asyncio.Semaphore(at_once)
        # What is wrong with the options would be wrong in every row: they are checked, and nothing is computed.
        self.engine.ask(None, question or "", **{**options, "deadline": 0.0})

    async def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        wanted = [self.pictures] if self.question is not None else [self.pictures, self.questions]
        for column in wanted:
            if column not in batch:
                raise InputError(f"there is no column {column!r} in {', '.join(sorted(batch))}")
        rows = len(batch[self.pictures])
        questions = batch[self.questions] if self.question is None else [self.question] * rows
        answers = await asyncio.gather(*(self._ask(picture, str(question))
                                         for picture, question in zip(batch[self.pictures], questions)))
        return {**batch, **columns(answers)}

    async def _ask(self, picture: Any, question: str) -> Answer | str:
        async with self._room:
            try:
                # numpy has texts of its own
                given = str(picture) if isinstance(picture, str) else picture
                return await self.engine.aask(given, question, **self.options)
            except Error as error:
                if error.reason == "memory" or (not isinstance(error, InputError) and error.reason == "other"):
                    raise
                return str(error)


def columns(answers: list[Answer | str]) -> dict[str, Any]:
    """COLUMNS of answers, or of what went wrong."""
    def of(read: Any, missing: Any) -> list[Any]:
        return [missing if isinstance(one, str) else read(one) for one in answers]

    return {
        "text": _objects(of(lambda one: one.text, "")),
        "finish": _objects(of(lambda one: one.finish, "")),
        "confidence": np.array(of(lambda one: one.confidence, np.nan), np.float64),
        "tokens": np.array(of(lambda one: one.usage.answer_tokens, 0), np.int64),
        "image_tokens": np.array(of(lambda one: one.usage.image_tokens, 0), np.int64),
        "image_tokens_full": np.array(of(lambda one: one.usage.image_tokens_full, 0), np.int64),
        "error": _objects([one if isinstance(one, str) else None for one in answers]),
    }


def _objects(values: list[Any]) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made
