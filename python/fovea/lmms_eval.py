# SPDX-License-Identifier: Apache-2.0
"""Fovea as a model of lmms-eval, which finds it by the package's entry point:

    lmms-eval --model fovea --model_args model=DIR,budget=96 --tasks TASK

Arguments are those of fovea.Engine, `ahead`, and of engine.ask: the same task runs with every token (plan=uniform)
and with few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest

from fovea.engine import Engine
from fovea.errors import InputError
from fovea.words import Answer

# What tasks say of generation, in our words; greedy decoding is temperature 0, the default.
WORDS = {"max_new_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}


def manifest() -> Any:
    """What the entry point gives."""
    return ModelManifest(model_id="fovea", simple_class_path="fovea.lmms_eval.Fovea")


class Fovea(lmms):  # type: ignore[misc]
    """ahead  questions that are on their way at once: the engine answers them side by side"""

    def __init__(self, model: str = "tiny", device: str = "cpu", weights: str | None = None, threads: int = 0,
                 memory: int = 0, ahead: int = 8, batch_size: Any = 1, max_batch_size: Any = None,
                 **options: Any) -> None:
        super().__init__()
        if int(ahead) < 1:
            raise InputError(f"ahead={ahead}: give 1 or more")
        self.engine = Engine(str(model), device, weights=weights, threads=int(threads), memory=int(memory))
        self.ahead, self.options = int(ahead), options

    def generate_until(self, requests: Sequence[Any]) -> list[Any]:
        def asked() -> Iterator[Any]:
            for request in requests:
                text, settings, visuals, document, task, split = request.args
                pictures = self._pictures(visuals, document, task, split)
                yield self.engine.submit(pictures, text, **{**_settings(settings), **self.options})

        results = []
        for request, answer in zip(requests, _in_order(asked(), self.ahead)):
            made = GenerationResult(answer.text, TokenCounts(
                input_tokens=answer.usage.text_tokens + answer.usage.image_tokens,
                output_tokens=answer.usage.answer_tokens))
            self.cache_hook.add_partial("generate_until", request.args, answer.text)
            results.append(made)
        return results

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """How probable a continuation is, and whether it is what the model would say: its tokens are forced, and
        their probabilities are those before that."""
        def asked() -> Iterator[Any]:
            for request in requests:
                text, target, visuals, document, task, split = request.args
                wanted = target if isinstance(target, str) else target(self.task_dict[task][split][document])
                ids = self.engine.tokenize(wanted)
                if not ids:
                    raise InputError(f"the continuation {wanted!r} has no tokens")
                pictures = self._pictures(visuals, document, task, split)
                forced = {"mask": lambda said, ids=ids: [ids[len(said)]], "max_tokens": len(ids), "ignore_end": True,
                          "logprobs": 1}
                yield self.engine.submit(pictures, text, **{**self.options, **forced})

        return [(sum(token.logprob for token in answer.tokens),
                 all(token.id == token.likely[0].id for token in answer.tokens))
                for answer in _in_order(asked(), self.ahead)]

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[Any]:
        raise InputError("tasks of several rounds ask through a task's own messages: run them by fovea serve and "
                         "lmms-eval's model openai")

    def _pictures(self, visuals: Any, document: Any, task: str, split: str) -> list[Any]:
        found = visuals(self.task_dict[task][split][document]) if visuals is not None else None
        return [one for one in _flat(found) if one is not None]


def _flat(visuals: Any) -> Iterator[Any]:
    if isinstance(visuals, (list, tuple)):
        for one in visuals:
            yield from _flat(one)
    else:
        yield visuals


def _settings(told: Mapping[str, Any]) -> dict[str, Any]:
    """What is told beyond these (num_beams, do_sample) has no part in how the engine answers."""
    made = {mine: told[theirs] for theirs, mine in WORDS.items() if told.get(theirs) is not None}
    until = told.get("until")
    if until:
        made["stop"] = [until] if isinstance(until, str) else [one for one in until if one]
    if told.get("do_sample") is False:
        made["temperature"] = 0.0
    return made


def _in_order(tickets: Iterable[Any], ahead: int) -> Iterator[Answer]:
    """Answers in the order of the tickets, of which so many are taken before the first is waited for."""
    waiting: deque[Any] = deque()
    for ticket in tickets:
        waiting.append(ticket)
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
