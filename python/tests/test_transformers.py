# SPDX-License-Identifier: Apache-2.0
"""fovea.transformers: stock Qwen3-VL looks by plans. Needs torch and transformers; tools/python_suites has them."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import fovea
from conftest import ENVIRONMENT, ROOT

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
import fovea.transformers as ours  # noqa: E402
from fovea import tower  # noqa: E402

TINY = ROOT / "models/tiny"
NOISE = np.random.default_rng(5).integers(0, 256, (320, 448, 3), np.uint8)
OTHER = np.random.default_rng(6).integers(0, 256, (256, 288, 3), np.uint8)
TEXT = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n"
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def load(dtype=torch.float32, folder=TINY):
    model = transformers.Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=dtype)
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(TINY / "tokenizer.json"),
                                                pad_token="<|im_end|>", padding_side="left")


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """models/tiny as a checkpoint that was never made for Fovea: no gaze head, no level embedding."""
    folder = tmp_path_factory.mktemp("models") / "stock"
    shutil.copytree(TINY, folder)
    (folder / "fovea.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text())
    del config["fovea"]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def stock_inputs(model, tokenizer, pictures, texts):
    """What transformers' own processor makes of the pictures."""
    seen = [fovea.patches(picture, plan="uniform") for picture in pictures]
    grids = torch.tensor([one.grid_thw for one in seen])
    counts = iter((grids.prod(1) // 4).tolist())
    written = []
    for text in texts:
        head, *tail = text.split("<|image_pad|>")
        for piece in tail:
            head += "<|image_pad|>" * next(counts) + piece
        written.append(head)
    tokens = tokenizer(written, return_tensors="pt", padding=True)
    return {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"],
            "mm_token_type_ids": (tokens["input_ids"] == model.config.image_token_id).int(),
            "pixel_values": torch.from_numpy(np.concatenate([one.values for one in seen])),
            "image_grid_thw": grids}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_cell_is_the_untouched_model(tokenizer, dtype):
    model = load(dtype)
    texts = [TEXT.format("Which code is on the red star?"),
             TEXT.format("<|vision_start|><|image_pad|><|vision_end|>How many?")]
    pictures = [NOISE, OTHER, NOISE[:256]]
    with torch.inference_mode():
        inputs = stock_inputs(model, tokenizer, pictures, texts)
        plain = model(**inputs)
        untouched = model.generate(**inputs, max_new_tokens=5, do_sample=False)
        eyes = ours.attach(model)
        assert torch.equal(model(**inputs).logits, plain.logits)  # calls without cells pass through
        made = eyes.prepare(tokenizer, texts, pictures, plan="uniform")
        for name in inputs:
            assert torch.equal(made[name], inputs[name]), name
        seen = model(**made)
        assert torch.equal(model.generate(**made, max_new_tokens=5, do_sample=False), untouched)
        shape = plain.logits[0, -1]
        # The same operations in the same order: nothing to round otherwise.
        assert (seen.logits - plain.logits)[inputs["attention_mask"].bool()].abs().max() <= 1e-5 * shape.abs().max()
        eyes.detach()
        assert torch.equal(model(**inputs).logits, plain.logits)
        assert "forward" not in model.__dict__ and not hasattr(model, "fovea_eyes")


def test_it_looks_as_the_engine_does(tokenizer, engine, scene):
    """The engine's own looks in transformers: mixed cells, in several looks, by the model's gaze."""
    eyes = ours.attach(load())
    assert eyes.levels is not None  # from the model's folder
    for options in ({"budget": 96}, {"budget": 128, "looks": 3, "sure": 1.0}, {"budget": 80, "plan": "quadtree"}):
        for question in scene.questions[:3]:
            answer = engine.ask(scene.pixels, question, logits=True, **options)
            inputs = eyes.prepare(tokenizer, TEXT.format(question), scene.pixels, plan=answer.looks[0])
            assert int(inputs["mm_token_type_ids"].sum()) == answer.usage.image_tokens
            with torch.inference_mode():
                ids = eyes.model.generate(**inputs, max_new_tokens=8, do_sample=False)[0, inputs["input_ids"].shape[1]:]
                first = eyes.model(**inputs).logits[0, -1, :answer.logits.shape[1]].numpy()
            assert tokenizer.decode(ids, skip_special_tokens=True) == answer.text
            wanted = answer.logits[0]
            # Weights are the same bf16 numbers; sums are in f32 in another order.
            assert np.abs(first - wanted).max() <= 2e-4 * np.abs(wanted).max(), (options, question)


def test_crops_are_those_of_the_engine(tokenizer, scene, stock):
    engine = fovea.Engine(stock)
    eyes = ours.attach(load(folder=stock))
    assert eyes.levels is None
    for question in scene.questions[:3]:
        answer = engine.ask(scene.pixels, question, logits=True, budget=96)
        assert answer.looks[0].look == "crops" and len(answer.looks[0].saccades[0].crops)
        inputs = eyes.prepare(tokenizer, TEXT.format(question), scene.pixels, plan=answer.looks[0])
        assert len(inputs["image_grid_thw"]) == 1 + len(answer.looks[0].saccades[0].crops)
        with torch.inference_mode():
            first = eyes.model(**inputs).logits[0, -1, :answer.logits.shape[1]].numpy()
        assert np.abs(first - answer.logits[0]).max() <= 2e-4 * np.abs(answer.logits[0]).max()


def test_what_prepare_makes(tokenizer, scene, stock):
    eyes = ours.attach(load(folder=stock))
    text = TEXT.format("What?")
    crops = eyes.prepare(tokenizer, text, scene.pixels, budget=96)  # a stock model's default
    assert torch.equal(crops["image_cells"][:64, 2], torch.full((64,), 2)) and len(crops["image_grid_thw"]) > 1
    assert len(crops["image_cells"]) <= 96 and 4 * len(crops["image_cells"]) == len(crops["pixel_values"])
    off = eyes.prepare(tokenizer, text, scene.pixels, budget=96, look="off")
    assert len(off["image_cells"]) == 64 and torch.equal(off["pixel_values"], crops["pixel_values"][:256])
    mixed = eyes.prepare(tokenizer, text, scene.pixels, budget=96, look="mixed")
    assert len(mixed["image_cells"]) == 96 and mixed["image_cells"][:, 1].tolist() == [0] * 64 + [1] * 32
    messages = [{"role": "user", "content": "<|vision_start|><|image_pad|><|vision_end|>What?"}]
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" \
                              "{% endfor %}<|im_start|>assistant{{ '\\n' }}"
    assert torch.equal(eyes.prepare(tokenizer, messages, scene.pixels)["input_ids"],
                       eyes.prepare(tokenizer, text, scene.pixels)["input_ids"])
    text_alone = eyes.prepare(tokenizer, "What?", [])
    assert set(text_alone) == {"input_ids", "attention_mask", "mm_token_type_ids"}
    with torch.inference_mode():
        for inputs in (crops, off, mixed, text_alone):
            assert torch.isfinite(eyes.model(**inputs).logits).all()


def test_several_sequences_of_a_prompt(tokenizer, scene):
    """Beams and samples: every copy of a prompt has its pictures."""
    eyes = ours.attach(load())
    texts = [TEXT.format(scene.questions[0]),
             TEXT.format("<|vision_start|><|image_pad|><|vision_end|>" + scene.questions[1])]
    inputs = eyes.prepare(tokenizer, texts, [scene.pixels, NOISE, scene.pixels], budget=80)
    with torch.inference_mode():
        one = eyes.model.generate(**inputs, max_new_tokens=4, do_sample=False)
        torch.manual_seed(0)
        # A temperature this low draws the likeliest token: all copies say what one says.
        many = eyes.model.generate(**inputs, max_new_tokens=4, do_sample=True, temperature=1e-3, top_k=1,
                                   num_return_sequences=3)
        assert torch.equal(many, one.repeat_interleave(3, 0))
        assert eyes.model.generate(**inputs, max_new_tokens=4, do_sample=False, num_beams=2).shape[0] == 2
    visual = {name: inputs[name] for name in ("pixel_values", "image_grid_thw", "image_cells")}
    twice = ours.repeated(visual, [1, 2], 2)
    assert twice["image_grid_thw"].tolist() == [visual["image_grid_thw"][i].tolist() for i in (0, 0, 1, 2, 1, 2)]
    assert twice["image_cells"][:, 0].unique().tolist() == list(range(6))
    assert len(twice["pixel_values"]) == 4 * len(twice["image_cells"]) == 2 * len(visual["pixel_values"])


def test_gradients_reach_the_tower(tokenizer, scene):
    model = load()
    eyes = ours.attach(model)
    inputs = eyes.prepare(tokenizer, TEXT.format("What?"), scene.pixels, budget=40)
    model(**inputs, labels=inputs["input_ids"]).loss.backward()
    assert model.model.visual.patch_embed.proj.weight.grad.abs().max() > 0


def test_a_look_sees_its_glance_and_not_the_other_way_round(scene):
    visual = load().model.visual
    cells = torch.tensor([[0, 0, 2, row, column] for row in range(8) for column in range(8)] +
                         [[0, 1, 0, 3, 4], [0, 1, 0, 30, 7]])
    seen = tower.Seen(cells, torch.tensor([[1, 64, 64]]))
    values = torch.randn(4 * len(cells), 1536)
    with torch.inference_mode():
        before = tower.encode_cells(visual, values, seen)[1]
        values[256:] += 1
        after = tower.encode_cells(visual, values, seen)[1]
        assert torch.equal(after[:64], before[:64]) and not torch.allclose(after[64:], before[64:])
        values[:4] += 1
        assert not torch.allclose(tower.encode_cells(visual, values, seen)[1][64:], after[64:])


def test_positions_are_those_of_patches():
    made = fovea.patches(NOISE, plan="quadtree", budget=20)
    cells = np.column_stack([np.zeros((len(made.plan.cells), 2), np.int64), made.plan.cells])
    place, _ = tower.patch_places(tower.Seen(torch.from_numpy(cells), torch.tensor([made.grid_thw])))
    assert np.array_equal(place.numpy(), made.positions)


def test_what_is_refused(tokenizer):
    with pytest.raises(fovea.InputError, match="no tower"):
        ours.attach(torch.nn.Linear(1, 1))
    model = load()
    eyes = ours.attach(model)
    with pytest.raises(fovea.InputError, match="already"):
        ours.attach(model)
    text = TEXT.format("What?")
    for wrong, line in (({"look": "squint"}, "squint"), ({"plan": "quadtree", "look": "crops"}, "glance"),
                        ({"plan": "spiral"}, "spiral"), ({"budget": 0}, "budget")):
        with pytest.raises(fovea.InputError, match=line):
            eyes.prepare(tokenizer, text, NOISE, **wrong)
    with pytest.raises(fovea.InputError, match="one for each"):
        eyes.prepare(tokenizer, "What?", NOISE)
    with pytest.raises(fovea.InputError, match="text"):
        eyes.prepare(tokenizer, [], NOISE)
    inputs = eyes.prepare(tokenizer, text, NOISE)
    with pytest.raises(fovea.InputError, match="image_cells"):
        model(**{**inputs, "image_cells": inputs["image_cells"][:, :4]})


def test_the_example_runs(scene):
    run = subprocess.run([sys.executable, ROOT / "examples/attach.py"], text=True, capture_output=True,
                         env=dict(ENVIRONMENT, TQDM_DISABLE="1"))
    assert run.returncode == 0, run.stderr
    every, blind, asked = run.stdout.splitlines()
    assert every == f"1024 visual tokens: {scene.answer}" and asked == f"96 visual tokens: {scene.answer}"
    assert blind.startswith("96 visual tokens: ")


def test_the_bench_runs():
    """It compares every cell with the untouched model before it times anything."""
    run = subprocess.run([sys.executable, ROOT / "bench/peers/attach.py", "--config", TINY / "config.json", "--side",
                          "256", "--budget", "20", "--few-rounds", "1", "--device", "cpu", "--json"], text=True,
                         capture_output=True, env=dict(ENVIRONMENT, TQDM_DISABLE="1"))
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["device"] == "cpu" and found["off"] <= 1e-5 and set(found["best"]) == {"every token", "20 tokens"}


def test_the_documentation_runs(scene, tmp_path):
    """The piece of code in docs/python.md, with the model that is here in place of the one to be fetched."""
    image = pytest.importorskip("PIL.Image")
    image.fromarray(scene.pixels).save(tmp_path / "scene.png")
    text = (ROOT / "docs/python.md").read_text()
    [piece] = [piece for piece in re.findall(r"```python\n(.*?)```", text, re.S) if "import fovea.transformers" in piece]
    assert piece.count('"Qwen/Qwen3-VL-2B-Instruct"') == 2
    piece = piece.replace('"Qwen/Qwen3-VL-2B-Instruct"', repr(str(TINY))) + "\nassert ids.shape[0] == 1"
    run = subprocess.run([sys.executable, "-c", piece], cwd=tmp_path, text=True, capture_output=True,
                         env=dict(ENVIRONMENT, TQDM_DISABLE="1"))
    assert run.returncode == 0, run.stderr
