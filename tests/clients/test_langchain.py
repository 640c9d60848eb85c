# SPDX-License-Identifier: Apache-2.0
"""LangChain's own tests of chat models, over the program's server: tools/client_suites langchain"""

import json
import signal
import subprocess
import urllib.request

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
    def supports_image_inputs(self):
        return True

    @property
    def has_tool_choice(self):
        return True
