# SPDX-License-Identifier: Apache-2.0
"""The model of model.py on several processes: parameters, gradients and optimiser states in parts.

model.py computes with a dictionary of tensors. Here the same names lie in modules, one for each block, merger and
layer, since that is what torch's FSDP2 and DeepSpeed gather and let go: Model is that dictionary, and runs the
functions of model.py where their parameters are whole.

zero=0  every process has everything; gradients are averaged
zero=2  gradients and optimiser states in parts; what a step gathered stays until its backward pass has used it
zero=3  parameters in parts too: a block is gathered for its forward pass, let go, and gathered for its backward pass

The values that learn are float32; what is computed with is in `dtype`.
"""
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from optimizer import orthogonalise

PARTS = ("blocks.", "layers.", "deepstack_merger_list.")


def part_of(name):
    """What a parameter is gathered with: the prefix of its block, merger or layer; "" for all others."""
    for part in PARTS:
        if part in name:
            at = name.index(part) + len(part)
            return name[:name.index(".", at) + 1]
    return name[:name.index("merger.") + len("merger.")] if "visual.merger." in name else ""


class Part(torch.nn.Module):
    """The parameters of one part, and a forward pass with them."""

    def __init__(self, prefix, values, checkpointing):
        super().__init__()
        self.prefix, self.checkpointing = prefix, checkpointing
        for name, value in values.items():
            self.register_parameter(name.removeprefix(prefix).replace(".", "/"), torch.nn.Parameter(value))

    def forward(self, function, parameters, *args):
        if not (self.checkpointing and torch.is_grad_enabled()):
            return function(parameters, self.prefix, *args)
        return checkpoint(function, parameters, self.prefix, *args, use_reentrant=False)


class Model(torch.nn.Module, Mapping):
    """Parameters by their names; forward(work) runs work() where those of no part are whole."""

    def __init__(self, values, checkpointing=False):
        super().__init__()
        prefixes = {part_of(name) for name in values}
        self.places = {name: (part_of(name), name.removeprefix(part_of(name)).replace(".", "/")) for name in values}
        self.parts = torch.nn.ModuleDict({
            prefix.replace(".", "/"): Part(prefix, {n: v for n, v in values.items() if part_of(n) == prefix},
                                           checkpointing) for prefix in sorted(prefixes - {""})})
        for name, value in values.items():
            if part_of(name) == "":
                self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(value))

    def forward(self, work):
        return work()

    def run(self, function, parameters, prefix, *args):
        """As model.run_here, through the part's module."""
        return self.parts[prefix.replace(".", "/")](function, parameters, *args)

    def owner(self, name):
        prefix, key = self.places[name]
        return (self.parts[prefix.replace(".", "/")] if prefix else self), key

    def __getitem__(self, name):
        module, key = self.owner(name)
        return getattr(module, key)

    def __iter__(self):
        return iter(self.places)

    def __len__(self):
        return len(self.places)

    __hash__, __eq__ = torch.nn.Module.__hash__, torch.nn.Module.__eq__


def shard(model, zero, dtype=torch.float32, mesh=None):
    """torch's FSDP2 over all processes, in place."""
    if zero == 0:
        return
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for part in model.parts.values():
        fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=zero == 3)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=zero == 3)


def ranks():
    return dist.get_world_size() if dist.is_initialized() else 1


