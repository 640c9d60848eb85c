# SPDX-License-Identifier: Apache-2.0
"""Muon for the matrices of the blocks, AdamW for the rest, without a host call a tensor.

Every parameter is a view of one buffer, so that a step is a few dozen kernels however many tensors there are, and all
of it can be captured in a CUDA graph. The values that learn are float32 (`master`); the model computes with their
copies in `dtype`. Matrices of one shape are orthogonalised together.

Muon's step is that of torch.optim.Muon with adjust_lr_fn="match_rms_adamw":
    momentum = lerp(momentum, g, 0.05);  u = lerp(g, momentum, 0.95);  W -= lr 0.2 sqrt(max(rows, cols)) orthogonal(u)
"""
import torch

NEWTON_SCHULZ = (3.4445, -4.775, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonalise(g):
    """g [n, rows, cols] -> nearly U V^T of each matrix's U S V^T."""
    a, b, c = NEWTON_SCHULZ
    x = g.bfloat16() if g.is_cuda else g
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if tall else x


class Optimizer:
    def __init__(self, values, is_matrix, device, dtype, betas=(0.9, 0.95), weight_decay=(0.05, 0.01), clip=1.0):
        self.betas, self.clip = betas, clip
        self.matrix_decay, self.other_decay = weight_decay
        matrices = [name for name, value in values.items() if is_matrix(name, value)]
        shapes = sorted({tuple(values[name].shape) for name in matrices})
        others = [name for name in values if name not in set(matrices)]
        order = [name for shape in shapes for name in matrices if tuple(values[name].shape) == shape] + others
        self.master = torch.cat([values[name].flatten().float() for name in order]).to(device)
        self.copies = self.master.to(dtype)
        self.gradients = torch.zeros_like(self.copies)
        self.parameters, self.slices = {}, {}
        at = 0
        for name in order:
            size, shape = values[name].numel(), values[name].shape
            view = self.copies[at:at + size].view(shape).detach().requires_grad_()
            view.grad = self.gradients[at:at + size].view(shape)
            self.parameters[name], self.slices[name] = view, (at, size, shape)
            at += size
        self.groups = []  # (begin, end, shape of all matrices of the group)
        at = 0
        for shape in shapes:
            count = sum(tuple(values[name].shape) == shape for name in matrices)
            size = count * shape[0] * shape[1]
            self.groups.append((at, at + size, (count, *shape)))
            at += size
        self.border = at
        self.momentum = torch.zeros_like(self.master)
        self.square = torch.zeros_like(self.master[at:])
        self.steps = torch.zeros((), device=device)
        self.lr = torch.zeros((), device=device)  # set before each step

    @torch.no_grad()
    def step(self):
        """Uses the gradients and clears them."""
        g = self.gradients.float()
        g = g * (self.clip / g.norm().clamp(min=self.clip))
        self.steps += 1
        self._adamw(g[self.border:], self.master[self.border:], self.momentum[self.border:])
        for begin, end, shape in self.groups:
            self._muon(g[begin:end].view(shape), self.master[begin:end].view(shape),
                       self.momentum[begin:end].view(shape))
        self.copies.copy_(self.master)
        self.gradients.zero_()

    def _adamw(self, g, master, mean):
        b1, b2 = self.betas
        mean.lerp_(g, 1 - b1)
        self.square.lerp_(g * g, 1 - b2)
        unbiased = mean / (1 - b1 ** self.steps)
        root = (self.square / (1 - b2 ** self.steps)).sqrt() + 1e-8
        master.sub_(self.lr * (unbiased / root + self.other_decay * master))

    def _muon(self, g, master, momentum):
        momentum.lerp_(g, 0.05)
        u = orthogonalise(g.lerp(momentum, 0.95)).float()
        size = 0.2 * max(g.shape[1], g.shape[2]) ** 0.5
        master.sub_(self.lr * (size * u + self.matrix_decay * master))

    def values(self):
        """The values by name, float32, on the CPU."""
        flat = self.master.cpu()
        return {name: flat[at:at + size].view(shape).clone() for name, (at, size, shape) in self.slices.items()}
