# SPDX-License-Identifier: Apache-2.0
"""What two of the seeds claim of attention and of memory: of kinds of attention that see fewer keys, and of tokens that
are pruned or stored in fewer bytes. Each claim once, with the conditions of both sides.

Times come from `fovea bench attention` (a CPU) and `fovea bench gpu`, accuracies from `fovea eval --json`: a run with
the arm `full` for each kind of attention, and one with `full`, arms of forgetting and `coupling`. A claim of both a
time and an accuracy holds where both do.
"""
import json
import sys
from dataclasses import dataclass
from pathlib import Path

POINTS = 0.5       # of accuracy: what a claim may be missed by
ALL_TOKENS = 1024  # of CardField's pictures


@dataclass
class Judged:
    """As seed_table.Claim, which makes one of it."""

    what: str
    claimed: str
    measured: str | None
    holds: bool | None
    why: str
    theirs: str  # the conditions of the claim
    ours: str


class Accuracies:
    """Rows of all families of `fovea eval --json`, by kind of attention, arm and budget: (accuracy in %, questions)."""

    def __init__(self, paths):
        self.found = {}
        for path in paths:
            report = json.loads(Path(path).read_text())
            if "rows" not in report or "settings" not in report:
                sys.exit(f"seed_attention.py: {path} is not of `fovea eval --json`")
            settings = report["settings"]
            kind = settings.get("attention", settings.get("attention_text", "dense"))
            for row in report["rows"]:
                if row["family"] == "all":
                    self.found[kind.split(":")[0], row["arm"], row["budget"]] = (100 * row["accuracy"], row["n"])

    def lost(self, kind, arm="full", budget=0):
        """Points beside `full` with dense attention, and how many questions; None where one is missing."""
        whole, one = self.found.get(("dense", "full", 0)), self.found.get((kind, arm, budget))
        return None if whole is None or one is None else (whole[0] - one[0], min(whole[1], one[1]))


def ratio(a, b):
    return None if a is None or not b else a / b


def kind_ms(cpu, kind):
    return cpu.ms(f"attention/4096/{kind}")


def judged(what, claimed, gain, lost, least_gain, most_lost, conditions):
    """Of a time and an accuracy; a gain or a loss that is not claimed is None in its bound. Conditions: theirs, ours,
    what else there is to say."""
    parts, verdicts = [], []
    if least_gain is not None:
        parts.append(f"{gain:.2g}x" if gain is not None else "time not measured")
        verdicts.append(None if gain is None else gain >= 0.9 * least_gain)
    if most_lost is not None:
        parts.append(f"{lost[0]:.1f} points lost of {lost[1]} questions" if lost else "accuracy not measured")
        verdicts.append(None if lost is None else lost[0] <= most_lost + POINTS)
    # One part that fails is enough; a verdict that is good needs all parts.
    holds = False if False in verdicts else None if None in verdicts else True
    nothing = gain is None and lost is None
    theirs, ours, why = conditions
    return Judged(what, claimed, None if nothing else ", ".join(parts), holds, why, theirs, ours)


def kinds(cpu, accuracies):
    """Attention that sees fewer keys, 4,096 patches, a layer of the tower."""
    dense = kind_ms(cpu, "dense")
    where = "A100, LLaVA and language models", "CPU, CardField", "beside dense attention of the same run"
    rows = [("hierarchical", "FlexAttention (ours: hierarchical)", "1.5x, below 1 %", 1.5, 1),
            ("linformer", "Linformer", "5x to 10x, 2 to 5 %", 5, 5),
            ("performer", "Performer", "5x to 10x, 2 to 5 %", 5, 5)]
    return [judged(f"attention of fewer keys, 1024x1024: {what}", claimed, ratio(dense, kind_ms(cpu, kind)),
                   accuracies.lost(kind), least, most, where)
            for kind, what, claimed, least, most in rows]


def pruned(accuracies):
    where = ("LLaVA and others, during prefill", "CardField, embedded model, between prefill and answer",
             "accuracy alone")
    half, four_tenths, quarter, tenth = (ALL_TOKENS // 2, ALL_TOKENS * 4 // 10, ALL_TOKENS // 4, ALL_TOKENS // 10)
    rows = [("VL-Cache keeps half of the keys and values", "minimal loss", "forget-vl-cache", half, 1),
            ("VL-Cache keeps a tenth", "minimal loss", "forget-vl-cache", tenth, 1),
            ("text-guided pruning of 30 to 50 % of the tokens (sparse-vlm)", "no loss", "forget-sparse-vlm", half, 0),
            ("SparseVLM keeps 40 %", "2.5 points", "forget-sparse-vlm", four_tenths, 2.5),
            ("SparseVLM keeps a quarter", "2.5 points", "forget-sparse-vlm", quarter, 2.5),
            ("similar tokens are merged, a quarter left", "an alternative", "forget-merge", quarter, 2)]
    return [judged(what, claimed, None, accuracies.lost("dense", arm, budget), None, most, where)
            for what, claimed, arm, budget, most in rows]


def relevance(gpu, accuracies):
    """Query-aware allocation: what the whole project is about."""
    gain = ratio(gpu.ms("first-token/full"), gpu.ms("first-token/68"))
    return [judged("query-aware relevance allocation, end to end", "5x to 7x, accuracy maintained", gain,
                   accuracies.lost("dense", "coupling", 96), 5, 1,
                   ("not named", "GPU, 2B sizes, first token at 68 of 1,024; CardField at 96, embedded model", ""))]


def fused(gpu, peers):
    """Fused attention beside the matrix that is written out."""
    written = peers.peer_ms("attention/tower4096", "torch SDPA math")
    where = "A100", "GPU", "4,096 patches, 16 heads of 64, bf16, one layer"
    rows = [("fused attention (torch's flash) beside the written-out matrix", "2x to 8x",
             peers.peer_ms("attention/tower4096", "torch SDPA flash"), 2),
            ("a fused layer of attention (ours) beside the written-out matrix", "3.2x", gpu.ms("attention/tower4096"),
             3.2)]
    return [judged(what, claimed, ratio(written, ms), None, least, None, where) for what, claimed, ms, least in rows]


def arithmetic():
    """Of the seed on sparse textures, from its own figures."""
    pruned_tokens = [410, 820, 310, 650, 180, 920, 450, 560]
    page, embedding = 64, 2  # KB; of 1,024 half floats
    paged, plain = sum(pruned_tokens) * page, 8 * ALL_TOKENS * embedding
    row = 128  # values of a head
    int8 = 2 * row / (row + 2)
    return [
        Judged("sparse textures with a 64 KB page for each token save memory, eight pictures", "46 %",
               f"{-100 * (paged / plain - 1):.0f} %", False,
               f"{sum(pruned_tokens):,} pages are {paged / 1024:.0f} MB; all 8,192 embeddings take "
               f"{plain / 1024:.0f} MB", "not named", "arithmetic"),
        Judged("int8 reduces memory (ours: keys and values, beside bf16)", "2x", f"{int8:.2f}x", int8 >= 0.9 * 2,
               "130 bytes of a head in place of 256; what it costs is in memory.md", "not named", "arithmetic"),
    ]


def claims(gpu, cpu, peers, accuracies):
    return (kinds(cpu, accuracies) + fused(gpu, peers) + pruned(accuracies) + relevance(gpu, accuracies)
            + arithmetic())
