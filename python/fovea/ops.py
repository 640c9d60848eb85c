# SPDX-License-Identifier: Apache-2.0
"""Fovea's operations on torch tensors, as torch operators: torch.ops.fovea.pyramid, plan, patches, attention.

    out = fovea.ops.attention(q, k, v, "hierarchical", places=places)       # [rows, heads, values]
    values = fovea.ops.patches(image, cells)                               # uint8 [h, w, 3], int [n, 3]

On a CPU they are the engine's own functions, in f32; elsewhere, and in float64, attention is plain torch.
torch.compile keeps them in its graph. docs/python.md tells the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fovea import _fovea, look
from fovea import attention_reference as reference
from fovea import features_reference as features
from fovea import level_sum_reference as level_sum
from fovea import patches_reference as in_torch
from fovea.errors import InputError
from fovea.options import plan_keywords
from fovea.words import Plan

PATCH_VALUES = 1536


# Pyramid, plan and patches.

@torch.library.custom_op("fovea::pyramid", mutates_args=())
def _pyramid(canvas: torch.Tensor, levels: int) -> list[torch.Tensor]:
    if canvas.device.type != "cpu":
        return in_torch.pyramid(canvas, levels)
    made = _fovea.pyramid(canvas.numpy(), levels, 0)
    return [torch.from_numpy(level) if number else canvas.clone() for number, level in enumerate(made)]


@_pyramid.register_fake
def _(canvas: torch.Tensor, levels: int) -> list[torch.Tensor]:
    height, width = canvas.shape[:2]
    return [canvas.new_empty((-(-height // 2**level), -(-width // 2**level), 3)) for level in range(levels)]


@torch.library.custom_op("fovea::plan", mutates_args=())
def _plan(image: torch.Tensor, maker: str, budget: int) -> torch.Tensor:
    cells = look.plan(image.cpu().numpy(), plan=maker, budget=budget or None).cells
    return torch.from_numpy(cells).clone().to(image.device)


@_plan.register_fake
def _(image: torch.Tensor, maker: str, budget: int) -> torch.Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    return image.new_empty((count, 3), dtype=torch.int32)


@torch.library.custom_op("fovea::patches", mutates_args=())
def _patches(image: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    if image.device.type == "cpu":
        return _patches_by_engine(image, cells)
    return _patches_elsewhere(image, cells)


@_patches.register_fake
def _(image: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    return image.new_empty((4 * cells.shape[0], PATCH_VALUES), dtype=torch.float32)


def _patches_by_engine(image: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(look.patches(image.cpu().numpy(), plan=Plan(cells.cpu().numpy())).values)


def _patches_elsewhere(image: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Where the image lies, but for one that must be fitted to a canvas first: that the engine does."""
    if not in_torch.is_canvas(image):
        return _patches_by_engine(image, cells).to(image.device)
    [(_, given, _)] = plan_keywords({"plan": Plan(cells.cpu().numpy())})["plans"]
    settled = _fovea.cells_on_canvas(given, image.shape[1], image.shape[0])
    return in_torch.patches(image, torch.from_numpy(settled))


def pyramid(canvas: Any, levels: int) -> list[Any]:
    """uint8 [height, width, 3] -> `levels` of them, each half of the one before by an exact 2x2 box filter."""
    _check_picture(canvas)
    if not 1 <= levels <= max(1, max(canvas.shape[:2]) - 1).bit_length() + 1:
        raise InputError(f"{levels} levels of {list(canvas.shape[:2])} pixels: give 1 or more, until one pixel is left")
    return list(torch.ops.fovea.pyramid(canvas, levels))


def plan(image: Any, maker: str = "quadtree", budget: int = 0) -> Any:
    """uint8 [height, width, 3] -> cells int32 [n, 3]: level, row, column. Budget 0: the maker's default."""
    _check_picture(image)
    return torch.ops.fovea.plan(image, maker, budget)


def patches(image: Any, cells: Any) -> Any:
    """uint8 [height, width, 3] and cells in the order of a plan -> float32 [4 n, 1536], as fovea.patches."""
    _check_picture(image)
    if cells.ndim != 2 or cells.shape[1] != 3:
        raise InputError(f"cells of the shape {list(cells.shape)}: give [n, 3]: level, row, column")
    return torch.ops.fovea.patches(image, cells)


def _check_picture(image: Any) -> None:
    if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(f"a picture of the type {image.dtype} and the shape {list(image.shape)}: "
                         "give uint8, [height, width, 3]")


# Attention.

