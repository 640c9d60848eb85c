# SPDX-License-Identifier: Apache-2.0
"""The nouns: what answers and looks hold. src/README.md has the words, docs/python.md the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True, eq=False)
class Plan:
    """The cells that become tokens: coarse first, row-major, no cell twice."""

    cells: NDArray[np.int32]  # [n, 3]: level, row, column
    maker: str = "given"  # one of plan_kinds(), or "given"
    budget: int = 0  # 0: none
    canvas: tuple[int, int] | None = None  # width and height it was made for; None: any

    @property
    def tokens(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"<fovea.Plan {self.maker}: {self.tokens} cells, canvas {self.canvas}>"


@dataclass(slots=True, eq=False)
class Sight:
    """What would be looked at in one picture, and why."""

    image: tuple[int, int]  # width and height in pixels, after EXIF rotation
    canvas: tuple[int, int]  # the same fitted to multiples of 32 px
    plan: Plan
    tokens_full: int  # cells of the whole canvas at level 0
    patch_bytes: int  # what the tower is given, as float32
    fixations: NDArray[np.float64]  # [n, 2]: x and y in canvas pixels
    information: NDArray[np.uint16]  # all maps: [rows, columns], one score 0..65535 a level-0 cell
    salience: NDArray[np.uint16]
    coupling: NDArray[np.uint16]  # zero where nothing was asked
    relevance: NDArray[np.uint16]
    times: dict[str, float]  # ms of each stage
    picture: NDArray[np.uint8] | None  # for a person; None where it was not asked for

    @property
    def cells(self) -> NDArray[np.int32]:
        return self.plan.cells

    def __repr__(self) -> str:
        return (f"<fovea.{type(self).__name__}: {self.plan.tokens} tokens of {self.tokens_full}, "
                f"{self.plan.maker}>")


@dataclass(slots=True, eq=False)
class Saccade:
    """One look at a picture, and why it went there."""

    begin: int  # its cells in the plan: [begin, end)
    end: int
    coupling: NDArray[np.uint16]  # that it followed
    relevance: NDArray[np.uint16]
    fixations: NDArray[np.float64]  # [n, 2]: the middles of its clusters, the best first
    crops: NDArray[np.int32]  # [n, 4]: x, y, width, height in canvas pixels; of look="crops"
    look_ms: float
    read_ms: float
    confidence: float  # after it: how probable the most likely first token was


@dataclass(slots=True, eq=False, repr=False)
class Look(Sight):
    """One picture of an answer. Its cells stand in the order of their tokens."""

    glance_tokens: int  # the first cells of the plan, encoded before the others
    encoded_tokens: int  # cells that went through the tower now; the others were kept
    look: str  # "mixed", "crops" or "off"; empty for plans of other makers
    saccades: Sequence[Saccade]
    attention: NDArray[np.float32] | None  # of the prompt's last tokens to each cell; trace=True


@dataclass(slots=True)
class LikelyToken:
    id: int
    bytes: bytes  # need not be whole characters
    logprob: float

    @property
    def text(self) -> str:
        return self.bytes.decode("utf-8", "replace")


@dataclass(slots=True, eq=False)
class Token(LikelyToken):
    likely: Sequence[LikelyToken]  # best first; logprobs=N
    ms: float  # since the token before, or since the prompt was read
    # Of each look, how much was attended to each cell where this token was drawn; trace=True.
    attention: Sequence[NDArray[np.float32]]


@dataclass(slots=True)
class Memory:
    """Bytes of whole pages, of all requests of a model (docs/memory.md)."""

    capacity: int
    resident: int
    shared: int
    cached: int
    reserved: int
    free: int
    largest_free_run: int
    mapped: int
    hits: int
    evictions: int


@dataclass(slots=True)
class Usage:
    text_tokens: int  # of the prompt
    image_tokens: int
    image_tokens_full: int  # what every cell of level 0 would have taken
    patches: int
    kept_tokens: int  # of the prompt, not computed again
    answer_tokens: int
    # Where keys were forgotten (keep=SHARE): those of visual tokens, in all layers, and how many of
    # them stayed; bytes of the conversation's keys and values just before and after. Else 0.
    visual_keys: int
    visual_keys_kept: int
    kv_bytes_before: int
    kv_bytes_after: int
    memory: Memory  # after the answer


@dataclass(slots=True, eq=False)
class Trace:
    """What an answer rests on."""

    prompt: str
    prompt_ids: NDArray[np.int32]
    looks: Sequence[Look]  # one for each picture
    usage: Usage
    confidence: float  # how probable the most likely first token was
    times: dict[str, float]  # ms of each stage; "first_token" counts from the question
    weights_bytes: int
    kv_bytes: int
    peak_bytes: int


@dataclass(slots=True, eq=False)
class Answer:
    text: str
    tokens: Sequence[Token]
    finish: str  # "end", "stop", "length", "cancelled" or "deadline"
    trace: Trace
    others: Sequence[Answer]  # answers=N less this one; the trace is of all
    logits: NDArray[np.float32] | None  # [tokens, vocabulary], of all answers in order; logits=True

    @property
    def usage(self) -> Usage:
        return self.trace.usage

    @property
    def confidence(self) -> float:
        return self.trace.confidence

    @property
    def looks(self) -> Sequence[Look]:
        return self.trace.looks

    @property
    def token_ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<fovea.Answer {self.text!r}, {self.finish}, {self.usage.image_tokens} visual tokens>"


@dataclass(slots=True, eq=False)
class Patches:
    """What a tower is given for a plan, in Qwen3-VL's layout."""

    values: NDArray[np.float32]  # [4 * cells, 1536]: channel 3, frame 2, row 16, column 16
    # [4 * cells, 2]: row and column in level-0 patches. A patch p of level l is at
    # p * 2**l + (2**l - 1) / 2.
    positions: NDArray[np.float32]
    levels: NDArray[np.int32]  # [4 * cells]
    plan: Plan
    image: tuple[int, int]
    canvas: tuple[int, int]
    fixations: NDArray[np.float64]

    @property
    def grid_thw(self) -> tuple[int, int, int]:
        """The canvas in level-0 patches, as transformers' image_grid_thw: frames, rows, columns."""
        return 1, self.canvas[1] // 16, self.canvas[0] // 16

    def __repr__(self) -> str:
        return f"<fovea.Patches {len(self.values)} of {self.plan!r}>"


@dataclass(slots=True, eq=False)
class Crops:
    """A glance, and rectangles of level-0 cells, each of which is an image of its own in a prompt."""

    image: tuple[int, int]
    canvas: tuple[int, int]
    plan: Plan  # the glance, then the cells of each crop, row-major
    glance_tokens: int
    crops: NDArray[np.int32]  # [n, 4]: x, y, width, height in canvas pixels

    def __repr__(self) -> str:
        return f"<fovea.Crops {len(self.crops)} of {self.plan!r}>"


@dataclass(slots=True)
class Info:
    """A loaded model."""

    model: str
    device: str
    weights: str  # the format most of them are kept in
    parameters: int
    weights_bytes: int
    context_tokens: int  # the most a prompt and its answer may hold


@dataclass(slots=True)
class Device:
    name: str  # as device= takes it
    description: str


@dataclass(slots=True)
class PlanKind:
    name: str
    description: str


Picture = Any  # a path, bytes, a PIL image, or a uint8 array [height, width, 3]
