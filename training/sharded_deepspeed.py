# SPDX-License-Identifier: Apache-2.0
"""sharded.Model by DeepSpeed's ZeRO, where that is installed.

DeepSpeed lays parameters end to end and cuts that anywhere, so that no process has whole rows of a matrix and Muon has
nothing to exchange: all parameters are AdamW's here.
"""
import os

import torch

import sharded

BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.01, 1.0


def adamw(model, lr):
    return torch.optim.AdamW(model.parameters(), lr, BETAS, weight_decay=WEIGHT_DECAY)


def start(model, zero, dtype, lr):
    """-> DeepSpeed's engine: engine(work), engine.backward(loss), engine.step()"""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", str(torch.distributed.get_rank()))  # one machine, unless a launcher says more
    import deepspeed

    settings = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": CLIP, "zero_allow_untested_optimizer": True,
                "bf16": {"enabled": dtype == torch.bfloat16},
                "zero_optimization": {"stage": zero, "overlap_comm": False, "contiguous_gradients": True,
                                      "stage3_param_persistence_threshold": 0}}
    return deepspeed.initialize(model=model, optimizer=adamw(model, lr), config=settings)[0]


def state_bytes(engine):
    """Of AdamW's two means of this process."""
    states = engine.optimizer.optimizer.state.values()
    return sum(value.nbytes for state in states for value in state.values() if value.ndim > 0)


def values(model):
    """The values by name, whole, float32, on the CPU; every process must ask for them."""
    import deepspeed

    found = {}
    for name, value in model.items():
        with deepspeed.zero.GatheredParameters([value]):
            found[name] = value.detach().float().cpu().clone()
    return found


class Alone:
    """One process with AdamW and no DeepSpeed: what the others are compared with."""

    def __init__(self, model, lr):
        self.model, self.optimizer = model, adamw(model, lr)

    def __call__(self, work):
        return self.model(work)

    def backward(self, loss):
        loss.backward()

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_bytes(self):
        states = self.optimizer.state.values()
        return sum(value.nbytes for state in states for value in state.values() if value.ndim > 0)

    def values(self):
        return {name: sharded.whole(value.detach()).float().cpu().clone() for name, value in self.model.items()}
