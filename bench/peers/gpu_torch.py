# SPDX-License-Identifier: Apache-2.0
"""torch's pyramid, patches, token allocation and attention: what there is without writing a kernel."""
import torch
from torch.nn import functional

from gpu_clock import attempt, emit

LEVELS, PATCH_PX, CELL_PX, TOKENS = 5, 16, 32, 68
PLAN = {2: 16, 1: 64, 0: 256}  # cells a level: a quarter of each, as in the rows patches/*
SEED = 1


def random_pixels(clock, count, side_px):
    """8-bit RGB as it is uploaded: [count, side, side, 3]."""
    generator = torch.Generator().manual_seed(SEED)
    small = torch.randint(0, 256, (count, 3, side_px // 16, side_px // 16), generator=generator).float()
    smooth = functional.interpolate(small.to(clock.device), size=(side_px, side_px), mode="bilinear")
    noise = torch.randint(-20, 21, smooth.shape, generator=generator, dtype=torch.int8).to(clock.device)
    return (smooth + noise).clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def planes(pixels, dtype=torch.float32):
    return pixels.permute(0, 3, 1, 2).to(dtype).contiguous()


def pool_chain(level):
    levels = []
    for _ in range(LEVELS):
        level = functional.avg_pool2d(level, 2)
        levels.append(level)
    return levels


def area_chain(level):
    levels = []
    for _ in range(LEVELS):
        level = functional.interpolate(level, scale_factor=0.5, mode="area")
        levels.append(level)
    return levels


def check_chain(chain, pixels):
    """Every level within rounding of the exact 2x2 box filter, (a + b + c + d + 2) >> 2 on 8-bit values."""
    exact = pixels[:1].permute(0, 3, 1, 2).to(torch.int32)
    for number, level in enumerate(chain(planes(pixels[:1])), 1):
        exact = (exact[..., ::2, ::2] + exact[..., 1::2, ::2] + exact[..., ::2, 1::2] + exact[..., 1::2, 1::2] + 2) >> 2
        off = float((level - exact).abs().max())
        if off > 0.5 * number:  # each exact level rounds by at most a half
            raise ValueError(f"level {number} is off by {off}, more than rounding explains")


def measure_pyramid(clock):
    for name, count, side_px in (("pyramid/4096x4096x5", 1, clock.size(4096, 128)),
                                 ("pyramid/32x1024x1024", clock.size(32, 2), clock.size(1024, 64))):
        pixels = random_pixels(clock, count, side_px)
        for chain in (pool_chain, area_chain):
            check_chain(chain, pixels)
        floats, halves = planes(pixels), planes(pixels, torch.float16)
        last = halves.contiguous(memory_format=torch.channels_last)
        bodies = {"torch avg_pool2d chain fp32": lambda: pool_chain(floats),
                  "torch interpolate area chain fp32": lambda: area_chain(floats),
                  "torch avg_pool2d chain fp16": lambda: pool_chain(halves),
                  "torch avg_pool2d chain fp16 channels_last": lambda: pool_chain(last),
                  "torch from 8-bit RGB, avg_pool2d chain fp16":
                      lambda: pool_chain(pixels.permute(0, 3, 1, 2).to(torch.float16))}
        for peer, body in bodies.items():
            attempt(name, peer, lambda: clock.ms(body))
            attempt(name, peer + ", CUDA graph", lambda: clock.ms(clock.graph(body)[0]))
        if clock.use_compile:
            compiled = torch.compile(pool_chain)
            attempt(name, "torch avg_pool2d chain fp32, compiled", lambda: clock.ms(lambda: compiled(floats)))


def unfold_patches(level):
    """The seeds' own way: [count * patches, 3, 16, 16], a copy of all."""
    patches = level.unfold(2, PATCH_PX, PATCH_PX).unfold(3, PATCH_PX, PATCH_PX)
    return patches.permute(0, 2, 3, 1, 4, 5).contiguous().view(-1, 3, PATCH_PX, PATCH_PX)


def reshape_patches(pixels):
    """From 8-bit RGB to normalised bf16 patches in one copy."""
    count, side_px = pixels.shape[0], pixels.shape[1]
    grid = pixels.view(count, side_px // PATCH_PX, PATCH_PX, side_px // PATCH_PX, PATCH_PX, 3)
    patches = grid.permute(0, 1, 3, 5, 2, 4).to(torch.bfloat16)
    return (patches / 127.5 - 1).reshape(-1, 3, PATCH_PX, PATCH_PX)


def draw_plan(count, side_px):
    """A quarter of the cells of three levels, at random: {level: [picture, row, col of each cell]}"""
    generator, plan = torch.Generator().manual_seed(SEED), {}
    for level, wanted in PLAN.items():
        cells = side_px // (CELL_PX << level)
        chosen = [torch.randperm(cells * cells, generator=generator)[:wanted].sort().values for _ in range(count)]
        pictures = torch.repeat_interleave(torch.arange(count), chosen[0].numel())
        chosen = torch.cat(chosen)
        plan[level] = torch.stack([pictures, chosen // cells, chosen % cells])
    return plan


def gather_cells(levels, plan):
    """One indexed copy a level, normalised to bf16, both frames of a still picture: [cells, 3, 2, 32, 32]."""
    found = []
    for level, (picture, row, col) in plan.items():
        grid = levels[level].unfold(2, CELL_PX, CELL_PX).unfold(3, CELL_PX, CELL_PX)  # a view
        found.append(grid[picture, :, row, col])
    return two_frames(torch.cat(found))


def two_frames(cells):
    return (cells.to(torch.bfloat16) / 127.5 - 1)[:, :, None].expand(-1, -1, 2, -1, -1).contiguous()


def slice_cells(levels, order):
    """Cell after cell, levels mixed, as a loop over a plan does it."""
    cells = [levels[level][picture, :, row * CELL_PX:(row + 1) * CELL_PX, col * CELL_PX:(col + 1) * CELL_PX]
             for level, picture, row, col in order]
    return two_frames(torch.stack(cells))


def measure_patches(clock):
    count, side_px = clock.size(32, 2), clock.size(1024, 256)
    pixels = random_pixels(clock, count, side_px)
    floats = planes(pixels)
    if not torch.equal(unfold_patches(floats[:1]).to(torch.bfloat16) / 127.5 - 1, reshape_patches(pixels[:1])):
        raise ValueError("patches: unfold and reshape disagree")
    for batch in (1, count):
        name = f"patches/uniform/{1 if batch == 1 else 32}x1024x1024"
        attempt(name, "torch unfold fp32", lambda: clock.ms(lambda: unfold_patches(floats[:batch])))
        attempt(name, "torch unfold fp32, CUDA graph",
                lambda: clock.ms(clock.graph(lambda: unfold_patches(floats[:batch]))[0]))
        attempt(name, "torch reshape and permute from 8-bit to bf16, CUDA graph",
                lambda: clock.ms(clock.graph(lambda: reshape_patches(pixels[:batch]))[0]))
    plan = draw_plan(count, side_px)
    levels = [floats, *pool_chain(floats)]
    on_device = {level: places.to(clock.device) for level, places in plan.items()}
    order = [(level, *place) for level, places in plan.items() for place in places.T.tolist()]
    if not torch.equal(gather_cells(levels, on_device), slice_cells(levels, order)):
        raise ValueError("patches: gathering and slicing disagree")
    mixed = [order[number] for number in torch.randperm(len(order), generator=torch.Generator().manual_seed(SEED))]
    attempt("patches/grouped", "torch, one indexed copy a level",
            lambda: clock.ms(lambda: gather_cells(levels, on_device)))
    attempt("patches/grouped", "torch, one indexed copy a level, CUDA graph",
            lambda: clock.ms(clock.graph(lambda: gather_cells(levels, on_device))[0]))
    attempt("patches/mixed", "torch, slice after slice", lambda: clock.ms(lambda: slice_cells(levels, mixed), 50))


def cell_scores(levels, question):
    """The seeds' plain sum for every level-0 cell: entropy, gradient and product with the question. [count, cells]"""
    gray = levels[0].mean(1)
    count, side_px = gray.shape[0], gray.shape[1]
    cells = side_px // CELL_PX
    values = gray.view(count, cells, CELL_PX, cells, CELL_PX).permute(0, 1, 3, 2, 4).reshape(count, cells * cells, -1)
    bins = torch.zeros(count, cells * cells, 256, device=gray.device)
    bins.scatter_add_(2, values.long(), torch.ones_like(values))
    share = bins / (CELL_PX * CELL_PX)
    entropy = -(share * (share + 1e-9).log2()).sum(-1) / 8
    coarse = levels[2].mean(1)
    gradient = functional.pad((coarse[..., 1:] - coarse[..., :-1]).abs(), (0, 1)) / 255
    salience = functional.avg_pool2d(gradient[:, None], CELL_PX // 4).flatten(1)
    colour = functional.avg_pool2d(levels[0], CELL_PX).flatten(2) / 255
    return entropy + salience + (colour * question[:, None]).sum(1)


def allocate(levels, question, tokens):
    return cell_scores(levels, question).topk(tokens, dim=1).indices


def scores_in_a_loop(levels, question):
    """The same scores, one cell after the other, as the seeds' Python does it. [cells]"""
    cells, scores = levels[0].shape[-1] // CELL_PX, []
    coarse = levels[2].mean(1)[0]
    gradient = functional.pad((coarse[:, 1:] - coarse[:, :-1]).abs(), (0, 1)) / 255
    for row in range(cells):
        for col in range(cells):
            cell = levels[0][0, :, row * CELL_PX:(row + 1) * CELL_PX, col * CELL_PX:(col + 1) * CELL_PX]
            share = torch.bincount(cell.mean(0).long().flatten(), minlength=256) / (CELL_PX * CELL_PX)
            entropy = -(share * (share + 1e-9).log2()).sum() / 8
            step = CELL_PX // 4
            salience = gradient[row * step:(row + 1) * step, col * step:(col + 1) * step].mean()
            scores.append(entropy + salience + (cell.mean((1, 2)) / 255 * question).sum())
    return torch.stack(scores)


def measure_allocation(clock):
    count, side_px = clock.size(32, 2), clock.size(1024, 128)
    tokens = clock.size(TOKENS, 8)
    pixels = random_pixels(clock, count, side_px)
    question = torch.tensor([0.2, 0.3, 0.5], device=clock.device)
    levels = [planes(pixels), *pool_chain(planes(pixels))]
    one = [level[:1] for level in levels]
    if not torch.allclose(cell_scores(one, question)[0], scores_in_a_loop(one, question), atol=1e-2):
        raise ValueError("allocation: the loop and the batch find other scores")
    for name, these in (("allocation/1x1024x1024", one), ("allocation/32x1024x1024", levels)):
        body = lambda: allocate(these, question, tokens)  # noqa: E731
        attempt(name, "torch, all cells at once", lambda: clock.ms(body))
        attempt(name, "torch, all cells at once, CUDA graph", lambda: clock.ms(clock.graph(body)[0]))
    emit("allocation/1x1024x1024", "torch, a Python loop",
         clock.wall_ms(lambda: scores_in_a_loop(one, question).topk(tokens).indices, 1))

    def front_end():
        built = [planes(pixels)]
        built += pool_chain(built[0])
        chosen = allocate(built, question, tokens)
        picture = torch.arange(count, device=clock.device)[:, None].expand_as(chosen).flatten()
        cells = side_px // CELL_PX
        places = torch.stack([picture, (chosen // cells).flatten(), (chosen % cells).flatten()])
        return gather_cells(built, {0: places})

    peer = "torch: avg_pool2d, entropy and gradient, top-k, indexed copy"
    attempt("front-end/32x1024x1024", peer, lambda: 1e3 * clock.ms(front_end) / count, "us an image")
    attempt("front-end/32x1024x1024", peer + ", CUDA graph",
            lambda: 1e3 * clock.ms(clock.graph(front_end)[0]) / count, "us an image")


def measure_attention(clock):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # batch, heads, key heads, queries, keys, values of a head, causal
    whole = {"attention/tower4096": (1, 16, 16, 4096, 4096, 64, False),
             "attention/tower16384": (1, 16, 16, 16384, 16384, 64, False),
             "attention/tower1024": (1, 16, 16, 1024, 1024, 64, False),
             "attention/tower512": (1, 16, 16, 512, 512, 64, False),
             "attention/tower272": (1, 16, 16, 272, 272, 64, False),
             "attention/prefill1056": (1, 16, 8, 1056, 1056, 128, True),
             "attention/prefill4096": (1, 16, 8, 4096, 4096, 128, True),
             "attention/batch8x4096": (8, 16, 16, 4096, 4096, 128, False),
             "attention/batch8x4096causal": (8, 16, 16, 4096, 4096, 128, True),
             "attention/prefill100": (1, 16, 8, 100, 100, 128, True),
             "attention/decode1100": (1, 16, 8, 1, 1100, 128, False)}
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
    if clock.smoke:
        backends = {"math": SDPBackend.MATH}
    for name, (batch, heads, kv_heads, queries, keys, size, causal) in whole.items():
        batch, queries, keys = clock.size(batch, 1), clock.size(queries, min(queries, 24)), clock.size(keys, 24)
        generator = torch.Generator(clock.device).manual_seed(SEED)
        q, k, v = (torch.randn(batch, n, length, size, device=clock.device, dtype=torch.bfloat16, generator=generator)
                   for n, length in ((heads, queries), (kv_heads, keys), (kv_heads, keys)))

        def attend(backend):
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)

        # Once with the matrix written out, which no other row needs.
        written = {"math": SDPBackend.MATH} if name == "attention/tower4096" else {}
        for label, backend in {**backends, **written}.items():
            attempt(name, f"torch SDPA {label}", lambda: clock.ms(lambda: attend(backend)))
            attempt(name, f"torch SDPA {label}, CUDA graph", lambda: clock.ms(clock.graph(lambda: attend(backend))[0]))
