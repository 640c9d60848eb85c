# SPDX-License-Identifier: Apache-2.0
"""Weights between pieces of training: bfloat16, in files small enough to carry; and the state of the training."""
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

FILE_BYTES = 15 * 2 ** 20


def save(folder, values, state):
    folder = Path(folder)
    files, size = [{}], 0
    for name, value in values.items():
        value = value.bfloat16().contiguous()
        size += value.nbytes
        if size > FILE_BYTES:
            files.append({})
            size = value.nbytes
        files[-1][name] = value
    for number, tensors in enumerate(files):
        save_file(tensors, folder / f"weights{number}.safetensors")
    (folder / "state.json").write_text(json.dumps(dict(state, files=len(files))))


def load(folder):
    folder = Path(folder)
    state = json.loads((folder / "state.json").read_text())
    values = {}
    for number in range(state["files"]):
        values.update(load_file(folder / f"weights{number}.safetensors"))
    return {name: value.to(torch.float32) for name, value in values.items()}, state
