# SPDX-License-Identifier: Apache-2.0
"""Attention "level-sum" by fovea.ops: its weights, which can be learned. test_ops.py compares it with the kernels."""

import pytest

import fovea

torch = pytest.importorskip("torch", reason="torch is not installed")
from fovea import ops  # noqa: E402
from test_ops import CHECKS, grid, mixed, rows_of  # noqa: E402


def attend(q, k, v, places, weights=None, **more):
    return ops.attention(q, k, v, "level-sum", places=places, sum_weights=weights, **more)


@pytest.mark.parametrize("places", [grid(5, 17), grid(24, 24), mixed()], ids=["odd", "tower", "mixed"])
def test_kernels_take_the_weights(places):
    q, k, v = rows_of(len(places))
    for weights in (torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0]), torch.tensor([0.0, 0, 1]),
                    torch.tensor([0.7, -0.4, 0.9])):
        out = attend(q, k, v, places, weights, share=0.3)
        wanted = attend(q.double(), k.double(), v.double(), places, weights.double(), share=0.3)
        assert (out - wanted).abs().max() < 2e-5, weights  # as in test_ops.py
    assert torch.allclose(attend(q, k, v, places), attend(q, k, v, places, torch.full((3,), 1 / 3)))


def test_all_blocks_in_full_are_dense():
    places = grid(20, 13)
    q, k, v = rows_of(len(places), dtype=torch.float64)
    fine = attend(q, k, v, places, torch.tensor([1.0, 0, 0], dtype=torch.float64), share=1.0)
    assert (fine - ops.attention(q, k, v)).abs().max() < 1e-12


def test_gradients():
    places = torch.cat([grid(4, 12), grid(9, 2, 1)])
    leaves = [one.requires_grad_() for one in rows_of(len(places), 2, 1, 4, torch.float64)]
    biases = torch.tensor([0.2, -0.4], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.5, -0.2, 0.6], dtype=torch.float64, requires_grad=True)

    def by(q, k, v, biases, weights):
        return attend(q, k, v, places, weights, level_weights=biases, share=0.3)

    assert torch.autograd.gradcheck(by, (*leaves, biases, weights), atol=1e-6, rtol=1e-4, fast_mode=True)
    # Each weight by itself, without biases of levels.
    fixed = [one.detach() for one in leaves]
    assert torch.autograd.gradcheck(lambda x: attend(*fixed, places, x, share=0.3), (weights,), atol=1e-6, rtol=1e-4)


def test_weights_can_be_learned():
    """What is wanted was made by other weights: they are found, with f32 kernels forward."""
    places = grid(16, 16)
    q, k, v = rows_of(len(places), 2, 1, 8)
    wanted = torch.tensor([0.9, -0.3, 0.4])
    target = attend(q, k, v, places, wanted)
    weights = torch.full((3,), 1 / 3, requires_grad=True)
    descent = torch.optim.Adam([weights], 0.1)
    losses = []
    for _ in range(60):
        descent.zero_grad()
        loss = (attend(q, k, v, places, weights) - target).square().mean()
        loss.backward()
        descent.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]
    assert (weights.detach() - wanted).abs().max() < 0.1 * (wanted - 1 / 3).abs().max()


def test_torch_agrees_that_it_is_an_operator():
    leaves = [one.requires_grad_() for one in rows_of(24, 2, 1, 8)]
    weights = torch.tensor([0.5, 0.25, 0.25], requires_grad=True)
    for biases in (None, torch.zeros(1, requires_grad=True)):
        torch.library.opcheck(torch.ops.fovea.attention,
                              (*leaves, "level-sum", False, grid(4, 6), None, biases, 0.0, 0.3, weights),
                              test_utils=CHECKS)


def test_what_is_refused():
    q, k, v = rows_of(4)
    places = grid(2, 2)
    for kind, weights in (("level-sum", torch.zeros(2)), ("level-sum", torch.zeros(3, 1)),
                          ("hierarchical", torch.zeros(3)), ("level-sum", torch.full((3,), torch.nan))):
        with pytest.raises(fovea.InputError):
            ops.attention(q, k, v, kind, places=places, sum_weights=weights)
    with pytest.raises(fovea.InputError):
        ops.attention(q, k, v, "dense", causal=True, sum_weights=torch.zeros(3))
