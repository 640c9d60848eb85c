# SPDX-License-Identifier: Apache-2.0
"""Stock transformers' Qwen3-VL looks by Fovea's plans.

    eyes = fovea.transformers.attach(model)
    inputs = eyes.prepare(tokenizer, messages, ["scene.png"], budget=96)
    ids = model.generate(**inputs, max_new_tokens=32)

Nothing of the model's weights or of transformers' code is changed: five functions of this one model are
wrapped, and calls without cells go through as they came. docs/python.md tells the rest.
"""

from __future__ import annotations

import contextvars
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen

from fovea.errors import InputError
from fovea.look import crops as look_for_crops
from fovea.look import patches as patches_of
from fovea.tower import Seen, encode_cells, token_positions
from fovea.words import Look, Picture, Plan

EXTRAS = "fovea.safetensors"  # what Fovea's own models have beside model.safetensors (docs/weights.md)
FORMS = ("mixed", "crops", "off")
Int64s = NDArray[np.int64]


class Shown(NamedTuple):
    """A picture as the model is shown it: one image of the prompt, and one more for each crop."""

    values: NDArray[np.float32]  # [4 * cells, 1536], of all its images
    cells: list[Int64s]  # of each image [n, 4]: part, level, row, column
    grids: list[tuple[int, int, int]]  # of each image: its canvas in level-0 patches


