# SPDX-License-Identifier: Apache-2.0
"""LangChain's own tests of chat models, over the program's server: tools/client_suites langchain"""

import json
import pathlib
import signal
import subprocess
import types
import urllib.request

import langchain_tests.integration_tests.chat_models as chat_models
import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


@pytest.fixture(scope="session", autouse=True)
def server(request):
    program = request.config.getoption("--program")
    process = subprocess.Popen([program, "serve", "--port", "0", "--log", "off"], text=True, stdout=subprocess.PIPE)
    TestFovea.address = process.stdout.readline().split("on ")[1].strip()
    body = json.dumps({"prompt": '"'}).encode()
    with urllib.request.urlopen(TestFovea.address + "/tokenize", body) as answer:
        [TestFovea.quote] = json.load(answer)["tokens"]
    yield
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


SCENE = pathlib.Path(__file__).resolve().parents[1] / "fixtures/gaze/scene.png"


@pytest.fixture(autouse=True)
def local_picture(monkeypatch):
    """What the tests would fetch from the internet and send to the server; another file is not known."""

    def get(url, **_):
        assert url.endswith(".png"), f"{url} is no picture"
        return types.SimpleNamespace(content=SCENE.read_bytes())

    monkeypatch.setattr(chat_models, "httpx", types.SimpleNamespace(get=get))


class TestFovea(ChatModelIntegrationTests):
    """conftest.py names the tests that demand more of the model than it has."""

    address = ""
    quote = 0  # the token of it

    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        # The model would never come to the end of a text that nothing but a quote ends.
        return {"base_url": self.address + "/v1", "api_key": "none", "model": "tiny", "max_tokens": 150,
                "max_retries": 0, "stream_usage": True, "logit_bias": {self.quote: 100}}

    @property
    def supports_json_mode(self):
        return True

    @property
    def supports_image_inputs(self):
        return True

    @property
    def supports_image_tool_message(self):
        return True

    @property
    def has_tool_choice(self):
        return True
