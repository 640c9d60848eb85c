# SPDX-License-Identifier: Apache-2.0
"""What gpu_torch.py and gpu_transformers.py share: timing on a device, CUDA graphs, and rows.

A row is {"name", "peer", "peer_value", "unit"}; name is the row of `fovea bench gpu` it is a peer of. Each is printed
as one line of JSON as soon as it is measured, so that what was measured survives a peer that breaks the device.
Without a device (--smoke) everything runs on the CPU at tiny sizes: that shows that the script works, nothing else.
"""
import json
import statistics
import time

import torch


class Clock:
    def __init__(self, smoke, use_compile=False):
        self.smoke = smoke
        self.device = torch.device("cpu" if smoke else "cuda")
        self.use_compile = use_compile

    def size(self, whole, tiny):
        """The size to measure at: `tiny` where there is no device."""
        return tiny if self.smoke else whole

    def wait(self):
        if not self.smoke:
            torch.cuda.synchronize()

    def wall_ms(self, body, calls=7):
        """Median time of a call on the host's clock, the device's work included."""
        times = []
        for number in range(2 if self.smoke else calls + 2):
            self.wait()
            start = time.perf_counter()
            body()
            self.wait()
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times[1 if self.smoke else 2:])

    def ms(self, body, budget_ms=250):
        """Median time of a call between two events on the device. Calls follow each other without waiting, as many
        to a sample as fill a millisecond: what the host adds counts only where the device waits for it."""
        if self.smoke:
            return self.wall_ms(body)
        once = self.wall_ms(body, 3)
        calls = max(1, min(50, int(1 / max(once, 1e-3))))
        times = []
        for _ in range(max(5, min(40, int(budget_ms / (calls * max(once, 1e-3)))))):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(calls):
                body()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / calls)
        return statistics.median(times)

    def graph(self, body):
        """-> (replay, what the captured call returned). The peer's kernels without its host time."""
        if self.smoke:
            return body, body()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                body()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = body()
        graph.replay()
        self.wait()
        return graph.replay, result


def emit(name, peer, value, unit="ms"):
    row = {"name": name, "peer": peer, "peer_value": value, "unit": unit}
    print(json.dumps(row), flush=True)
    return row


def note(name, peer, error):
    """A peer that cannot run here is said, not left out."""
    print(json.dumps({"name": name, "peer": peer, "note": str(error).strip().splitlines()[0][:200]}), flush=True)


def attempt(name, peer, measure, unit="ms"):
    """Emits what `measure` returns, or why there is nothing."""
    try:
        return emit(name, peer, measure(), unit)["peer_value"]
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, ImportError) as error:
        note(name, peer, error)
        return None


def check_close(what, found, wanted, least_cosine=0.999):
    """Outputs of two ways to compute the same must point the same way; bf16 rounds them differently."""
    found, wanted = found.double().flatten(), wanted.double().flatten()
    cosine = float(found @ wanted / (found.norm() * wanted.norm()))
    if not cosine >= least_cosine:
        raise ValueError(f"{what}: computes something else, cosine {cosine:.5f}")
