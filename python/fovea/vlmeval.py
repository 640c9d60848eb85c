# SPDX-License-Identifier: Apache-2.0
"""Fovea as a model of VLMEvalKit: put it into vlmeval/config.py,

    from functools import partial
    from fovea.vlmeval import Fovea
    supported_VLM["fovea-96"] = partial(Fovea, model="DIR", budget=96)

or call generate() as VLMEvalKit does. It needs nothing of VLMEvalKit by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fovea.engine import Engine
from fovea.errors import InputError


class Fovea:
    INSTALL_REQ = False
    INTERLEAVE = True  # pictures may stand between texts
    is_api = False

    def __init__(self, model: str = "tiny", device: str = "cpu", *, weights: str | None = None, threads: int = 0,
                 memory: int = 0, **options: Any) -> None:
        self.engine = Engine(model, device, weights=weights, threads=threads, memory=memory)
        self.options = options
        self.dump_image_func: Any = None

    def set_dump_image(self, dump_image_func: Any) -> None:
        """VLMEvalKit's way to write a dataset's pictures into files."""
        self.dump_image_func = dump_image_func

    def dump_image(self, line: Any, dataset: str) -> Any:
        return self.dump_image_func(line)

    def use_custom_prompt(self, dataset: str) -> bool:
        return False

    def generate(self, message: str | Sequence[str | Mapping[str, Any]], dataset: str | None = None) -> str:
        """message: a text; or texts and paths; or {"type": "text" or "image", "value": ...}, in their order."""
        return self._ask([{"role": "user", "content": _parts(message)}])

    def chat(self, messages: Sequence[Mapping[str, Any]], dataset: str | None = None) -> str:
        """Several messages: {"role": ..., "content": as of generate()}."""
        return self._ask([{"role": one["role"], "content": _parts(one["content"])} for one in messages])

    def generate_inner(self, message: Any, dataset: str | None = None) -> str:
        return self.generate(message, dataset)

    def _ask(self, messages: list[dict[str, Any]]) -> str:
        pictures: list[Any] = []
        for message in messages:
            content: list[Any] = []
            for kind, value in message["content"]:
                if kind == "image":
                    content.append(len(pictures))
                    pictures.append(value)
                else:
                    content.append(value)
            message["content"] = content
        return self.engine.ask(pictures, messages, **self.options).text


def _parts(message: Any) -> list[tuple[str, Any]]:
    if isinstance(message, str):
        return [("text", message)]
    parts = []
    for one in message:
        if isinstance(one, str):  # a file's path, or text
            parts.append(("image" if one.lower().endswith((".jpg", ".jpeg", ".png", ".webp")) else "text", one))
        elif one.get("type") in ("text", "image"):
            parts.append((one["type"], one["value"]))
        else:
            raise InputError(f"a part of the type {one.get('type')!r}: Fovea takes text and image")
    return parts
