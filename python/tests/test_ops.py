# SPDX-License-Identifier: Apache-2.0
"""fovea.ops: operators of torch. Needs torch; tools/python_suites has it."""

import re
import subprocess
import sys

import numpy as np
import pytest

import fovea
from conftest import ENVIRONMENT, ROOT
from fovea import _fovea

torch = pytest.importorskip("torch", reason="torch is not installed")
from fovea import attention_reference as reference  # noqa: E402
from fovea import ops, patches_reference  # noqa: E402

CANVAS = torch.from_numpy(np.random.default_rng(3).integers(0, 256, (160, 288, 3), np.uint8))
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")  # compiled graphs have their own test
# All kinds that there are. Products of eight bits are not written in torch.
TOWER = [kind for kind in _fovea.attention_kinds(False) if kind != "eight"]
TEXT = _fovea.attention_kinds(True)
SHAPES = {"one": (1, 1), "block": (8, 8), "odd": (5, 17), "tower": (24, 24)}


def grid(rows, columns, level=0):
    return torch.stack(torch.meshgrid(torch.tensor([level]), torch.arange(rows), torch.arange(columns),
                                      indexing="ij"), -1).reshape(-1, 3)


def mixed():
    """As a plan leaves them: fine places with gaps over all of a coarser level, in any order."""
    places = torch.cat([grid(7, 9, 2), torch.tensor([[0, i * 7 // 36, i * 7 % 36] for i in range(130)])])
    return places[torch.randperm(len(places), generator=torch.Generator().manual_seed(5))]


def rows_of(count, heads=4, kv_heads=2, size=20, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)

    def made(of):
        return torch.randn(count, of, size, generator=generator, dtype=torch.float64).to(dtype)

    return made(heads), made(kv_heads), made(kv_heads)


def test_every_kind_has_a_form_in_torch():
    assert set(reference.TOWER) | {"performer"} == set(TOWER) and set(reference.TEXT) == set(TEXT)


@pytest.mark.parametrize("kind", TOWER)
@pytest.mark.parametrize("places", [*(grid(*shape) for shape in SHAPES.values()), mixed()],
                         ids=[*SHAPES, "mixed"])
def test_kernels_are_the_reference(kind, places):
    q, k, v = rows_of(len(places))
    weights = torch.tensor([0.3, -0.2, 0.7])
    for level_weights, share in ((None, 0.0), (weights, 0.4)):
        out = ops.attention(q, k, v, kind, places=places, level_weights=level_weights, share=share)
        wanted = ops.attention(q.double(), k.double(), v.double(), kind, places=places, share=share,
                               level_weights=None if level_weights is None else level_weights.double())
        assert out.dtype == torch.float32 and wanted.dtype == torch.float64
        # f32 sums of a few hundred values of about 1; exponentials are good to 2e-6 of themselves.
        assert (out - wanted).abs().max() < 2e-5, (kind, share)


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("count", [1, 7, 200, 900])
def test_kernels_of_sequences_are_the_reference(kind, count):
    q, k, v = rows_of(count, 6, 3, 12)
    images = torch.tensor([[0, count // 3], [count // 3, count // 3], [count // 2, count]])
    for share in (0.0, 0.6):
        out = ops.attention(q, k, v, kind, causal=True, images=images, share=share)
        wanted = ops.attention(q.double(), k.double(), v.double(), kind, causal=True, images=images, share=share)
        assert (out - wanted).abs().max() < 2e-5
    plain = torch.nn.functional.scaled_dot_product_attention(
        *(one.transpose(0, 1).double() for one in (q, *(x.repeat_interleave(2, 1) for x in (k, v)))), is_causal=True)
    if kind == "dense":
        assert (wanted - plain.transpose(0, 1)).abs().max() < 1e-12


def test_dense_is_torchs():
    q, k, v = rows_of(100, 4, 4, 16, torch.float64)
    plain = torch.nn.functional.scaled_dot_product_attention(*(one.transpose(0, 1) for one in (q, k, v)))
    assert (ops.attention(q, k, v) - plain.transpose(0, 1)).abs().max() < 1e-12


def test_kinds_without_a_form_in_torch_still_attend():
    places = grid(20, 20)
    q, k, v = rows_of(400, 2, 2, 16)
    out = ops.attention(q * 0.3, k * 0.3, v, "eight", places=places)
    dense = ops.attention(q * 0.3, k * 0.3, v)
    assert out.shape == q.shape and torch.cosine_similarity(out.flatten(), dense.flatten(), 0) > 0.5
    with pytest.raises(fovea.InputError, match="gradients"):
        ops.attention(q.requires_grad_(), k, v, "eight", places=places).sum().backward()


def test_other_formats_are_rounded():
    places = grid(6, 6)
    q, k, v = (one.bfloat16() for one in rows_of(36))
    out = ops.attention(q, k, v, "local5", places=places)
    wanted = ops.attention(q.float(), k.float(), v.float(), "local5", places=places)
    assert out.dtype == torch.bfloat16 and torch.equal(out, wanted.bfloat16())


@pytest.mark.parametrize("kind", TOWER)
def test_other_formats_in_torch_are_rounded_too(kind):
    """What a GPU computes of bf16: in f32, and rounded once."""
    places = grid(9, 17)
    q, k, v = (one.bfloat16() for one in rows_of(len(places)))
    weights = torch.tensor([0.5])
    out = ops._attend_in_torch(q, k, v, kind, False, places, None, weights, 0.0, 0.2)
    wanted = ops._attend_in_torch(q.float(), k.float(), v.float(), kind, False, places, None, weights, 0.0, 0.2)
    assert out.dtype == torch.bfloat16 and torch.equal(out, wanted.bfloat16())


@pytest.mark.parametrize("kind", TOWER)
def test_gradients_of_the_tower(kind):
    places = torch.cat([grid(4, 12), grid(2, 6, 1)])
    leaves = [one.requires_grad_() for one in rows_of(len(places), 2, 1, 4, torch.float64)]
    weights = torch.tensor([0.2, -0.4], dtype=torch.float64, requires_grad=True)

    def attend(q, k, v, level_weights):
        return ops.attention(q, k, v, kind, places=places, level_weights=level_weights, share=0.3)

    assert torch.autograd.gradcheck(attend, (*leaves, weights), atol=1e-6, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("count", [9, 150])
def test_gradients_of_sequences(kind, count):
    leaves = [one.requires_grad_() for one in rows_of(count, 2, 1, 4, torch.float64)]
    images = torch.tensor([[2, 6]] if count < 64 else [[0, 140]])
    assert torch.autograd.gradcheck(lambda *x: ops.attention(*x, kind, causal=True, images=images, share=0.5), leaves,
                                    atol=1e-6, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_what_is_wrong_is_refused_in_every_format(dtype):
    q, k, v = rows_of(4, dtype=dtype)
    places = grid(2, 2)
    for line, wrong in (
            ("leave it out", lambda: ops.attention(q, k, v, causal=True, level_weights=torch.zeros(2))),
            ("share of 2", lambda: ops.attention(q, k, v, "hierarchical", places=places, share=2.0)),
            ("share of", lambda: ops.attention(q, k, v, "hierarchical", places=places, share=float("nan"))),
            ("scale of -1", lambda: ops.attention(q, k, v, scale=-1.0)),
            ("its own place", lambda: ops.attention(q, k, v, "local3", places=places * 0)),
            ("0 or more", lambda: ops.attention(q, k, v, "local3", places=places - 1)),
            ("in order", lambda: ops.attention(q, k, v, "prefix", causal=True, images=torch.tensor([[2, 9]]))),
            ("in order", lambda: ops.attention(q, k, v, "prefix", causal=True, images=torch.tensor([[2, 3], [0, 1]]))),
            ("shape", lambda: ops.attention(q, k, v, "prefix", causal=True, images=torch.tensor([2, 3]))),
            ("shape", lambda: ops.attention(q, k, v, places=places, level_weights=torch.zeros(2, 1))),
            ("no attention", lambda: ops.attention(q, k, v, "fog", places=places)),
            ("language model alone", lambda: ops.attention(q, k, v, "prefix", places=places))):
        with pytest.raises(fovea.InputError, match=line):
            wrong()
    assert ops.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 20)
    none = [one[:0].detach().requires_grad_() for one in (q, k, v)]
    ops.attention(*none, "hierarchical", places=places[:0]).sum().backward()
    assert none[0].grad.shape == (0, 4, 20)


def test_a_weight_of_a_level_can_be_learned():
    """Rows of level 1 say what is wanted: their weight rises until they are seen alone."""
    places = torch.cat([grid(4, 4), grid(2, 2, 1)])
    q, k, v = rows_of(20, 2, 2, 8)
    v[:16] = -1
    v[16:] = 1
    weights = torch.zeros(2, requires_grad=True)
    descent = torch.optim.Adam([weights], 0.5)
    losses = []
    for _ in range(25):
        descent.zero_grad()
        loss = (ops.attention(q, k, v, "hierarchical", places=places, level_weights=weights) - 1).square().mean()
        loss.backward()
        descent.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0] and weights[1] > weights[0]


def test_pyramid_plan_and_patches():
    levels = ops.pyramid(CANVAS, 4)
    assert [tuple(level.shape) for level in levels] == [(160, 288, 3), (80, 144, 3), (40, 72, 3), (20, 36, 3)]
    whole = levels[0].int()
    box = (whole[::2, ::2] + whole[1::2, ::2] + whole[::2, 1::2] + whole[1::2, 1::2] + 2) // 4
    assert torch.equal(levels[1].int(), box)
    picture = CANVAS.repeat(2, 1, 1)
    cells = ops.plan(picture, "quadtree", 30)
    made = fovea.patches(picture, plan="quadtree", budget=30)
    assert np.array_equal(cells.numpy(), made.plan.cells)
    assert np.array_equal(ops.patches(picture, cells).numpy(), made.values)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (33, 7), (160, 288), (251, 333)], ids=str)
def test_pyramids_in_torch_are_those_of_the_engine(size):
    """What runs on a GPU, run on a CPU."""
    canvas = torch.from_numpy(np.random.default_rng(4).integers(0, 256, (*size, 3), np.uint8))
    count = max(1, max(size) - 1).bit_length() + 1
    made, wanted = patches_reference.pyramid(canvas, count), ops.pyramid(canvas, count)
    assert len(made) == len(wanted) == count
    for level, (mine, theirs) in enumerate(zip(made, wanted)):
        assert torch.equal(mine, theirs), level
    assert made[0].data_ptr() != canvas.data_ptr()


@pytest.mark.parametrize("maker", [kind.name for kind in fovea.plan_kinds()])
def test_patches_in_torch_are_those_of_the_engine(maker):
    """Cells at an edge, of several levels, in any order; a canvas, and images that have to be fitted to one."""
    for height, width in ((320, 288), (352, 736), (300, 290), (64, 96)):
        image = torch.from_numpy(np.random.default_rng(6).integers(0, 256, (height, width, 3), np.uint8))
        assert patches_reference.is_canvas(image) == (height in (320, 352))
        cells = ops.plan(image, maker, 0)
        cells = cells[torch.randperm(len(cells), generator=torch.Generator().manual_seed(1))]
        assert torch.equal(ops._patches_elsewhere(image, cells), ops.patches(image, cells))
        assert torch.equal(ops._patches_elsewhere(image, cells.long()), ops.patches(image, cells.long()))
    image, coarsest = image.repeat(5, 5, 1), torch.tensor([[4, 0, 0], [3, 1, 1]], dtype=torch.int32)
    assert torch.equal(ops._patches_elsewhere(image, coarsest), ops.patches(image, coarsest))


def test_cells_that_are_on_no_canvas_are_refused_in_torch_too():
    image = CANVAS.repeat(2, 1, 1)
    for wrong in ([[0, 0, 9]], [[9, 0, 0]], [[0, -1, 0]], [[0, 0, 0], [0, 0, 0]]):
        for work in (ops._patches_elsewhere, ops.patches):
            with pytest.raises(fovea.InputError, match="twice|not on the canvas|below 0"):
                work(image, torch.tensor(wrong, dtype=torch.int32))


def test_torch_agrees_that_they_are_operators():
    places = grid(4, 6)
    q, k, v = rows_of(24, 2, 1, 8)
    leaves = [one.requires_grad_() for one in (q, k, v)]
    weights = torch.zeros(1, requires_grad=True)
    for kind, causal in (("dense", False), ("hierarchical", False), ("performer", False), ("prefix", True)):
        where, level_weights = (None, None) if causal else (places, weights)
        images = torch.tensor([[2, 9]]) if causal else None
        torch.library.opcheck(torch.ops.fovea.attention, (*leaves, kind, causal, where, images, level_weights, 0.0, 0.3),
                              test_utils=CHECKS)
    torch.library.opcheck(torch.ops.fovea.pyramid, (CANVAS, 3), test_utils=CHECKS)
    torch.library.opcheck(torch.ops.fovea.patches, (CANVAS.repeat(2, 1, 1), torch.tensor([[0, 1, 2]], dtype=torch.int32)),
                          test_utils=CHECKS)


def test_compiled_graphs_are_whole():
    places = grid(4, 6)

    def work(picture, cells, q, k, v):
        values = ops.patches(picture, cells).mean() + ops.pyramid(picture, 2)[1].float().mean()
        return (ops.attention(q * 2, k, v, "hierarchical", places=places) + values).sum()

    picture, cells = CANVAS.repeat(2, 1, 1), torch.tensor([[1, 0, 0], [0, 3, 4]], dtype=torch.int32)
    leaves = [one.requires_grad_() for one in rows_of(24, 2, 1, 8)]
    whole = torch.compile(work, backend="aot_eager", fullgraph=True)
    wanted = work(picture, cells, *leaves)
    gradients = torch.autograd.grad(wanted, leaves)
    got = whole(picture, cells, *leaves)
    assert torch.allclose(got, wanted)
    for mine, theirs in zip(torch.autograd.grad(got, leaves), gradients):
        assert torch.allclose(mine, theirs)


def test_what_is_refused():
    q, k, v = rows_of(4)
    places = grid(2, 2)
    for wrong in (lambda: ops.attention(q, k[:3], v[:3]), lambda: ops.attention(q[:, :3], k, v),
                  lambda: ops.attention(q, k, v, "local3"), lambda: ops.attention(q, k, v, "fog", places=places),
                  lambda: ops.attention(q, k, v, "prefix", places=places),
                  lambda: ops.attention(q, k, v, "local3", places=places[:3]),
                  lambda: ops.attention(q, k, v, "local3", places=places * 0),
                  lambda: ops.attention(q, k, v, "local3", places=places - 1),
                  lambda: ops.attention(q[..., :6], k[..., :6], v[..., :6]),
                  lambda: ops.attention(q, k, v, "hierarchical", places=places, share=2.0),
                  lambda: ops.attention(q, k, v, "prefix", causal=True, images=torch.tensor([[2, 9]])),
                  lambda: ops.pyramid(CANVAS, 0), lambda: ops.pyramid(CANVAS, 40),
                  lambda: ops.pyramid(CANVAS.float(), 2), lambda: ops.plan(CANVAS, "spiral"),
                  lambda: ops.patches(CANVAS, torch.zeros(2, 2))):
        with pytest.raises(fovea.InputError):
            wrong()
    assert ops.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 20)


def test_the_documentation_runs(tmp_path):
    """The pieces of code in docs/python.md that need torch alone."""
    image = pytest.importorskip("PIL.Image")
    image.fromarray(CANVAS.repeat(2, 1, 1).numpy()).save(tmp_path / "scene.png")
    text = (ROOT / "docs/python.md").read_text()
    pieces = [piece for piece in re.findall(r"```python\n(.*?)```", text, re.S)
              if "import torch" in piece and "transformers" not in piece]
    assert len(pieces) == 2  # arrays without a copy, and operators
    for piece in pieces:
        run = subprocess.run([sys.executable, "-c", "import fovea\n" + piece], cwd=tmp_path, text=True,
                             capture_output=True, env=ENVIRONMENT)
        assert run.returncode == 0, run.stderr
