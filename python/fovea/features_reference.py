# SPDX-License-Identifier: Apache-2.0
"""Attention without scores ("performer") and its gradients in plain torch; docs/attention.md says what it computes.

    f_j(x) = e^(sqrt(scale) w_j . x - scale |x|^2 / 2)
    out = sum_j f_j(q) (sum_t f_j(k_t) e^bias_t v_t) / sum_j f_j(q) (sum_t f_j(k_t) e^bias_t)

The w_j are the engine's. Memory grows with the rows, not with their square.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from fovea import _fovea


class Sums(NamedTuple):
    """What both passes need: h heads, j features, t keys, i queries."""

    directions: Any  # [features, values]
    queries: Any  # [rows, heads, features]
    keys: Any
    values: Any  # [rows, heads, values]
    of_values: Any  # [heads, features, values]: sum_t f_j(k_t) e^bias_t v_t
    of_keys: Any  # [heads, features]: sum_t f_j(k_t) e^bias_t
    out: Any  # [rows, heads, values]
    below: Any  # [rows, heads]: the denominator


def attend(q: Any, k: Any, v: Any, bias: Any, scale: float) -> Any:
    """q [rows, heads, values], k and v [rows, kv_heads, values], bias [rows] or None -> as q."""
    return _sums(q, k, v, bias, scale).out


def attend_backward(gradient: Any, q: Any, k: Any, v: Any, bias: Any, scale: float) -> tuple[Any, Any, Any, Any]:
    """Of q, k, v and of the bias of each row. With N / D the output: dN = dO / D,  dD = -dO . O / D."""
    sums = _sums(q, k, v, bias, scale)
    d_above = gradient / sums.below[..., None]
    d_below = -(d_above * sums.out).sum(-1)
    # What was taken off the logarithms falls out of the ratio, and so has no gradient.
    d_queries = torch.einsum("ihd,hjd->ihj", d_above, sums.of_values) + d_below[..., None] * sums.of_keys
    d_of_values = torch.einsum("ihj,ihd->hjd", sums.queries, d_above)
    d_of_keys = torch.einsum("ihj,ih->hj", sums.queries, d_below)
    d_keys = torch.einsum("thd,hjd->thj", sums.values, d_of_values) + d_of_keys
    d_v = torch.einsum("thj,hjd->thd", sums.keys, d_of_values)
    log_queries, log_keys = d_queries * sums.queries, d_keys * sums.keys
    sharing = q.shape[1] // k.shape[1]
    d_q = _logs_backward(log_queries, q, sums.directions, scale)
    d_k = _logs_backward(log_keys, k.repeat_interleave(sharing, 1), sums.directions, scale)
    d_k, d_v = (one.unflatten(1, (k.shape[1], sharing)).sum(2) for one in (d_k, d_v))
    return d_q, d_k, d_v, log_keys.sum((1, 2))


def _sums(q: Any, k: Any, v: Any, bias: Any, scale: float) -> Sums:
    sharing = q.shape[1] // k.shape[1]
    directions = torch.from_numpy(_fovea.random_directions(q.shape[2])).to(q)
    queries = _logs(q, directions, scale)
    keys = _logs(k, directions, scale)
    if bias is not None:
        keys = keys + bias[:, None, None]
    queries = (queries - queries.amax(-1, keepdim=True)).exp()
    keys = (keys - keys.amax((0, 2), keepdim=True)).exp().repeat_interleave(sharing, 1)
    values = v.repeat_interleave(sharing, 1)
    of_values, of_keys = torch.einsum("thj,thd->hjd", keys, values), keys.sum(0)
    below = torch.einsum("ihj,hj->ih", queries, of_keys)
    out = torch.einsum("ihj,hjd->ihd", queries, of_values) / below[..., None]
    return Sums(directions, queries, keys, values, of_values, of_keys, out, below)


def _logs(x: Any, directions: Any, scale: float) -> Any:
    """The logarithms of the features of rows: [rows, heads, features]."""
    return math.sqrt(scale) * (x @ directions.T) - scale / 2 * x.square().sum(-1, keepdim=True)


def _logs_backward(gradient: Any, x: Any, directions: Any, scale: float) -> Any:
    return math.sqrt(scale) * (gradient @ directions) - scale * x * gradient.sum(-1, keepdim=True)