@torch.library.custom_op("fovea::attention", mutates_args=())
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kind: str, causal: bool,
               places: torch.Tensor | None, images: torch.Tensor | None, level_weights: torch.Tensor | None,
               share: float, scale: float, sum_weights: torch.Tensor | None = None) -> torch.Tensor:
    where = np.zeros((0, 3), np.int32) if places is None else places.cpu().int().contiguous().numpy()
    spans = np.zeros((0, 2), np.int64) if images is None else images.cpu().long().contiguous().numpy()
    bias, of_sum = (np.zeros(0, np.float32) if weights is None else weights.detach().cpu().float().contiguous().numpy()
                    for weights in (level_weights, sum_weights))
    if q.device.type != "cpu" or q.dtype == torch.float64:
        _fovea.check_attention(q.shape[0], q.shape[1], k.shape[1], kind, causal, share, scale, where, spans, bias,
                               of_sum)
        return _attend_in_torch(q, k, v, kind, causal, places, images, level_weights, share, scale, sum_weights)
    rows, keys, values = (one.detach().float().contiguous().numpy() for one in (q, k, v))
    out = np.empty_like(rows)
    _fovea.attend(rows, keys, values, out, kind, causal, share, scale, where, spans, bias, of_sum,
                  torch.get_num_threads())
    return torch.from_numpy(out).to(q.dtype)


@_attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kind: str, causal: bool, places: torch.Tensor | None,
      images: torch.Tensor | None, level_weights: torch.Tensor | None, share: float, scale: float,
      sum_weights: torch.Tensor | None = None) -> torch.Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def _attend_in_torch(q: Any, k: Any, v: Any, kind: str, causal: bool, places: Any, images: Any, level_weights: Any,
                     share: float, scale: float, sum_weights: Any = None) -> Any:
    """Computed in f32 at least, as the kernels do, and rounded on the way out."""
    if not len(q):
        return torch.empty_like(q, memory_format=torch.contiguous_format)
    rows, keys, values = _wide(q), _wide(k), _wide(v)
    weights = None if level_weights is None else _wide(level_weights)
    if kind == "performer":
        made = features.attend(rows, keys, values, _bias_of_rows(places, weights, q.device)[1], scale)
    elif kind == level_sum.KIND:
        of_sum = None if sum_weights is None else _wide(sum_weights)
        made = level_sum.attend_to_levels(rows, keys, values, places.to(q.device), weights, of_sum, share, scale)
    else:
        parts = _parts(rows, keys, values, kind, causal, places, images, weights, share, scale)
        made = reference.attend(rows, parts, scale)
    return made.to(q.dtype).contiguous()


def _wide(values: Any) -> Any:
    """In f32, or f64 where they are that."""
    return values.detach().to(torch.promote_types(values.dtype, torch.float32))


def _bias_of_rows(places: Any, level_weights: Any, device: Any) -> tuple[Any, Any]:
    """(whose weight each row has, the weight), or nothing."""
    return (None, None) if level_weights is None else reference.level_bias(places.to(device), level_weights)


def _parts(q: Any, k: Any, v: Any, kind: str, causal: bool, places: Any, images: Any, level_weights: Any,
           share: float, scale: float) -> list[reference.Part]:
    known = reference.TEXT if causal else reference.TOWER
    if kind not in known:
        raise InputError(f"attention {kind!r} has no form in torch, which gradients, float64 and other devices than "
                         f"the CPU need: choose one of {', '.join(known)}")
    if causal:
        return reference.text_parts(q, k, v, kind, torch.zeros(0, 2) if images is None else images, share)
    where = None if places is None else places.to(q.device)
    return reference.tower_parts(q, k, v, kind, where, level_weights, share, scale)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, kind, causal, places, images, level_weights, share, scale, sum_weights = inputs
    ctx.save_for_backward(q, k, v, places, images, level_weights, sum_weights)
    ctx.how = kind, causal, share, scale


def _learned(q: Any, k: Any, v: Any, level_weights: Any, sum_weights: Any) -> list[Any]:
    return [q, k, v] + [one for one in (level_weights, sum_weights) if one is not None]


