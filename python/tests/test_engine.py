# SPDX-License-Identifier: Apache-2.0
"""Asking: answers, options, sessions, tickets, streams, threads."""

import copy
import json
import pickle
import subprocess
import threading

import numpy as np
import pytest

import fovea
from conftest import LONG, PROGRAM, SCENE


def test_it_answers_what_the_scene_shows(engine, scene):
    for question, expected in zip(scene.questions, scene.answers):
        answer = engine.ask(scene.pixels, question)
        assert answer.text == expected and str(answer) == expected
        assert answer.finish == "end" and answer.usage.image_tokens <= 96
        assert answer.usage.image_tokens_full == 1024
        assert engine.detokenize(answer.token_ids, special=False) == expected


def test_an_answer_says_what_it_rests_on(engine, scene):
    answer = engine.ask(scene.pixels, scene.question, budget=96, logprobs=3, trace=True, gaze=True,
                        logits=True)
    (look,) = answer.looks
    assert look is answer.trace.looks[0]
    assert look.image == look.canvas == (1024, 1024) and look.plan.maker == "glance+look"
    assert look.cells.shape == (look.plan.tokens, 3) and look.cells.dtype == np.int32
    assert look.look == "mixed" and 0 < look.glance_tokens < look.plan.tokens <= 96
    for name in ("information", "salience", "coupling", "relevance"):
        scores = getattr(look, name)
        assert scores.shape == (32, 32) and scores.dtype == np.uint16
    (saccade,) = look.saccades
    assert (saccade.begin, saccade.end) == (look.glance_tokens, look.plan.tokens)
    assert (look.cells[saccade.begin:saccade.end, 0] == 0).all()  # fine cells
    assert saccade.fixations.shape[1] == 2 and saccade.crops.shape == (0, 4)
    assert 0 < answer.confidence <= 1 and saccade.confidence == answer.confidence
    assert look.attention.shape == (look.plan.tokens,) and look.attention.dtype == np.float32
    assert look.picture.ndim == 3 and look.picture.dtype == np.uint8
    for token in answer.tokens:
        assert len(token.likely) == 3 and token.likely[0].logprob >= token.likely[2].logprob
        assert token.attention[0].shape == (look.plan.tokens,)
    assert b"".join(t.bytes for t in answer.tokens[:-1]).decode() == scene.answer
    assert answer.logits.shape == (len(answer.tokens), len(engine.vocabulary()[0]))
    assert answer.logits.argmax(axis=1).tolist() == answer.token_ids
    assert answer.trace.times["first_token"] > 0 and answer.trace.prompt_ids.dtype == np.int32
    assert not answer.others and scene.question in answer.trace.prompt


def test_arrays_own_their_memory(engine, scene):
    answer = engine.ask(scene.pixels, scene.question)
    cells, relevance = answer.looks[0].cells, answer.looks[0].relevance
    before = cells.copy(), relevance.copy()
    del answer
    for _ in range(3):
        engine.ask(scene.pixels, scene.questions[1])
    assert (cells == before[0]).all() and (relevance == before[1]).all()
    assert np.from_dlpack(cells).shape == cells.shape
    assert memoryview(relevance).shape == relevance.shape
    cells[0] = 0  # they are the caller's


def test_answers_can_be_pickled_and_copied(engine, scene):
    answer = engine.ask(scene.pixels, scene.question)
    again = pickle.loads(pickle.dumps(answer))
    assert again.text == answer.text and (again.looks[0].cells == answer.looks[0].cells).all()
    assert copy.deepcopy(answer).usage == answer.usage
    error = pickle.loads(pickle.dumps(fovea.InputError("what", "room")))
    assert (str(error), error.reason) == ("what", "room")


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_it_says_what_the_program_says(engine):
    flags = ["--budget", "20", "--looks", "2", "--seed", "3", "--temperature", "0.7", "--json", "-q"]
    told = json.loads(subprocess.run([PROGRAM, "ask", SCENE, "Which code is on it?", *flags],
                                     check=True, capture_output=True).stdout)
    answer = engine.ask(SCENE, "Which code is on it?", budget=20, looks=2, seed=3, temperature=0.7)
    assert answer.text == told["text"] and answer.token_ids == told["token_ids"]
    assert answer.looks[0].cells.tolist() == told["looks"][0]["cells"]
    assert answer.confidence == told["confidence"]


