# SPDX-License-Identifier: Apache-2.0
"""What the engine raises: one line that says what was tried, the value, and what to try."""

from __future__ import annotations

from fovea import _fovea


def one_line(text: str) -> str:
    """What every message is, whatever it quotes: one printable line of at most 500 characters."""
    return _fovea.one_line(text.encode("utf-8", "backslashreplace").decode())


def wrong_type(message: str) -> TypeError:
    return TypeError(one_line(message))


class Error(Exception):
    """Of every error of the engine.

    `reason` is for programs that act on some of them: "context" (the prompt is longer than the
    model's context), "room" (keys and values may need more than is left of the memory for them),
    "memory" (the system has no more), or "other".
    """

    reason: str

    def __init__(self, message: str, reason: str = "other") -> None:
        super().__init__(one_line(message))
        self.reason = reason

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (str(self), self.reason)


class InputError(Error, ValueError):
    """Something that was given is wrong: exit status 2 of the program."""


class WorkError(Error, RuntimeError):
    """Work that failed: exit status 1 of the program."""
