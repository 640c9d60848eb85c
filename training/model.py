# SPDX-License-Identifier: Apache-2.0
"""Qwen3-VL in small, for plans of mixed levels.

Parameters have the names transformers gives them, so that a checkpoint is a copy; what stock models lack is under
"fovea." (docs/weights.md). Everything is a function of a dictionary of tensors: no module holds state.

Shapes: B samples, T cells (= visual tokens), N = 4 T patches, S text tokens.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F

VISUAL, TEXT = "model.visual.", "model.language_model."


@dataclass
class Config:
    vocab_size: int = 768
    # tower
    vision_size: int = 256
    vision_heads: int = 4
    vision_inner: int = 1024
    depth: int = 5
    taps: tuple = (2,)       # deepstack_visual_indexes
    position_side: int = 16  # of the table of absolute positions
    levels: int = 8
    # language model
    size: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    inner: int = 640
    layers: int = 6
    text_theta: float = 10000.0
    mrope_section: tuple = (12, 10, 10)
    # gaze head
    gaze_layer: int = 3
    gaze_size: int = 64
    gaze_grid: int = 4


# What each visual token is asked about in training: name -> number of classes. "places" are yes or no.
AUX = dict(card=1, shape=6, colour=8, kind=4, first=32, second=32, ticks=6, direction=4, target_shape=6,
           target_colour=8, places=16)


def initial_parameters(c, generator=None):
    """Matrices at 0.7 of the usual scale, embeddings small; deepstack begins silent."""
    p = {}

    def normal(name, *shape, std=None):
        scale = std if std is not None else 0.7 * shape[-1] ** -0.5
        p[name] = torch.randn(*shape, generator=generator) * scale

    def linear(name, out, inner, std=None):
        normal(name + ".weight", out, inner, std=std)
        p[name + ".bias"] = torch.zeros(out)

    def norm(name, size, bias=False):
        p[name + ".weight"] = torch.ones(size)
        if bias:
            p[name + ".bias"] = torch.zeros(size)

    d = c.vision_size
    linear(VISUAL + "patch_embed.proj", d, 768)  # both frames of a still image at once
    normal(VISUAL + "pos_embed.weight", c.position_side ** 2, d, std=0.02)
    for i in range(c.depth):
        b = f"{VISUAL}blocks.{i}."
        norm(b + "norm1", d, True)
        norm(b + "norm2", d, True)
        linear(b + "attn.qkv", 3 * d, d)
        linear(b + "attn.proj", d, d)
        linear(b + "mlp.linear_fc1", c.vision_inner, d)
        linear(b + "mlp.linear_fc2", d, c.vision_inner)
    mergers = [VISUAL + "merger."] + [f"{VISUAL}deepstack_merger_list.{i}." for i in range(len(c.taps))]
    for i, m in enumerate(mergers):
        norm(m + "norm", 4 * d if i else d, True)
        linear(m + "linear_fc1", 4 * d, 4 * d)
        linear(m + "linear_fc2", c.size, 4 * d, std=1e-3 if i else None)

    normal(TEXT + "embed_tokens.weight", c.vocab_size, c.size, std=0.02)
    for i in range(c.layers):
        b = f"{TEXT}layers.{i}."
        norm(b + "input_layernorm", c.size)
        norm(b + "post_attention_layernorm", c.size)
        normal(b + "self_attn.q_proj.weight", c.heads * c.head_dim, c.size)
        normal(b + "self_attn.k_proj.weight", c.kv_heads * c.head_dim, c.size)
        normal(b + "self_attn.v_proj.weight", c.kv_heads * c.head_dim, c.size)
        normal(b + "self_attn.o_proj.weight", c.size, c.heads * c.head_dim)
        norm(b + "self_attn.q_norm", c.head_dim)
        norm(b + "self_attn.k_norm", c.head_dim)
        normal(b + "mlp.gate_proj.weight", c.inner, c.size)
        normal(b + "mlp.up_proj.weight", c.inner, c.size)
        normal(b + "mlp.down_proj.weight", c.size, c.inner)
    norm(TEXT + "norm", c.size)

    normal("fovea.level_embedding", c.levels - 1, d, std=0.02)  # of level 1 and up; level 0 adds nothing
    norm("fovea.gaze.norm", c.size)
    normal("fovea.gaze.query.weight", c.gaze_size, c.size)
    normal("fovea.gaze.key.weight", c.gaze_grid ** 2 * c.gaze_size, c.size)
    linear("aux", sum(AUX.values()), c.size)
    return p


def is_block_matrix(name, tensor):
    """The matrices Muon updates; embeddings, heads, norms and biases are AdamW's."""
    return tensor.ndim == 2 and any(part in name for part in ("blocks.", "layers.", "merger"))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def patch_places(row, col, level):
    """Rows and columns of the patches of cells, in level-0 patches: [B, 4 T, 2]."""
    scale = (2.0 ** level)[..., None, None]
    cells = torch.stack((row, col), -1).float()[:, :, None]
    part = torch.arange(4, device=row.device)
    corner = torch.stack((part // 2, part % 2), -1).float()
    places = (cells * 2 + corner) * scale + (scale - 1) / 2
    return places.flatten(1, 2)


def cell_places(row, col, level):
    """Centres of cells in level-0 cells: [B, T, 2]."""
    scale = (2.0 ** level)[..., None]
    return torch.stack((row, col), -1).float() * scale + (scale - 1) / 2


def frequencies(theta, dim, device):
    return 1.0 / theta ** (torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)


def position_weights(places, side, extent):
    """How much each entry of the table counts at each place: [B, N, side * side], four of a row not zero."""
    at = places * (side - 1) / (extent - 1)
    entries = torch.arange(side, device=places.device, dtype=torch.float32)
    hats = (1 - (at[..., None] - entries).abs()).clamp(min=0)  # [B, N, 2, side]
    return (hats[..., 0, :, None] * hats[..., 1, None, :]).flatten(-2)


def run_here(function, p, prefix, *args):
    """How tower() and language() run a block, a merger or a layer, whose parameters begin with `prefix`. Another one
    can gather these first, or keep nothing of what is computed (sharded.py)."""
    return function(p, prefix, *args)


def tower(p, c, patches, row, col, level, blocks, extent=64, run=run_here):
    """patches [B, T, 4, 768] -> tokens [B, T, size] and those of each tap.

    `blocks` are the sizes in cells of glance, look 1, look 2, ...: each attends to itself and those before it.
    """
    batch, cells = level.shape
    dtype = p[VISUAL + "patch_embed.proj.weight"].dtype
    places = patch_places(row, col, level)
    x = F.linear(patches, p[VISUAL + "patch_embed.proj.weight"], p[VISUAL + "patch_embed.proj.bias"])
    levels = torch.cat((torch.zeros(1, c.vision_size, device=x.device, dtype=dtype), p["fovea.level_embedding"]))
    x = x + F.linear(F.one_hot(level, c.levels).to(dtype), levels.T)[:, :, None]
    x = x.reshape(batch, cells * 4, c.vision_size)
    weights = position_weights(places, c.position_side, extent).to(dtype)
    x = x + weights @ p[VISUAL + "pos_embed.weight"]
    head_dim = c.vision_size // c.vision_heads
    angles = (places[..., None] * frequencies(10000.0, head_dim // 2, x.device)).flatten(-2)  # rows, then columns
    cos, sin = angles.cos().to(dtype)[:, None], angles.sin().to(dtype)[:, None]
    bounds = [0]
    for size in blocks:
        bounds.append(bounds[-1] + size * 4)

    tapped = []
    for i in range(c.depth):
        x = run(tower_block, p, f"{VISUAL}blocks.{i}.", c, x, cos, sin, bounds)
        if i in c.taps:
            tapped.append(run(merge, p, f"{VISUAL}deepstack_merger_list.{c.taps.index(i)}.", c, x, True))
    return run(merge, p, VISUAL + "merger.", c, x, False), tapped


def tower_block(p, b, c, x, cos, sin, bounds):
    """x [B, N, vision_size] -> the same; `bounds` are where the blocks of the plan begin and end, in patches."""
    batch, patches, _ = x.shape
    head_dim = c.vision_size // c.vision_heads
    y = F.layer_norm(x, (c.vision_size,), p[b + "norm1.weight"], p[b + "norm1.bias"], 1e-6)
    qkv = F.linear(y, p[b + "attn.qkv.weight"], p[b + "attn.qkv.bias"])
    qkv = qkv.view(batch, patches, 3, c.vision_heads, head_dim).permute(2, 0, 3, 1, 4)
    q, k, v = rotate(qkv[0], cos, sin), rotate(qkv[1], cos, sin), qkv[2]
    parts = [F.scaled_dot_product_attention(q[:, :, begin:end], k[:, :, :end], v[:, :, :end])
             for begin, end in zip(bounds, bounds[1:])]
    y = torch.cat(parts, 2) if len(parts) > 1 else parts[0]
    y = y.transpose(1, 2).reshape(batch, patches, c.vision_size)
    x = x + F.linear(y, p[b + "attn.proj.weight"], p[b + "attn.proj.bias"])
    y = F.layer_norm(x, (c.vision_size,), p[b + "norm2.weight"], p[b + "norm2.bias"], 1e-6)
    y = F.gelu(F.linear(y, p[b + "mlp.linear_fc1.weight"], p[b + "mlp.linear_fc1.bias"]), approximate="tanh")
    return x + F.linear(y, p[b + "mlp.linear_fc2.weight"], p[b + "mlp.linear_fc2.bias"])


def merge(p, m, c, y, after):
    """Patches [B, N, vision_size] -> tokens [B, N / 4, size]; the norm comes before or after four become one."""
    batch, patches, _ = y.shape
    width = 4 * c.vision_size
    if after:
        y = F.layer_norm(y.reshape(batch, patches // 4, width), (width,), p[m + "norm.weight"], p[m + "norm.bias"],
                         1e-6)
    else:
        y = F.layer_norm(y, (c.vision_size,), p[m + "norm.weight"], p[m + "norm.bias"], 1e-6)
        y = y.reshape(batch, patches // 4, width)
    y = F.gelu(F.linear(y, p[m + "linear_fc1.weight"], p[m + "linear_fc1.bias"]))
    return F.linear(y, p[m + "linear_fc2.weight"], p[m + "linear_fc2.bias"])


def rms_norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def text_angles(c, positions):
    """Interleaved M-RoPE: positions [B, S, 3] -> [B, S, head_dim / 2]."""
    axis = torch.zeros(c.head_dim // 2, dtype=torch.long, device=positions.device)
    for dim in (1, 2):
        axis[dim:c.mrope_section[dim] * 3:3] = dim
    return positions.float()[..., axis] * frequencies(c.text_theta, c.head_dim, positions.device)


def language(p, c, embedded, positions, mask, visual, tapped, layers=None, on_gaze=None, run=run_here):
    """embedded [B, S, size] -> the residual stream after all layers, or after the first `layers`.

    mask [S, S]: what is added to the scores; visual = (begin, end) of the visual tokens; `on_gaze` sees the stream
    that the gaze head reads.
    """
    x = embedded
    angles = text_angles(c, positions)
    cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
    for i in range(c.layers if layers is None else layers):
        x = run(language_layer, p, f"{TEXT}layers.{i}.", c, x, cos, sin, mask)
        if i < len(tapped):
            begin, end = visual
            x = torch.cat((x[:, :begin], x[:, begin:end] + tapped[i], x[:, end:]), 1)
        if on_gaze is not None and i + 1 == c.gaze_layer:
            on_gaze(x)
    return x


def language_layer(p, b, c, x, cos, sin, mask):
    batch, length, _ = x.shape
    y = rms_norm(x, p[b + "input_layernorm.weight"])

    def heads(name, count):
        return F.linear(y, p[f"{b}self_attn.{name}_proj.weight"]).view(batch, length, count, c.head_dim)

    q = rotate(rms_norm(heads("q", c.heads), p[b + "self_attn.q_norm.weight"]).transpose(1, 2), cos, sin)
    k = rotate(rms_norm(heads("k", c.kv_heads), p[b + "self_attn.k_norm.weight"]).transpose(1, 2), cos, sin)
    v = heads("v", c.kv_heads).transpose(1, 2)
    group = c.heads // c.kv_heads
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y = y.transpose(1, 2).reshape(batch, length, c.heads * c.head_dim)
    x = x + F.linear(y, p[b + "self_attn.o_proj.weight"])
    y = rms_norm(x, p[b + "post_attention_layernorm.weight"])
    y = F.silu(F.linear(y, p[b + "mlp.gate_proj.weight"])) * F.linear(y, p[b + "mlp.up_proj.weight"])
    return x + F.linear(y, p[b + "mlp.down_proj.weight"])


def logits(p, x):
    return F.linear(rms_norm(x, p[TEXT + "norm.weight"]), p[TEXT + "embed_tokens.weight"])


def gaze_logits(p, c, glance, questions, asked):
    """glance [B, G, size] and questions [B, Q, L, size] of the stream -> [B, Q, G * grid^2], in the order of the
    glance's cells and their places. `asked` [B, Q, L] says which tokens belong to the question."""
    weight = p["fovea.gaze.norm.weight"]
    keys = F.linear(rms_norm(glance, weight), p["fovea.gaze.key.weight"])
    keys = keys.view(glance.shape[0], -1, c.gaze_size)  # [B, G * grid^2, gaze_size]
    queries = F.linear(rms_norm(questions, weight), p["fovea.gaze.query.weight"])
    batch, count, length, _ = queries.shape
    scores = queries.reshape(batch, count * length, c.gaze_size) @ keys.transpose(1, 2)
    scores = scores.view(batch, count, length, -1).float() / c.gaze_size ** 0.5
    scores = scores.masked_fill(~asked[..., None], float("-inf"))
    return torch.logsumexp(scores, 2)