def test_options_reach_the_engine(engine, scene):
    def ask(**options):
        return engine.ask(scene.pixels, scene.question, **options)

    whole = ask(plan="uniform")
    assert whole.text == scene.answer and whole.usage.image_tokens == 1024
    assert ask(look="off").looks[0].saccades == []
    assert ask(budget=40).usage.image_tokens <= 40
    assert ask(max_tokens=1).finish == "length"
    assert ask(stop=scene.answer[1]).finish == "stop" and ask(stop=[scene.answer[1]]).text == scene.answer[0]
    assert ask(deadline=0.0).finish == "deadline"
    best = ask().token_ids[0]
    assert ask(logit_bias={best: -100}).token_ids[0] != best
    assert ask(least_tokens=6, max_tokens=6).usage.answer_tokens == 6
    several = ask(answers=3, temperature=2.0, seed=5)
    assert len(several.others) == 2
    assert several.others[0].text == ask(temperature=2.0, seed=6).text
    assert ask(seed=None, budget=None).text == scene.answer  # None: the default
    there = ask(fixation=(100, 200)).looks[0].fixations
    assert there.tolist() == [[100.0, 200.0]]
    assert "Be brief" in ask(system="Be brief").trace.prompt
    assert ask(priority=3, share=False, salt="mine", enable_thinking=False).text == scene.answer


def test_what_is_forgotten_is_told(engine, scene):
    whole = engine.ask(scene.pixels, scene.question, plan="uniform")
    assert whole.usage.visual_keys == whole.usage.visual_keys_kept == 0
    assert whole.usage.kv_bytes_before == whole.usage.kv_bytes_after == 0
    few = engine.ask(scene.pixels, scene.question, plan="uniform", keep=0.1, forget="vl-cache")
    layers, rest = divmod(few.usage.visual_keys, few.usage.image_tokens)
    assert layers > 0 and rest == 0
    assert few.usage.visual_keys_kept == round(0.1 * few.usage.visual_keys)
    assert 0 < few.usage.kv_bytes_after < 0.5 * few.usage.kv_bytes_before
    assert few.trace.kv_bytes < 0.5 * whole.trace.kv_bytes
    assert pickle.loads(pickle.dumps(few)).usage == few.usage


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_bytes_are_those_that_the_program_tells(engine):
    flags = ["--plan", "uniform", "--keep", "0.25", "--forget", "window", "--json", "-q"]
    told = json.loads(subprocess.run([PROGRAM, "ask", SCENE, "Which code is on it?", *flags],
                                     check=True, capture_output=True).stdout)["usage"]
    usage = engine.ask(SCENE, "Which code is on it?", plan="uniform", keep=0.25, forget="window").usage
    for name in ("visual_keys", "visual_keys_kept", "kv_bytes_before", "kv_bytes_after"):
        assert getattr(usage, name) == told[name] > 0, name


def test_plans_of_ones_own(engine, scene, tmp_path):
    made = fovea.plan(scene.pixels, budget=64, plan="quadtree")
    for given in (made, made.cells, made.cells.tolist(), [made]):
        answer = engine.ask(scene.pixels, scene.question, plan=given)
        assert sorted(answer.looks[0].cells.tolist()) == sorted(made.cells.tolist())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"cells": made.cells.tolist()}))
    assert engine.ask(scene.pixels, scene.question, plan=path).usage.image_tokens == made.tokens
    both = engine.ask([scene.pixels, scene.pixels], scene.question, plan=[made, made])
    assert both.usage.image_tokens == 2 * made.tokens
    for wrong, line in ((np.zeros((2, 3)), "whole numbers"), ([[9, 0, 0]], "not on the canvas"),
                        ("no-such-plan.json", "plan=no-such-plan.json"),
                        (np.zeros((0, 3), np.int32), "no cells"),
                        (fovea.Plan(made.cells, canvas=(64, 64)), "canvas")):
        with pytest.raises(fovea.InputError, match=line):
            engine.ask(scene.pixels, scene.question, plan=wrong)
    for word, value in {"look": "mixed", "looks": 2, "sure": 0.5, "relook": 0.5, "balance": "mean",
                        "fixation": (9, 9), "coupling": np.ones((2, 2))}.items():
        with pytest.raises(fovea.InputError, match=f"{word} goes with plan makers"):
            engine.ask(scene.pixels, scene.question, plan=made, **{word: value})
    with pytest.raises(fovea.InputError, match="1 plans were given for 2 images"):
        engine.ask([scene.pixels, scene.pixels], scene.question, plan=made)


