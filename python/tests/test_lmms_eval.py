# SPDX-License-Identifier: Apache-2.0
"""fovea.lmms_eval in lmms-eval, where it is installed (tools/python_suites), and fovea.vlmeval."""

import math

import pytest

import fovea
from fovea.vlmeval import Fovea as ForVlmEvalKit


def test_a_class_for_vlmevalkit(scene, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "scene.png")
    image.fromarray(scene.pixels).save(path)
    model = ForVlmEvalKit(budget=96, max_tokens=8)
    for question, answer in list(zip(scene.questions, scene.answers))[:2]:
        message = [{"type": "image", "value": path}, {"type": "text", "value": question}]
        assert model.generate(message, dataset="cards") == answer
        assert model.generate_inner([path, question]) == answer
        talk = [{"role": "user", "content": message}]
        assert model.chat(talk) == answer
    with pytest.raises(fovea.InputError, match="video"):
        model.generate([{"type": "video", "value": path}])


@pytest.fixture
def lmms_eval():
    for name in ("torch", "lmms_eval"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    import fovea.lmms_eval as ours

    return ours


def requests_of(scene, settings):
    from lmms_eval.api.instance import Instance

    made = [Instance(request_type="generate_until", idx=number, metadata={"task": "cards", "doc_id": number,
                                                                          "repeats": 1},
                     arguments=(question, settings, lambda document: [document["image"]], number, "cards", "test"))
            for number, question in enumerate(scene.questions)]
    documents = [{"image": scene.pixels, "answer": answer} for answer in scene.answers]
    return made, {"cards": {"test": documents}}


def test_lmms_eval_asks_it(lmms_eval, scene):
    model = lmms_eval.Fovea.create_from_arg_string("budget=96,ahead=3", {"batch_size": 1})
    requests, model.task_dict = requests_of(scene, {"max_new_tokens": 8, "until": ["\n"], "do_sample": False})
    results = model.generate_until(requests)
    assert [result.text for result in results] == [
        model.engine.ask(scene.pixels, question, budget=96, max_tokens=8).text for question in scene.questions]
    assert results[0].text == scene.answer and results[0].token_counts.input_tokens > 96 - 1


def test_likelihoods(lmms_eval, scene):
    model = lmms_eval.Fovea(budget=96)
    requests, model.task_dict = requests_of(scene, None)
    for request, target in zip(requests, (lambda document: document["answer"], "no")):
        request.arguments = (request.args[0], target, *request.args[2:])
    (right, greedy), (wrong, other) = model.loglikelihood(requests[:2])
    answer = model.engine.ask(scene.pixels, scene.question, budget=96)
    said = [token.logprob for token in answer.tokens if token.id in model.engine.tokenize(scene.answer)]
    assert greedy and math.isclose(right, sum(said), abs_tol=1e-4) and right > -0.5
    assert not other and wrong < -3


def test_its_entry_point(lmms_eval):
    from lmms_eval.models.registry_v2 import ModelManifest, ModelRegistryV2

    registry = ModelRegistryV2()
    made = lmms_eval.manifest()
    assert isinstance(made, ModelManifest)
    registry.register_manifest(made)
    assert registry.resolve("fovea").class_path == "fovea.lmms_eval.Fovea"