def mean_divisor(count):
    """Steps.divisor of several processes with parts of a batch of one size."""
    if ranks() == 1:
        return count.clamp(min=1)
    total = count.detach().float()
    dist.all_reduce(total)
    return total.clamp(min=1) / ranks()


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def spans(count, parts):
    """How many of `count` rows each of `parts` has, as FSDP2 cuts them."""
    each = -(-count // parts)
    return [max(0, min(each, count - each * i)) for i in range(parts)]


def over_owners(x, work):
    """work() over whole matrices of which every process has some rows.

    x [n, rows of this process, cols], of n matrices of `rows` rows in all; every process gets some of the n whole,
    calls work [m, rows, cols] -> the same, and gives the rows back: two exchanges of as many bytes as x has.
    """
    n, mine, cols = x.shape
    sizes = torch.tensor([mine], device=x.device)
    every = [torch.zeros_like(sizes) for _ in range(ranks())]
    dist.all_gather(every, sizes)
    heights, owned = [int(size) for size in every], spans(n, ranks())
    number = owned[dist.get_rank()]
    sent, got = [count * mine * cols for count in owned], [number * height * cols for height in heights]
    out = x.new_empty(sum(got))
    dist.all_to_all_single(out, x.contiguous().flatten(), got, sent)
    pieces = [piece.view(number, height, cols) for piece, height in zip(out.split(got), heights)]
    made = torch.cat(pieces, 1)
    made = (work(made) if number else made).to(x.dtype)
    back = torch.cat([piece.flatten() for piece in made.split(heights, 1)])
    result = torch.empty_like(x).flatten()
    dist.all_to_all_single(result, back, sent, got)
    return result.view(x.shape)


class ShardedOptimizer:
    """optimizer.py's step on parts: the same formulas, Muon for matrices and AdamW for the rest.

    States lie where the rows of their parameters lie. Muon's step needs whole matrices: all of one shape are dealt
    out, each is orthogonalised by one process, and its rows go back.
    """

    def __init__(self, model, is_matrix, betas=(0.9, 0.95), weight_decay=(0.05, 0.01), clip=1.0):
        self.betas, self.clip = betas, clip
        self.matrix_decay, self.other_decay = weight_decay
        self.model, self.lr, self.steps = model, 0.0, 0
        self.is_sharded = any(isinstance(value, DTensor) for value in model.values())
        matrices = [name for name in model if is_matrix(name, model[name])]
        self.shapes = {}
        for name in matrices:
            self.shapes.setdefault(tuple(model[name].shape), []).append(name)
        self.others = [name for name in model if name not in set(matrices)]
        self.momentum = {name: torch.zeros_like(local(value.detach())) for name, value in model.items()}
        self.square = {name: torch.zeros_like(self.momentum[name]) for name in self.others}

    @torch.no_grad()
    def step(self):
        """Uses the gradients and clears them."""
        # None of what this arm did not use; as in optimizer.py its state fades all the same.
        gradients = {name: local(value.grad) if value.grad is not None else torch.zeros_like(self.momentum[name])
                     for name, value in self.model.items()}
        if not self.is_sharded and ranks() > 1:
            for gradient in gradients.values():
                dist.all_reduce(gradient)
                gradient /= ranks()
        square = sum(gradient.float().square().sum() for gradient in gradients.values())
        if self.is_sharded:
            dist.all_reduce(square)
        scale = self.clip / square.sqrt().clamp(min=self.clip)
        self.steps += 1
        for name in self.others:
            self._adamw(name, gradients[name] * scale)
        for shape, names in self.shapes.items():
            self._muon(names, shape, torch.stack([gradients[name] * scale for name in names]))
        for value in self.model.values():
            value.grad = None

    def _adamw(self, name, g):
        b1, b2 = self.betas
        value, mean, square = local(self.model[name]), self.momentum[name], self.square[name]
        mean.lerp_(g, 1 - b1)
        square.lerp_(g * g, 1 - b2)
        root = (square / (1 - b2 ** self.steps)).sqrt() + 1e-8
        value.sub_(self.lr * (mean / (1 - b1 ** self.steps) / root + self.other_decay * value))

    def _muon(self, names, shape, g):
        for name, gradient in zip(names, g):
            self.momentum[name].lerp_(gradient, 0.05)
        u = g.lerp(torch.stack([self.momentum[name] for name in names]), 0.95)
        u = over_owners(u, orthogonalise) if self.is_sharded else orthogonalise(u)
        size = 0.2 * max(shape) ** 0.5
        for name, change in zip(names, u.to(g.dtype)):
            value = local(self.model[name])
            value.sub_(self.lr * (size * change + self.matrix_decay * value))

    def values(self):
        """The values by name, whole, float32, on the CPU; every process must ask for them."""
        return {name: whole(value.detach()).float().cpu().clone() for name, value in self.model.items()}

    def state_bytes(self):
        return sum(state.nbytes for states in (self.momentum, self.square) for state in states.values())


def parameter_bytes(model):
    return sum(local(value).nbytes for value in model.values())


def gradient_bytes(model):
    return sum(local(value.grad).nbytes for value in model.values() if value.grad is not None)