def test_coupling_of_ones_own(engine, scene, tmp_path):
    corner = np.zeros((8, 8))
    corner[0, 0] = 1
    for given in (corner, corner.astype(np.float32), (corner * 65535).astype(np.uint16), [corner]):
        look = engine.ask(scene.pixels, scene.question, coupling=given).looks[0]
        fine = look.cells[look.glance_tokens:]
        assert (fine[:16, 1:] < 4).all(axis=1).sum() >= 4 and (fine[:, 1] < 4).all()
    for wrong in (corner * 2, corner - 1, corner.astype(np.int64), np.zeros((2, 2, 3))):
        with pytest.raises(fovea.InputError, match="coupling map"):
            engine.ask(scene.pixels, scene.question, coupling=wrong)


def test_a_mask_says_which_tokens_may_come(engine, scene):
    seen = []

    def only_sevens(ids):
        seen.append(list(ids))
        return engine.tokenize("7")

    answer = engine.ask(scene.pixels, scene.question, mask=only_sevens, max_tokens=4)
    assert answer.text == "7777" and seen[0] == [] and len(seen[3]) == 3
    tokens, ends = engine.vocabulary()
    free = np.ones(len(tokens), bool)
    assert engine.ask(scene.pixels, scene.question, mask=lambda ids: free).text == scene.answer
    assert engine.ask(scene.pixels, scene.question, mask=lambda ids: None).text == scene.answer
    free[:] = False
    free[ends] = True
    assert engine.ask(scene.pixels, scene.question, mask=lambda ids: free).text == ""
    with pytest.raises(ZeroDivisionError):
        engine.ask(scene.pixels, scene.question, mask=lambda ids: 1 // 0)
    for wrong, line in (([-1], "ids"), ([], "none of the"), (["x"], "ids")):
        with pytest.raises(fovea.Error, match=line):
            engine.ask(scene.pixels, scene.question, mask=lambda ids, wrong=wrong: wrong)
    with pytest.raises(fovea.InputError, match="waits"):
        engine.ask(scene.pixels, scene.question, mask=lambda ids: engine.ask(None, "x"))
    assert engine.ask(scene.pixels, scene.question).text == scene.answer


def test_errors_carry_the_engines_line(engine, scene):
    cases = ((ValueError, {"temperature": -1}, "temperature"), (ValueError, {"look": "up"}, "look"),
             (ValueError, {"plan": "spiral"}, "spiral"), (ValueError, {"budget": 0}, "budget=0"),
             (ValueError, {"budget": -1}, "budget=-1"), (ValueError, {"budget": 10**12}, "budget="),
             (ValueError, {"max_tokens": 0}, "max_tokens"), (ValueError, {"seed": -1}, "seed"),
             (ValueError, {"fixation": (5000, 1)}, "fixation"), (ValueError, {"deadline": -1}, "deadline"),
             (ValueError, {"logit_bias": {1: 1000.0}}, "bias"), (ValueError, {"stop": ""}, "stop"),
             (ValueError, {"max_pixels": 10}, "pixels"), (ValueError, {"tools": "{"}, "tools"),
             (TypeError, {"budget": "many"}, "budget='many'"), (TypeError, {"budget": 1.5}, "budget=1.5"),
             (TypeError, {"temperature": "hot"}, "temperature"), (TypeError, {"mask": 3}, "mask"),
             (TypeError, {"budgte": 3}, "did you mean 'budget'"), (TypeError, {"trace": "x"}, "trace"),
             # What they quote comes from elsewhere.
             (TypeError, {"budget": np.zeros((9, 9))}, "budget=array"),
             (TypeError, {"budget": "x" * 10_000}, "give a whole number"),
             (TypeError, {"mask": np.zeros((9, 9))}, "can be called"),
             (TypeError, {"\x1b[2J\n" * 1000: 3}, "there is no keyword"))
    for kind, options, line in cases:
        with pytest.raises(kind, match=line) as caught:
            engine.ask(scene.pixels, scene.question, **options)
        assert str(caught.value).isprintable() and len(str(caught.value)) <= 500
    with pytest.raises(TypeError, match="pictures; it has array") as caught:
        engine.ask(scene.pixels, [{"role": "user", "content": [np.zeros((9, 9))]}])
    assert str(caught.value).isprintable()
    assert len(str(fovea.InputError("x\n" * 1000))) <= 500
    with pytest.raises(fovea.InputError) as caught:
        engine.ask(scene.pixels, "word " * 9000)
    assert caught.value.reason == "context"
    with pytest.raises(fovea.InputError, match="no model"):
        fovea.Engine("no-such-model")
    for wrong in ({"weights": "int3"}, {"threads": -1}, {"memory": -1}, {"device": "abacus"},
                  {"kernels": "worst"}):
        with pytest.raises(fovea.InputError):
            fovea.Engine(**wrong)
    assert issubclass(fovea.WorkError, RuntimeError) and issubclass(fovea.InputError, ValueError)


def test_budgets_larger_than_the_picture(engine):
    answer = engine.ask(SCENE, "What is it?", budget=2000, max_tokens=2)
    assert answer.usage.image_tokens <= 2 * answer.usage.image_tokens_full
    with pytest.raises(fovea.WorkError, match="memory") as caught:
        engine.ask(SCENE, "What is it?", budget=1 << 30, max_tokens=2)
    assert caught.value.reason == "room"


def test_memory_bounds_what_is_answered():
    small = fovea.Engine(memory=1 << 20)
    with pytest.raises(fovea.Error) as caught:
        small.ask(SCENE, "What is it?", max_tokens=4000)
    assert caught.value.reason == "room"
    assert small.memory().capacity == 1 << 20 and small.memory().reserved == 0


def test_questions_about_no_picture_and_about_several(engine, scene):
    for none in (None, [], ()):
        assert engine.ask(none, "Hello", max_tokens=2).looks == []
    answer = engine.ask([SCENE, scene.pixels], scene.question, max_tokens=2)
    assert [look.image for look in answer.looks] == [(288, 160), (1024, 1024)]
    answer = engine.ask([SCENE, scene.pixels], scene.question, max_tokens=2,
                        fixation=[[], [(5, 6)]])
    assert answer.looks[1].fixations.tolist() == [[5.0, 6.0]]


def test_conversations(engine, scene):
    talk = [{"role": "user", "content": [0, scene.question]},
            {"role": "assistant", "content": scene.answer},
            {"role": "user", "content": scene.questions[2]}]
    answer = engine.ask(scene.pixels, talk)
    assert len(answer.looks) == 1 and scene.questions[2] in answer.trace.prompt
    first = [{"role": "user", "content": scene.question}]  # the picture goes before its text
    assert engine.ask(scene.pixels, first).text == scene.answer
    for wrong in ([{"content": "x"}], ["x"], [{"role": "user", "content": [1.5]}], {"role": "user"}, 3):
        with pytest.raises(TypeError):
            engine.ask(scene.pixels, wrong)
    with pytest.raises(fovea.InputError):
        engine.ask(scene.pixels, [{"role": "assistant", "content": "x"}])
    with pytest.raises(fovea.InputError):
        engine.ask(scene.pixels, [{"role": "user", "content": [4, "x"]}])
    with pytest.raises((TypeError, ValueError)):
        engine.ask(scene.pixels, "half a character: \ud800")


def test_a_session_keeps_what_was_paid_for(engine, scene):
    session = engine.session(scene.pixels)
    assert session.ask(scene.question).text == scene.answer
    again = session.ask(scene.questions[1])
    assert again.text == scene.answers[1] and again.usage.kept_tokens > 0
    assert again.looks[0].encoded_tokens < again.looks[0].plan.tokens
    session.add(SCENE)
    assert session.images == 2
    assert len(session.ask("x", max_tokens=1).looks) == 2
    assert "".join(session.stream(scene.question, max_tokens=2))
    running = session.submit(scene.question, **LONG)
    for busy in (lambda: session.ask("x"), lambda: session.add(SCENE)):
        with pytest.raises(fovea.InputError, match="another question"):
            busy()
    running.cancel()
    assert running.result().finish == "cancelled"
    with pytest.raises(fovea.InputError):
        session.add(b"no picture")
    assert session.images == 2


def test_tickets(engine, scene):
    tickets = [engine.submit(scene.pixels, question) for question in scene.questions]
    assert [ticket.result().text for ticket in tickets] == scene.answers
    assert all(ticket.done and ticket.stage == "done" for ticket in tickets)
    assert tickets[0].result() is tickets[0].result()
    long = engine.submit(scene.pixels, scene.question, **LONG)
    assert not long.wait(0) and not long.wait(0.01) and not long.done
    with pytest.raises(TimeoutError):
        long.result(timeout=0.01)
    long.cancel()
    assert long.wait() and long.result().finish == "cancelled"
    failed = engine.submit(scene.pixels, scene.question, fixation=(9999, 1))
    with pytest.raises(fovea.InputError, match="fixation"):
        failed.result()
    with pytest.raises(fovea.InputError, match="fixation"):
        failed.result()


def test_streams(engine, scene):
    stream = engine.stream(scene.pixels, scene.question)
    with pytest.raises(fovea.WorkError, match="end"):
        stream.answer
    pieces = list(stream)
    assert "".join(pieces) == scene.answer == stream.answer.text and len(pieces) > 1
    assert list(stream) == []
    with engine.stream(scene.pixels, scene.question, **LONG) as stream:
        for piece in stream:
            break
    assert stream.answer.finish == "cancelled" and stream.answer.text.startswith(piece)
    with pytest.raises(TypeError):
        engine.stream(scene.pixels, scene.question, budgte=1)  # at once
    lazy = engine.stream("/no/such/file.png", scene.question)
    with pytest.raises(fovea.InputError, match="no/such"):
        next(lazy)
    for piece in engine.stream(scene.pixels, scene.question, **LONG):
        break  # dropped: ends by itself
    while engine.memory().reserved:
        pass


def test_many_threads_ask_one_engine(engine, scene):
    told = {}

    def ask(number):
        question = scene.questions[number % 8]
        if number % 2:
            told[number] = engine.ask(scene.pixels, question).text
        else:
            told[number] = "".join(engine.stream(scene.pixels, question))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {number: scene.answers[number % 8] for number in range(16)}
    assert engine.memory().reserved == 0


def test_other_threads_run_while_it_works(engine, scene):
    ticks = 0
    ticket = engine.submit(scene.pixels, scene.question, max_tokens=300, ignore_end=True)
    waiter = threading.Thread(target=ticket.wait)
    waiter.start()
    while not ticket.done:
        ticks += 1  # this thread has the lock again and again
    waiter.join()
    assert ticks > 100


def test_words_and_tokens(engine):
    ids = engine.tokenize("red star")
    assert engine.detokenize(ids) == engine.detokenize(np.array(ids)) == "red star"
    assert len(engine.tokenize("<|im_end|>", special=True)) == 1 < len(engine.tokenize("<|im_end|>"))
    tokens, ends = engine.vocabulary()
    assert tokens[ids[0]] and ends
    with pytest.raises(TypeError):
        engine.tokenize(3)
    info = engine.info()
    assert info.model == "tiny" and info.parameters > 11_000_000 and info.context_tokens == 8192
    assert fovea.Engine(weights="int8", threads=1).info().weights == "int8"
    assert "tiny" in repr(engine)