@torch.library.custom_op("fovea::attention_backward", mutates_args=())
def _attention_backward(gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kind: str,
                        causal: bool, places: torch.Tensor | None, images: torch.Tensor | None,
                        level_weights: torch.Tensor | None, share: float, scale: float,
                        sum_weights: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Computes the attention again in torch."""
    learned = _learned(q, k, v, level_weights, sum_weights)
    if not len(q):
        return [torch.zeros_like(one, memory_format=torch.contiguous_format) for one in learned]
    rows, keys, values = _wide(q), _wide(k), _wide(v)
    weights = None if level_weights is None else _wide(level_weights)
    gradient = gradient.to(rows.dtype)
    if kind == "performer":
        levels, bias = _bias_of_rows(places, weights, q.device)
        *made, of_rows = features.attend_backward(gradient, rows, keys, values, bias, scale)
        if weights is not None:
            made.append(torch.zeros_like(weights).index_add(0, levels, of_rows.to(weights.dtype)))
    elif kind == level_sum.KIND and places is not None:
        of_sum = None if sum_weights is None else _wide(sum_weights)
        made = level_sum.attend_to_levels_backward(gradient, rows, keys, values, places.to(q.device), weights, of_sum,
                                                   share, scale)
    else:
        parts = _parts(rows, keys, values, kind, causal, places, images, weights, share, scale)
        made = list(reference.attend_backward(gradient, rows, parts, scale, 0 if weights is None else len(weights)))
    return [one.to(like.dtype).contiguous() for one, like in zip(made, learned)]


@_attention_backward.register_fake
def _(gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kind: str, causal: bool,
      places: torch.Tensor | None, images: torch.Tensor | None, level_weights: torch.Tensor | None, share: float,
      scale: float, sum_weights: torch.Tensor | None = None) -> list[torch.Tensor]:
    learned = _learned(q, k, v, level_weights, sum_weights)
    return [torch.empty_like(one, memory_format=torch.contiguous_format) for one in learned]


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    q, k, v, places, images, level_weights, sum_weights = ctx.saved_tensors
    kind, causal, share, scale = ctx.how
    made = torch.ops.fovea.attention_backward(gradient.contiguous(), q, k, v, kind, causal, places, images,
                                              level_weights, share, scale, sum_weights)
    of_weights = None if level_weights is None else made[3]
    of_sum = None if sum_weights is None else made[-1]
    return made[0], made[1], made[2], None, None, None, None, of_weights, None, None, of_sum


_attention.register_autograd(_backward, setup_context=_save)


def attention(q: Any, k: Any, v: Any, kind: str = "dense", *, causal: bool = False, places: Any = None,
              images: Any = None, level_weights: Any = None, share: float = 0.0, scale: float | None = None,
              sum_weights: Any = None) -> Any:
    """Attention of rows to themselves by a kind of docs/attention.md, [rows, heads, values], as q.

    k, v           [rows, heads of keys, values]; the heads of q share them in order
    causal         by the language model's kinds; else by the tower's
    places         int [rows, 3]: level, row, column of each row; the tower's kinds but "dense" want them
    images         int [n, 2]: rows from, to of each image of a sequence, for "prefix" and "top-blocks"
    level_weights  [levels], added to the scores of the keys of each level; may learn
    share          of the blocks that are seen in full, for "hierarchical" and the like; 0: as the kind has it
    scale          of q . k; None: 1 / sqrt(values)
    sum_weights    [3], of "level-sum": what fine, medium and coarse count; None: a third each; may learn
    """
    if q.ndim != 3 or k.shape != v.shape or k.ndim != 3 or (k.shape[0], k.shape[2]) != (q.shape[0], q.shape[2]):
        raise InputError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}: give [rows, heads, values] each, "
                         "with the same rows and values")
    if k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise InputError(f"{q.shape[1]} heads over {k.shape[1]}: give a multiple of the keys' heads")
    if not causal and places is None and (kind != "dense" or level_weights is not None):
        raise InputError(f"attention {kind!r} needs places: int [rows, 3], level, row and column of each row")
    if places is not None and tuple(places.shape) != (q.shape[0], 3):
        raise InputError(f"places of the shape {list(places.shape)}: give [{q.shape[0]}, 3]: level, row, column")
    of_levels = kind == level_sum.KIND and not causal
    if sum_weights is not None and not (of_levels and tuple(sum_weights.shape) == (level_sum.LEVELS,)):
        raise InputError(f"attention {kind!r} with {list(sum_weights.shape)} weights of a sum: give 3, to level-sum")
    if images is not None and (images.ndim != 2 or images.shape[1] != 2):
        raise InputError(f"images of the shape {list(images.shape)}: give [n, 2]: rows from, to of each")
    if level_weights is not None and level_weights.ndim != 1:
        raise InputError(f"level_weights of the shape {list(level_weights.shape)}: give [levels]")
    if scale is None:
        scale = float(q.shape[-1]) ** -0.5
    return torch.ops.fovea.attention(q, k, v, kind, causal, places, images, level_weights, share, scale, sum_weights)
