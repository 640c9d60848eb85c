# SPDX-License-Identifier: Apache-2.0
"""A few steps of training on one or several processes of this machine, and what they held: what test_sharded.py
compares and sharded_table.py prints.

Every process makes the same scenes and draws the same batch and plan, and works on its part of the batch.
"""
import dataclasses
import json
import sys
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).parent))
import model
import sharded
from data import Pool, Words
from loss import Arm, Steps, draw

TINY = Path(__file__).resolve().parent.parent / "models/tiny"


@dataclass
class Job:
    zero: int = 0
    checkpointing: bool = False
    dtype: str = "float32"
    engine: str = "torch"  # "deepspeed"; "adamw": what DeepSpeed computes, on one process without it
    arm: Arm = Arm("look", 4, 4, (32,))  # its batch is that of all processes together
    sizes: dict = field(default_factory=dict)  # of model.Config
    steps: int = 2
    lr: float = 2e-3
    measure: bool = False


class Live(TorchDispatchMode):
    """How many bytes the tensors hold that operations have made or were given: now, and at most."""

    def __init__(self):
        super().__init__()
        self.storages, self.most = {}, 0

    def add(self, values):
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                storage = sharded.local(value).untyped_storage()
                self.storages[storage._cdata] = weakref.ref(storage)

    def now(self):
        total, gone = 0, []
        for key, reference in self.storages.items():
            storage = reference()
            if storage is None:
                gone.append(key)
            else:
                total += storage.nbytes()
        for key in gone:
            del self.storages[key]
        return total

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.add((args, kwargs, result))
        self.most = max(self.most, self.now())
        return result


def part(batch, plan, rank, ranks):
    """This process's samples of a batch and its plan."""
    size = plan.shape[1] // ranks
    mine = slice(rank * size, (rank + 1) * size)
    cut = {one.name: getattr(batch, one.name)[mine] for one in dataclasses.fields(batch)}
    return type(batch)(**cut), plan[:, mine]


def prepare(job, words, pool):
    """-> (what runs work() with gathered parameters, its model, Steps, backward(loss), the optimiser)"""
    config = model.Config(vocab_size=words.vocab_size, **job.sizes)
    values = model.initial_parameters(config, torch.Generator().manual_seed(0))
    dtype = getattr(torch, job.dtype)
    net = sharded.Model(values, job.checkpointing)
    make_steps = lambda: Steps(config, net, pool, dtype, net.run, sharded.mean_divisor)
    if job.engine != "torch":
        import sharded_deepspeed
        engine = (sharded_deepspeed.start(net, job.zero, dtype, job.lr) if job.engine == "deepspeed" else
                  sharded_deepspeed.Alone(net, job.lr))
        return engine, net, make_steps(), engine.backward, engine
    sharded.shard(net, job.zero, dtype)
    optimizer = sharded.ShardedOptimizer(net, model.is_block_matrix)
    optimizer.lr = job.lr
    return net, net, make_steps(), lambda loss: loss.backward(), optimizer


def work(rank, ranks, job, folder):
    """Writes rank<rank>.json, and of rank 0 values.pt."""
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    words = Words(TINY)
    pool = Pool(words, TINY, scenes=8, device=torch.device("cpu"), seed=2 ** 39, batch=8, workers=1, threads=1)
    run, net, steps, backward, optimizer = prepare(job, words, pool)
    torch.manual_seed(0)
    found = {"losses": []}
    live = Live()
    for number in range(job.steps):
        batch = draw(pool, job.arm)
        plan, blocks = steps.plan(job.arm, batch)
        batch, plan = part(batch, plan, rank, ranks)
        measured = job.measure and number == job.steps - 1
        if measured:
            live.add([sharded.local(value) for value in net.values()])
            live.add([optimizer.momentum, optimizer.square])
            rest = live.now()
            live.__enter__()
        loss = run(lambda: steps.loss_of(batch, plan, blocks))[0]
        if measured:
            found["held"] = live.now() - rest
        backward(loss)
        if job.engine == "torch":
            found["gradients"] = sharded.gradient_bytes(net)
        optimizer.step()
        if measured:
            live.__exit__(None, None, None)
            found["most"] = live.most
        mean = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(mean)
        found["losses"].append(float(mean) / ranks)
    if job.engine == "deepspeed":
        import sharded_deepspeed
        found.update(states=sharded_deepspeed.state_bytes(optimizer))
        values = sharded_deepspeed.values(net)
    else:
        found.update(parameters=sharded.parameter_bytes(net), states=optimizer.state_bytes())
        values = optimizer.values()
    if rank == 0:
        torch.save(values, Path(folder) / "values.pt")
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(found))
    pool.close()
    if ranks > 1:
        dist.destroy_process_group()


def run_job(job, ranks):
    """-> (what each process found, the values after the last step)"""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (ranks, job, folder), nprocs=ranks)
        found = [json.loads((Path(folder) / f"rank{rank}.json").read_text()) for rank in range(ranks)]
        return found, torch.load(Path(folder) / "values.pt")
