# SPDX-License-Identifier: Apache-2.0
"""Engine and Session: a model, and pictures that it was shown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from fovea import _fovea
from fovea.errors import InputError, wrong_type
from fovea.options import AskOptions, ask_keywords, json_text
from fovea.request import Stream, Ticket, answer_of
from fovea.words import Answer, Info, Memory, Picture

if TYPE_CHECKING:
    from typing_extensions import Unpack

# A text, or a conversation: {"role": "user", "content": [0, "What is it?"]}, ..., where a number is
# a picture's.
Question = Union[str, Sequence[Mapping[str, Any]]]


class Engine:
    """A loaded model. Any number of threads and tasks may ask it at once.

    model    the name of a model that came with Fovea, or the folder of a Qwen3-VL checkpoint
    device   one of devices()
    weights  "f32", "bf16" or "int8"; None: as the files have them
    threads  0: the cores this process may use
    memory   the most bytes that keys and values may take; 0: half of what is free
    kernels  "best", or "portable": those that every device of its kind can run
    """

    def __init__(self, model: str | os.PathLike[str] = "tiny", device: str = "cpu", *,
                 weights: str | None = None, threads: int = 0, memory: int = 0,
                 kernels: str = "best") -> None:
        if not 0 <= threads <= 1024:
            raise InputError(f"threads={threads}: give a whole number from 0 to 1024")
        if not 0 <= memory < 1 << 63:
            raise InputError(f"memory={memory}: give bytes, 0 for the default")
        self._model, self._device = os.fspath(model), device
        self._engine = _fovea.Engine.load(model=self._model, device=device, weights=weights or "",
                                          threads=threads, memory=memory, kernels=kernels)

    def ask(self, images: Picture | Sequence[Picture] | None, question: Question,
            **options: Unpack[AskOptions]) -> Answer:
        """Answers a question about a picture, several, or none. Ctrl-C stops it."""
        pictures = pictures_of(images)
        return self._engine.ask(pictures, _messages(question, len(pictures)), ask_keywords(options))

    async def aask(self, images: Picture | Sequence[Picture] | None, question: Question,
                   **options: Unpack[AskOptions]) -> Answer:
        """The same for asyncio. Cancelling the task ends the request and frees its memory."""
        return await answer_of(lambda: self._submit(images, question, options))

    def stream(self, images: Picture | Sequence[Picture] | None, question: Question,
               **options: Unpack[AskOptions]) -> Stream:
        """Pieces of the answer's text, for `for` and for `async for`; starts with the first."""
        ask_keywords(options)
        return Stream(lambda: self._submit(images, question, options, stream=True))

    def submit(self, images: Picture | Sequence[Picture] | None, question: Question,
               **options: Unpack[AskOptions]) -> Ticket:
        """Starts on a question, beside all others that the model has, and returns at once."""
        return Ticket(self._submit(images, question, options, keep=True))

    def session(self, *pictures: Picture, max_pixels: int | None = None) -> Session:
        """A session about pictures, which are read now."""
        made = Session(self)
        made.add(*pictures, max_pixels=max_pixels)
        return made

    def tokenize(self, text: str, special: bool = False) -> list[int]:
        """Token ids of a text. special=True: "<|im_end|>" and the like in it are tokens."""
        return self._engine.tokenize(text, special)

    def detokenize(self, ids: Sequence[int], special: bool = True) -> str:
        """The text of token ids. special=False: special tokens are left out."""
        return self._engine.detokenize([int(i) for i in ids], special)

    def vocabulary(self) -> tuple[list[bytes], list[int]]:
        """The bytes of every token, empty for special ones, and the ids that end an answer."""
        return self._engine.vocabulary()

    def memory(self) -> Memory:
        """What the memory of keys and values holds."""
        return self._engine.memory()

    def info(self) -> Info:
        return Info(self._model, self._device, *self._engine.info())

    def _submit(self, images: Any, question: Question, options: Mapping[str, Any],
                stream: bool = False, keep: bool = False) -> _fovea.Request:
        pictures = pictures_of(images)
        return self._engine.submit(pictures, _messages(question, len(pictures)),
                                   ask_keywords(options), stream, keep)

    def __repr__(self) -> str:
        return f"<fovea.Engine {self._model} on {self._device}>"


class Session:
    """Pictures and what was computed of them: a question costs what no earlier one has paid for.

    One question at a time; another one meanwhile raises InputError.
    """

    def __init__(self, engine: Engine) -> None:
        self._session = engine._engine.session()
        self._engine = engine

    @property
    def images(self) -> int:
        """How many pictures it has; they are numbered from 0."""
        return self._session.images()

    def add(self, *pictures: Picture, max_pixels: int | None = None) -> None:
        self._session.add(list(pictures), max_pixels or 0)

    def ask(self, question: Question, **options: Unpack[AskOptions]) -> Answer:
        """Answers a question about all pictures, or goes on with a conversation."""
        return self._session.ask(_messages(question, self.images), ask_keywords(options))

    async def aask(self, question: Question, **options: Unpack[AskOptions]) -> Answer:
        return await answer_of(lambda: self._submit(question, options))

    def stream(self, question: Question, **options: Unpack[AskOptions]) -> Stream:
        ask_keywords(options)
        return Stream(lambda: self._submit(question, options, stream=True))

    def submit(self, question: Question, **options: Unpack[AskOptions]) -> Ticket:
        return Ticket(self._submit(question, options, keep=True))

    def _submit(self, question: Question, options: Mapping[str, Any],
                stream: bool = False, keep: bool = False) -> _fovea.Request:
        return self._session.submit(_messages(question, self.images), ask_keywords(options), stream,
                                    keep)

    def __repr__(self) -> str:
        return f"<fovea.Session of {self._engine!r}, {self.images} pictures>"


def pictures_of(images: Any) -> list[Any]:
    if images is None:
        return []
    return list(images) if isinstance(images, (list, tuple)) else [images]


def _messages(question: Question, pictures: int) -> list[tuple[str, list[str | int], str]]:
    """(role, parts, tool calls) of each message. Pictures that no message names stand at the
    beginning of the first one of the user."""
    if isinstance(question, str):
        return [("user", [*range(pictures), question], "")]
    if isinstance(question, Mapping) or not isinstance(question, Sequence):
        raise wrong_type(f"a question is a text or a list of messages, not "
                         f"{type(question).__name__}")
    made = [_message(message) for message in question]
    named = {part for _, parts, _ in made for part in parts if isinstance(part, int)}
    unnamed = [number for number in range(pictures) if number not in named]
    first = next((parts for role, parts, _ in made if role == "user"), None)
    if first is not None:
        first[:0] = unnamed
    return made


def _message(message: Any) -> tuple[str, list[str | int], str]:
    if not isinstance(message, Mapping) or "role" not in message:
        raise TypeError('a message is a dict such as {"role": "user", "content": "What is it?"}')
    content = message.get("content")
    parts = [] if content is None else [content] if isinstance(content, str) else list(content)
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, (str, int)):
            raise wrong_type(f"a message's content is a text, or a list of texts and of numbers of "
                             f"pictures; it has {part!r}")
    calls = message.get("tool_calls")
    return message["role"], parts, json_text(calls) if calls else ""