class Eyes:
    """What attach() gives: prepare() makes a model's inputs of pictures, detach() leaves it as it was."""

    def __init__(self, model: Any, levels: Any) -> None:
        self.model, self.levels = model, levels
        self._seen: contextvars.ContextVar[Seen | None] = contextvars.ContextVar("seen", default=None)
        inner = model.model
        self._wrapped: list[tuple[Any, str, Any]] = []
        self._wrap(model, "forward", self._forward)
        self._wrap(model, "_expand_inputs_for_generation", self._expand)
        self._wrap(inner, "get_image_features", self._image_features)
        self._wrap(inner, "get_rope_index", self._rope_index)
        self._wrap(inner.visual, "forward", self._tower)
        model.fovea_eyes = self

    def detach(self) -> None:
        """The model is as it was before attach()."""
        for owner, name, wrapper in self._wrapped:
            if owner.__dict__.get(name) is wrapper:
                delattr(owner, name)
        self._wrapped.clear()
        if getattr(self.model, "fovea_eyes", None) is self:
            del self.model.fovea_eyes

    def prepare(self, tokenizer: Any, text: str | Sequence[Any], images: Sequence[Picture] | Picture, *,
                look: str | None = None, plan: Any = None, **options: Any) -> dict[str, Any]:
        """Inputs for model(...) and model.generate(...).

        tokenizer  the model's, or its processor
        text       messages; or a text with one <|image_pad|> for each picture; or a list of such texts
        images     the pictures, in the order of their placeholders
        look       "mixed", "crops" or "off", as `fovea ask --look`
        plan       a maker's name, a plan, or a Look of an engine's answer; a list for several pictures
        """
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        if look not in (None, *FORMS):
            raise InputError(f"look={look!r}: use {', '.join(FORMS)}")
        pictures = list(images) if isinstance(images, (list, tuple)) else [images]
        plans = list(plan) if isinstance(plan, (list, tuple)) and len(plan) == len(pictures) > 1 else (
            [plan] * len(pictures))
        shown = [self._show(picture, look, one, options) for picture, one in zip(pictures, plans)]
        return self._inputs(tokenizer, _texts(tokenizer, text), shown)

    # What a picture becomes.

    def _show(self, picture: Picture, look: str | None, plan: Any, options: Mapping[str, Any]) -> Shown:
        if isinstance(plan, Look):
            return _show_look(picture, plan)
        if plan is None:
            plan = "glance+look"
        looks = isinstance(plan, str) and plan == "glance+look"
        if look is None:
            look = "mixed" if self.levels is not None or not looks else "crops"
        if look != "mixed" and not looks:
            raise InputError(f"look={look!r} goes with the plan 'glance+look'")
        if look == "crops":
            made = look_for_crops(picture, **options)
            return _cut(picture, made.plan, made.glance_tokens, made.crops)
        seen = patches_of(picture, plan=plan, **options)
        glance = glance_of(seen.plan)
        if look == "off":
            return _cut(picture, Plan(seen.plan.cells[:glance], seen.plan.maker, 0, seen.canvas), glance, [])
        part = np.arange(len(seen.plan.cells)) >= (glance or len(seen.plan.cells))
        return Shown(seen.values, [np.column_stack([part, seen.plan.cells]).astype(np.int64)], [seen.grid_thw])

    def _inputs(self, tokenizer: Any, texts: list[str], shown: Sequence[Shown]) -> dict[str, Any]:
        config = self.model.config
        begin, pad, end = tokenizer.convert_ids_to_tokens(
            [config.vision_start_token_id, config.image_token_id, config.vision_end_token_id])
        told = sum(text.count(pad) for text in texts)
        if told != len(shown):
            raise InputError(f"the text has {told} of {pad} for {len(shown)} pictures: give one for each")
        left = iter(shown)
        written = []
        for text in texts:
            before, *pieces = text.split(pad)
            for piece in pieces:
                pads = [pad * len(cells) for cells in next(left).cells]
                before += f"{end}{begin}".join(pads) + piece
            written.append(before)
        # The tokens of the text are those of the tokenizer; special ones stand in it already.
        tokens = tokenizer(written, return_tensors="pt", padding=len(written) > 1, add_special_tokens=False)
        ids = tokens["input_ids"]
        cells = [(number, one) for number, one in enumerate(cells for each in shown for cells in each.cells)]
        device = self.model.device
        made = {"input_ids": ids, "attention_mask": tokens["attention_mask"],
                "mm_token_type_ids": (ids == config.image_token_id).int()}
        if cells:
            made["pixel_values"] = torch.from_numpy(np.concatenate([each.values for each in shown]))
            made["image_grid_thw"] = torch.tensor([grid for each in shown for grid in each.grids])
            made["image_cells"] = torch.from_numpy(np.concatenate(
                [np.column_stack([np.full(len(one), number), one]) for number, one in cells]).astype(np.int64))
        return {name: value.to(device) for name, value in made.items()}

    # What stands in for the model's own functions. Each has the one it replaces as its first argument.

    def _wrap(self, owner: Any, name: str, body: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return body(original, *args, **kwargs)

        signature = inspect.signature(original)
        if owner is self.model and name == "forward" or name == "get_image_features":
            # generate() looks which keywords there are.
            parameters = list(signature.parameters.values())
            mine = inspect.Parameter("image_cells", inspect.Parameter.KEYWORD_ONLY, default=None)
            parameters.insert(len(parameters) - 1, mine)  # before **kwargs
            signature = signature.replace(parameters=parameters)
        wrapper.__signature__ = signature  # type: ignore[attr-defined]
        wrapper.__name__ = name
        setattr(owner, name, wrapper)
        self._wrapped.append((owner, name, wrapper))

    def _forward(self, original: Callable[..., Any], *args: Any, image_cells: Any = None, **kwargs: Any) -> Any:
        # After the first token generate() has no pixels left to give, but still the cells.
        if image_cells is None or kwargs.get("pixel_values") is None:
            return original(*args, **kwargs)
        token = self._seen.set(_checked(image_cells, kwargs))
        try:
            return original(*args, **kwargs)
        finally:
            self._seen.reset(token)

    def _image_features(self, original: Callable[..., Any], pixel_values: Any, image_grid_thw: Any = None,
                        image_cells: Any = None, **kwargs: Any) -> Any:
        seen = self._seen.get()
        if image_cells is not None:  # newer versions' generate() encodes before it calls the model
            seen = _checked(image_cells, {"image_grid_thw": image_grid_thw})
        if seen is None:
            return original(pixel_values, image_grid_thw, **kwargs)
        # It cuts the tower's tokens into images by the sizes of their grids: these have as many as cells.
        stand_in = torch.tensor([[1, 2, 2 * count] for count in seen.counts()], device=pixel_values.device)
        token = self._seen.set(seen)
        try:
            return original(pixel_values, stand_in, **kwargs)
        finally:
            self._seen.reset(token)

    def _tower(self, original: Callable[..., Any], hidden_states: Any, grid_thw: Any = None,
               **kwargs: Any) -> Any:
        seen = self._seen.get()
        if seen is None:
            return original(hidden_states, grid_thw, **kwargs)
        last, tokens, taps = encode_cells(self.model.model.visual, hidden_states, seen, self.levels)
        return qwen.BaseModelOutputWithDeepstackFeatures(
            last_hidden_state=last, pooler_output=tokens, deepstack_features=taps)

    def _rope_index(self, original: Callable[..., Any], input_ids: Any, *args: Any, image_cells: Any = None,
                    **kwargs: Any) -> Any:
        seen = self._seen.get()
        if image_cells is not None:  # generate() asks before it calls the model
            seen = _checked(image_cells, kwargs)
        if seen is None:
            return original(input_ids, *args, **kwargs)
        return token_positions(input_ids == self.model.config.image_token_id, seen, kwargs.get("attention_mask"))

    def _expand(self, original: Callable[..., Any], expand_size: int = 1, input_ids: Any = None,
                **kwargs: Any) -> Any:
        if expand_size == 1 or kwargs.get("image_cells") is None:
            return original(expand_size=expand_size, input_ids=input_ids, **kwargs)
        # Versions that have not encoded yet repeat pixels by the sizes of grids; here cells say how many.
        visual = {name: kwargs.pop(name) for name in ("pixel_values", "image_grid_thw", "image_cells")}
        starts = (input_ids[:, :-1] == self.model.config.vision_start_token_id) & (
            input_ids[:, 1:] == self.model.config.image_token_id)
        images = starts.sum(1).tolist()
        ids, expanded = original(expand_size=expand_size, input_ids=input_ids, **kwargs)
        return ids, {**expanded, **repeated(visual, images, expand_size)}


def attach(model: Any, extras: str | os.PathLike[str] | None = None) -> Eyes:
    """Lets a Qwen3VLForConditionalGeneration look by plans; without cells it computes what it did before.

    extras  the fovea.safetensors of a model that was trained for mixed levels; None: the one in the model's
            folder, where there is one
    """
    inner = getattr(model, "model", None)
    if not isinstance(getattr(inner, "visual", None), qwen.Qwen3VLVisionModel):
        raise InputError(f"a {type(model).__name__} has no tower of Qwen3-VL: give a "
                         "Qwen3VLForConditionalGeneration")
    if getattr(model, "fovea_eyes", None) is not None:
        raise InputError("the model has eyes already: detach() them first")
    if extras is None:
        beside = Path(str(getattr(model.config, "_name_or_path", ""))) / EXTRAS
        extras = beside if beside.is_file() else None
    levels = None
    if extras is not None:
        with safe_open(os.fspath(extras), "pt") as file:
            levels = file.get_tensor("level_embedding")
    return Eyes(model, levels)


def glance_of(plan: Plan) -> int:
    """How many cells of a glance+look plan are its glance, the first ones; of other plans 0."""
    if plan.maker != "glance+look":
        return 0
    levels = np.asarray(plan.cells)[:, 0]
    return int((levels == levels[0]).sum()) if levels[0] > 0 else 0


def repeated(visual: Mapping[str, Any], images: Sequence[int], times: int) -> dict[str, Any]:
    """Pixels, grids and cells of sequences with so many images each, every sequence several times in a row."""
    cells, grid = visual["image_cells"], visual["image_grid_thw"]
    counts = Seen(cells, grid).counts()
    by_image = torch.split(cells[:, 1:], counts)
    pixels = torch.split(visual["pixel_values"], [4 * count for count in counts])
    order, first = [], 0
    for count in images:
        order += list(range(first, first + count)) * times
        first += count
    numbered = [torch.cat([torch.full_like(by_image[image][:, :1], number), by_image[image]], 1)
                for number, image in enumerate(order)]
    return {"pixel_values": torch.cat([pixels[image] for image in order]), "image_grid_thw": grid[order],
            "image_cells": torch.cat(numbered)}


def _texts(tokenizer: Any, text: str | Sequence[Any]) -> list[str]:
    if isinstance(text, str):
        return [text]
    if text and all(isinstance(one, str) for one in text):
        return list(text)
    if text and all(isinstance(one, Mapping) for one in text):
        return [tokenizer.apply_chat_template(list(text), tokenize=False, add_generation_prompt=True)]
    raise InputError("text: give messages, a text, or a list of texts")


def _show_look(picture: Picture, look: Look) -> Shown:
    """What an engine looked at, in its order."""
    cells = np.asarray(look.cells)
    crops = [area for saccade in look.saccades for area in np.asarray(saccade.crops).tolist()]
    if crops:
        return _cut(picture, Plan(cells, look.plan.maker, 0, look.canvas), look.glance_tokens, crops)
    ends = [look.glance_tokens, *(saccade.end for saccade in look.saccades)]
    part = np.searchsorted(ends, np.arange(len(cells)), "right") if look.glance_tokens else np.zeros(len(cells))
    values, grid = _sampled(picture, cells, look.canvas)
    return Shown(values, [np.column_stack([part, cells]).astype(np.int64)], [grid])


def _cut(picture: Picture, plan: Plan, glance: int, crops: Sequence[Sequence[int]] | NDArray[np.int32]) -> Shown:
    """The glance as an image on the whole canvas, and each crop as one of its own."""
    cells = np.asarray(plan.cells)
    values, grid = _sampled(picture, cells, plan.canvas)
    parts, grids, at = [np.column_stack([np.zeros(glance), cells[:glance]])], [grid], glance
    for x, y, width, height in crops:
        rows, columns = height // 32, width // 32
        own = cells[at:at + rows * columns] - [0, y // 32, x // 32]
        parts.append(np.column_stack([np.zeros(len(own)), own]))
        grids.append((1, 2 * rows, 2 * columns))
        at += rows * columns
    return Shown(values[:4 * at], [part.astype(np.int64) for part in parts], grids)


def _sampled(picture: Picture, cells: NDArray[Any], canvas: tuple[int, int] | None
             ) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
    """The patches of cells in their own order; a plan has them coarse first."""
    seen = patches_of(picture, plan=Plan(cells, canvas=canvas))
    at = {tuple(cell): number for number, cell in enumerate(np.asarray(seen.plan.cells).tolist())}
    order = np.array([at[tuple(cell)] for cell in cells.tolist()])
    return seen.values.reshape(len(cells), -1)[order].reshape(-1, seen.values.shape[1]), seen.grid_thw


def _checked(cells: Any, kwargs: Mapping[str, Any]) -> Seen:
    grid = kwargs.get("image_grid_thw")
    if kwargs.get("video_grid_thw") is not None:
        raise InputError("image_cells beside a video: ask about one of them at a time")
    if grid is None or cells.ndim != 2 or cells.shape[1] != 5 or (len(cells) and int(cells[:, 0].max()) >= len(grid)):
        raise InputError("image_cells: give what prepare() made, with its image_grid_thw")
    return Seen(cells, grid)
