# SPDX-License-Identifier: Apache-2.0
"""The real program's server, asked by OpenAI's own client: pytest tests/serve --program PATH"""

import asyncio
import base64
import concurrent.futures
import gzip
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import zlib

import pytest

openai = pytest.importorskip("openai")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCENE = ROOT / "tests/fixtures/gaze/scene.png"
QUESTION = "Which code is on the red star?"


def picture(path=SCENE):
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def asking(question=QUESTION, **image):
    image = {"url": picture(), **image}
    return [{"role": "user", "content": [{"type": "image_url", "image_url": image},
                                         {"type": "text", "text": question}]}]


class Served:
    """The program while it serves on a free port."""

    def __init__(self, program, *flags, env=None):
        self.errors = tempfile.TemporaryFile("w+")  # a pipe that nobody reads would fill
        self.process = subprocess.Popen([program, "serve", "--port", "0", *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=self.errors,
                                        env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.address = line.split("//")[1].strip()

    def client(self, key="none", **options):
        return openai.OpenAI(base_url=f"http://{self.address}/v1", api_key=key, max_retries=0, **options)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())

    def metric(self, name):
        for line in self.request("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(name) and not line.startswith("#"):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")

    def accepted(self):
        """Requests that have been read and have no answer yet."""
        text = self.request("GET", "/metrics")[1].decode()  # one moment for both
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting")))

    def processor_seconds(self):
        """What it has computed: other work on the machine makes a wait longer, and not this."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def said(self):
        """All of stderr so far."""
        return os.pread(self.errors.fileno(), 1 << 24, 0).decode()  # its place is where the program writes

    def end(self, expected=0):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=300)
        assert self.process.returncode == expected, self.said()


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="session")
def program(request):
    return request.config.getoption("--program")


@pytest.fixture(scope="session")
def served(program):
    served = Served(program)
    yield served
    served.end()


def test_names_its_model(served):
    models = served.client().models.list().data
    assert [model.id for model in models] == ["tiny"]
    assert served.client().models.retrieve("tiny").max_model_len > 0
    with pytest.raises(openai.NotFoundError):
        served.client().models.retrieve("other")


def test_answers_a_question_about_a_picture(served):
    answer = served.client().chat.completions.create(model="tiny", messages=asking())
    assert answer.choices[0].message.content == "8R"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    details = usage.prompt_tokens_details.model_dump()
    assert details["image_tokens"] <= 96
    assert details["image_tokens"] + details["text_tokens"] == usage.prompt_tokens
    looks = answer.model_dump()["fovea"]["looks"]
    assert len(looks) == 1 and looks[0]["tokens"] == details["image_tokens"]


def test_streams_the_same(served):
    chunks = list(served.client().chat.completions.create(
        model="tiny", messages=asking(), stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "8R"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert len({c.id for c in chunks}) == 1


def test_answers_many_at_once_as_alone(served):
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(
            lambda _: served.client().chat.completions.create(model="tiny", messages=asking()), range(32)))
    assert {answer.choices[0].message.content for answer in answers} == {"8R"}


def test_async_client(served):
    async def ask():
        client = openai.AsyncOpenAI(base_url=f"http://{served.address}/v1", api_key="none", max_retries=0)
        answers = await asyncio.gather(*(
            client.chat.completions.create(model="tiny", messages=asking()) for _ in range(4)))
        stream = await client.chat.completions.create(model="tiny", messages=asking(), stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return {a.choices[0].message.content for a in answers}, "".join(pieces)

    assert asyncio.run(ask()) == ({"8R"}, "8R")


def test_logprobs(served):
    answer = served.client().chat.completions.create(
        model="tiny", messages=asking(), logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    for token in tokens:
        assert len(token.top_logprobs) == 3 and token.logprob <= 0
        assert token.logprob == pytest.approx(token.top_logprobs[0].logprob)  # greedy
    streamed = [c.choices[0].logprobs for c in served.client().chat.completions.create(
        model="tiny", messages=asking(), logprobs=True, top_logprobs=3, stream=True)]
    together = [token for part in streamed if part for token in part.content]
    assert [t.token for t in together] == [t.token for t in tokens]


def test_several_answers(served):
    answer = served.client().chat.completions.create(
        model="tiny", messages=asking("What is there?"), n=3, temperature=1.5, seed=7, max_completion_tokens=4)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    again = served.client().chat.completions.create(
        model="tiny", messages=asking("What is there?"), n=3, temperature=1.5, seed=7, max_completion_tokens=4)
    assert [c.message.content for c in answer.choices] == [c.message.content for c in again.choices]


def test_what_has_no_seed_is_drawn_anew(served):
    """300 tokens of about the same chance, 24 times: that two answers are equal is as good as impossible."""
    def said(**seed):
        answer = served.client().chat.completions.create(
            model="tiny", messages=asking("What is there?"), n=2, temperature=2, max_completion_tokens=24,
            logit_bias={str(token): 100 for token in range(100, 400)}, extra_body={"ignore_eos": True}, **seed)
        return [choice.message.content for choice in answer.choices]

    assert len({*said(), *said()}) == 4
    seeded = said(seed=0)
    assert said(seed=0) == seeded and seeded[0] != seeded[1]


@pytest.mark.parametrize("detail, most", [("low", 64), ("auto", 96), ("high", 256), ("original", 10**6)])
def test_detail_is_a_budget(served, detail, most):
    answer = served.client().chat.completions.create(model="tiny", messages=asking(detail=detail))
    look = answer.model_dump()["fovea"]["looks"][0]
    assert look["tokens"] <= most
    assert (look["plan"] == "uniform") == (detail == "original")
    assert detail != "original" or look["tokens"] == look["tokens_full"]


def test_the_fovea_object_overrides_it(served):
    answer = served.client().chat.completions.create(
        model="tiny", messages=asking(detail="high"),
        extra_body={"fovea": {"budget": 40, "trace": True, "plan": "quadtree"}})
    look = answer.model_dump()["fovea"]["looks"][0]
    assert look["tokens"] <= 40 and look["plan"] == "quadtree"
    assert {"information", "salience", "coupling", "relevance"} <= set(look["maps"])


def test_a_picture_is_sent_once(served):
    first = asking()
    first[0]["content"][0]["uuid"] = "a-scene"
    served.client().chat.completions.create(model="tiny", messages=first)
    again = [{"role": "user", "content": [{"type": "image_url", "image_url": None, "uuid": "a-scene"},
                                          {"type": "text", "text": QUESTION}]}]
    answer = served.client().chat.completions.create(model="tiny", messages=again)
    assert answer.choices[0].message.content == "8R"
    again[0]["content"][0]["uuid"] = "another"
    with pytest.raises(openai.BadRequestError) as refused:
        served.client().chat.completions.create(model="tiny", messages=again)
    assert refused.value.code == "unknown_uuid"


def test_a_conversation_goes_on_from_what_is_known(served):
    messages = asking()
    first = served.client().chat.completions.create(model="tiny", messages=messages)
    messages += [{"role": "assistant", "content": first.choices[0].message.content},
                 {"role": "user", "content": "Which code is on the blue ring?"}]
    second = served.client().chat.completions.create(model="tiny", messages=messages)
    assert second.usage.prompt_tokens_details.cached_tokens > 0
    assert second.model_dump()["fovea"]["earlier_looks"] == "kept"
    messages[1]["content"] = "Something that was never said"
    other = served.client().chat.completions.create(model="tiny", messages=messages)
    assert other.model_dump()["fovea"]["earlier_looks"] == "forgotten"


def test_what_is_forgotten_is_told(served):
    def usage(**fovea):
        answer = served.client().chat.completions.create(
            model="tiny", messages=asking(), extra_body={"fovea": {"plan": "uniform", **fovea}})
        return answer.model_dump()["fovea"]["usage"]

    assert "visual_keys" not in usage()
    few = usage(keep=0.25, forget="merge")
    assert few["visual_keys"] > 0 and few["visual_keys"] % few["image_tokens"] == 0
    assert few["visual_keys_kept"] == round(0.25 * few["visual_keys"])
    assert 0 < few["kv_bytes_after"] <= few["kv_bytes_before"]


@pytest.mark.parametrize("param, change", [
    ("temperature", {"temperature": -1}),
    ("top_logprobs", {"top_logprobs": 2}),
    ("stream_options", {"stream_options": {"include_usage": True}}),
    ("n", {"n": 0}),
    ("stop", {"stop": ["a", "b", "c", "d", "e"]}),
    ("tools", {"tools": []}),
    ("tool_choice", {"tool_choice": "auto"}),
    ("response_format.type", {"response_format": {"type": "xml"}}),
])
def test_wrong_requests_name_the_key(served, param, change):
    with pytest.raises(openai.BadRequestError) as refused:
        served.client().chat.completions.create(model="tiny", messages=asking(), **change)
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"


def test_other_refusals(served):
    with pytest.raises(openai.NotFoundError):
        served.client().chat.completions.create(model="other", messages=asking())
    with pytest.raises(openai.BadRequestError) as refused:
        served.client().chat.completions.create(model="tiny", messages=asking("word " * 40_000))
    assert refused.value.code == "context_length_exceeded"
    for url in ["http://127.0.0.1/a.png", "file:///etc/passwd", "ftp://a/b.png", "data:image/png;base64,!!"]:
        with pytest.raises((openai.BadRequestError, openai.UnprocessableEntityError)):
            served.client().chat.completions.create(model="tiny", messages=asking(url=url))
    assert served.request("POST", "/v1/chat/completions", "{")[0] == 400
    assert served.request("GET", "/v1/chat/completions")[0] == 405
    assert served.request("GET", "/nothing")[0] == 404


def png_bomb(megabytes):
    """A PNG of one pixel by its header, with so much more behind it."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(megabytes)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


def is_sanitized(program):
    code = pathlib.Path(program).read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


def peak_mib(served):
    status = pathlib.Path(f"/proc/{served.process.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@pytest.mark.parametrize("body, fields", [
    (b"", {}),
    (b"{", {}),
    (b"[" * 100_000, {}),
    (b'{"messages": [], "messages": []}', {}),
    (b'{"messages": "\x00"}', {}),
    (b'{"messages": "\xff"}', {}),
    (b'{"temperature": NaN}', {}),
    (json.dumps({"messages": asking(), "n": 10**9}), {}),
    (json.dumps({"messages": asking(), "max_tokens": -1}), {}),
    (b'{"messages": [' + b'{"role": "user", "content": "x"},' * 1_000_000 + b"{}]}", {}),
    (gzip.compress(b" " * (256 << 20)), {"Content-Encoding": "gzip"}),
    (json.dumps({"messages": asking(url="data:image/png;base64," + base64.b64encode(png_bomb(512)).decode())}), {}),
], ids=["empty", "no JSON", "deep", "a key twice", "NUL", "no UTF-8", "NaN", "n of 10^9", "negative", "10^6 messages",
        "gzip bomb", "PNG bomb"])
def test_bad_bodies_are_refused_in_little_memory(program, body, fields):
    served = Served(program)
    try:
        served.client().chat.completions.create(model="tiny", messages=asking())
        before = peak_mib(served)
        started = served.processor_seconds()
        status, text, _ = served.request("POST", "/v1/chat/completions", body, fields)
        assert status == (415 if fields else 400), text
        assert json.loads(text)["error"]["type"] == "invalid_request_error"
        assert served.processor_seconds() - started < 10
        if not is_sanitized(program):  # sanitizers keep what was freed
            assert peak_mib(served) - before < 64 + 2 * len(body) / 2**20  # and the body itself
        answer = served.client().chat.completions.create(model="tiny", messages=asking())
        assert answer.choices[0].message.content == "8R"
    finally:
        served.end()


def test_a_slow_sender_holds_up_nobody(served):
    slow = []
    for _ in range(50):
        slow.append(socket.create_connection(served.address.split(":")))
        slow[-1].sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
    assert served.request("POST", "/tokenize", json.dumps({"prompt": "a"}))[0] == 200
    assert len(select.select(slow, [], [], 0)[0]) < len(slow), "heads are waited for 10 s"
    assert served.client().chat.completions.create(model="tiny", messages=asking()).choices
    for one in slow:
        one.settimeout(30)
        assert one.recv(1000).startswith(b"HTTP/1.1 408 ")
        one.close()


def test_a_method_is_the_whole_word(served):
    for method, path in [("FOO", "/metrics"), ("COPY", "/v1/chat/completions"), ("PUT", "/v1/models"),
                         ("POST", "/health"), ("GET", "/tokenize")]:
        status, _, fields = served.request(method, path)
        assert status == 405 and "OPTIONS" in fields["Allow"], method


def test_what_is_asked_at_once_finds_its_conversation(served):
    for i in range(20):
        messages = asking(f"Question {i}?")
        first = served.client().chat.completions.create(model="tiny", messages=messages, max_completion_tokens=3)
        messages += [{"role": "assistant", "content": first.choices[0].message.content},
                     {"role": "user", "content": "And?"}]
        second = served.client().chat.completions.create(model="tiny", messages=messages, max_completion_tokens=1)
        assert second.model_dump()["fovea"]["earlier_looks"] == "kept"


def test_small_calls(served):
    status, body, _ = served.request("POST", "/tokenize", json.dumps({"prompt": "Which code?"}))
    tokens = json.loads(body)["tokens"]
    assert status == 200 and len(tokens) > 1
    status, body, _ = served.request("POST", "/detokenize", json.dumps({"tokens": tokens}))
    assert json.loads(body) == {"prompt": "Which code?"}
    status, body, _ = served.request("POST", "/fovea/see", json.dumps({"image": picture(), "budget": 50}))
    assert status == 200 and json.loads(body)["tokens"] <= 50
    assert json.loads(served.request("GET", "/openapi.json")[1])["openapi"] == "3.1.0"
    assert served.request("GET", "/health")[0] == 200
    assert "version" in json.loads(served.request("GET", "/version")[1])
    assert served.metric("fovea:visual_tokens_saved_total") > 0


@pytest.mark.parametrize("param, change", [
    ("plan", {"plan": "nothing"}), ("balance", {"balance": "nothing"}), ("fixations", {"fixations": [[-9, 0]]})])
def test_a_sight_that_is_refused_names_the_key(served, param, change):
    status, body, _ = served.request("POST", "/fovea/see", json.dumps({"image": picture(), **change}))
    assert status == 400 and json.loads(body)["error"]["param"] == param


def test_a_models_name_is_found_as_a_url_writes_it(program):
    served = Served(program, "--name", "org/model")
    try:
        for path in ("org/model", "org%2Fmodel", "org%2fmodel"):
            status, body, _ = served.request("GET", "/v1/models/" + path)
            assert status == 200 and json.loads(body)["id"] == "org/model"
        for path in ("org%252Fmodel", "org%2", "org"):
            assert served.request("GET", "/v1/models/" + path)[0] == 404
    finally:
        served.end()


def test_pages_of_other_places_are_kept_out(served):
    def origin(value):
        return served.request("GET", "/v1/models", headers={"Origin": value})[2].get("Access-Control-Allow-Origin")

    assert origin("http://localhost:3000") == "http://localhost:3000"
    assert origin("http://localhost.evil.com") is None
    assert origin("http://evil.com") is None
    assert served.request("GET", "/v1/models", headers={"Host": "evil.com"})[0] == 403
    assert served.request("POST", "/v1/chat/completions", "{}", {"Origin": "http://evil.com"})[0] == 403
    status, _, fields = served.request("OPTIONS", "/v1/chat/completions", headers={"Origin": "http://localhost:1"})
    assert status == 204 and "POST" in fields["Access-Control-Allow-Methods"]


def test_who_goes_away_is_not_worked_for(served):
    before = served.metric("vllm:generation_tokens_total")
    for _ in range(5):
        stream = served.client().chat.completions.create(
            model="tiny", messages=asking(), stream=True, max_completion_tokens=4000,
            extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
    wait_until(lambda: served.metric("vllm:num_requests_running") == 0)
    # A fast machine may have come to the end of some.
    assert served.metric("vllm:generation_tokens_total") - before < 5 * 4000


def test_keys(program, tmp_path):
    (tmp_path / "keys").write_text("first-key\nsecond-key\n")
    served = Served(program, "--api-key-file", str(tmp_path / "keys"))
    try:
        for key in ["first-key", "second-key"]:
            assert served.client(key).models.list().data
        status, page, fields = served.request("GET", "/")  # asks for the key itself
        assert status == 200 and page.startswith(b"<!doctype html>")
        assert fields["Content-Type"] == "text/html; charset=utf-8"
        policy = fields["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        for key in ["none", "first-ke", "first-key2"]:
            with pytest.raises(openai.AuthenticationError):
                served.client(key).models.list()
        assert served.request("GET", "/health")[0] == 200
    finally:
        served.end()


def test_files_are_taken_from_the_allowed_folder_alone(program, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/scene.png").write_bytes(SCENE.read_bytes())
    (tmp_path / "out.png").write_bytes(SCENE.read_bytes())
    served = Served(program, "--allow-folder", str(tmp_path / "in"))
    try:
        answer = served.client().chat.completions.create(
            model="tiny", messages=asking(url=f"file://{tmp_path}/in/scene.png"))
        assert answer.choices[0].message.content == "8R"
        for name in ["out.png", "in/../out.png", "in/nothing.png"]:
            with pytest.raises(openai.BadRequestError) as refused:
                served.client().chat.completions.create(
                    model="tiny", messages=asking(url=f"file://{tmp_path}/{name}"))
            assert str(tmp_path) not in refused.value.message
    finally:
        served.end()


@pytest.mark.parametrize("name, spoil", [
    ("tokenizer.json", lambda path: path.write_text("{}")),
    ("chat_template.jinja", lambda path: path.write_text("{% for %}")),
    ("model-00001-of-00002.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-4096] + b"\xff" * 4096)),
])
def test_a_model_that_cannot_answer_is_not_offered(program, tmp_path, name, spoil):
    shutil.copytree(ROOT / "models/tiny", tmp_path / "tiny")
    spoil(tmp_path / "tiny" / name)
    ended = subprocess.run([program, "serve", "--port", "0", "-q", "-m", str(tmp_path / "tiny")],
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, 2) and ended.stdout == ""
    assert ended.stderr.startswith("fovea: ") and ended.stderr.count("\n") == 1


def test_a_log_that_nobody_reads_holds_up_nothing(program):
    process = subprocess.Popen([program, "serve", "--port", "0", "--log", "json"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # which is not read
    try:
        address = process.stdout.readline().split("//")[1].strip()
        # Lines of about 280 bytes fill most of the pipe's 64 KiB; then comes one that would not fit.
        connection = http.client.HTTPConnection(address, timeout=60)
        for path in ["/" + "a" * 150] * 200 + ["/" + "a" * 15_000, "/b", "/b"]:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 404
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_what_was_accepted_is_answered_when_it_ends(program):
    served = Served(program, "--drain-seconds", "240")  # sanitizers make it slow
    clients = [served.client() for _ in range(8)]  # which takes longer than some answers
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.chat.completions.create, model="tiny", messages=asking(),
                             max_completion_tokens=400, extra_body={"ignore_eos": True}) for client in clients]
        wait_until(lambda: sum(one.done() for one in asked) + served.accepted() >= 8)
        served.end()
        for one in asked:
            assert one.result().usage.completion_tokens == 400


def test_a_full_queue_says_so(program):
    served = Served(program, "--max-queue", "1")
    try:
        client = served.client()  # which takes longer than some answers; and 16 of them, for the same reason
        stream = client.chat.completions.create(
            model="tiny", messages=asking(), stream=True, n=16, max_completion_tokens=3000,
            extra_body={"ignore_eos": True})
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as refused:
            client.chat.completions.create(model="tiny", messages=asking())
        assert refused.value.response.headers["retry-after"] == "1"
        stream.close()
    finally:
        served.end()


@pytest.mark.parametrize("param, change", [
    ("fovea.plan", {"fovea": {"plan": "nothing"}}),
    ("fovea.look", {"fovea": {"look": "nothing"}}),
    ("fovea.balance", {"fovea": {"balance": "nothing"}}),
    ("logit_bias", {"logit_bias": {"100000000": 1}}),
])
def test_what_the_engine_refuses_has_a_name(served, param, change):
    with pytest.raises(openai.BadRequestError) as refused:
        served.client().chat.completions.create(model="tiny", messages=asking(), extra_body=change)
    assert refused.value.param == param


def test_what_http_refuses_is_logged_and_counted(program):
    served = Served(program, "--max-body", "1000")
    assert served.request("POST", "/tokenize", "x" * 2000)[0] == 413
    lines = served.request("GET", "/metrics")[1].decode().splitlines()
    assert any('"413"' in line and line.endswith(" 1") for line in lines), lines
    served.end()
    served.errors.seek(0)
    assert any("- - 413" in line and "larger than 1000 bytes" in line for line in served.errors)


def test_memory_for_no_question_is_refused_at_the_start(program):
    ended = subprocess.run([program, "serve", "--port", "0", "--memory", "1"], capture_output=True, text=True,
                           timeout=60)
    assert ended.returncode != 0 and "listening" not in ended.stdout
    assert "--memory is too small" in ended.stderr and ended.stderr.count("\n") == 1


def test_a_compressed_body_is_refused_by_its_name(served):
    body = json.dumps({"messages": asking()}).encode()
    for name in ["gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip"]:
        status, text, fields = served.request("POST", "/v1/chat/completions", gzip.compress(body),
                                              {"Content-Encoding": name})
        assert status == 415, text
        assert "content-encoding" in json.loads(text)["error"]["message"]
        assert fields["Accept-Encoding"] == "identity"
    assert served.request("POST", "/v1/chat/completions", body, {"Content-Encoding": "identity"})[0] == 200


def test_health_tells_that_the_weights_have_changed(program, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(ROOT / "models/tiny", folder)
    served = Served(program, "--model", str(folder))
    try:
        assert served.request("GET", "/health")[0] == 200
        with open(folder / "model-00001-of-00002.safetensors", "r+b") as weights:
            weights.seek(weights.seek(0, os.SEEK_END) // 2)
            weights.write(b"\x3f" * 4096)
        status, text, _ = served.request("GET", "/health")
        assert status == 503, text
        assert json.loads(text)["error"]["code"] == "model_changed"
        assert str(folder) not in text.decode()
        asked = json.dumps({"messages": [{"role": "user", "content": "Hello"}]})
        assert served.request("POST", "/v1/chat/completions", asked)[0] == 500
    finally:
        served.end()


def test_what_fits_after_others_waits_for_them(program):
    """A question comes to its place while those behind it hold conversations that take its room. They go first, and
    nobody is told to come again."""
    served = Served(program, "--memory", str(16 << 20))
    try:
        def ask(messages, **options):
            body = {"messages": messages, "max_completion_tokens": 3, **options}
            return served.request("POST", "/v1/chat/completions", json.dumps(body))[:2]

        begun = []
        for i in range(3):
            messages = asking(f"Which code is on card {i}?", detail="high")
            said = json.loads(ask(messages)[1])["choices"][0]["message"]["content"]
            begun.append([*messages, {"role": "assistant", "content": said}, {"role": "user", "content": "And?"}])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            hello = [{"role": "user", "content": "Hello"}]
            answers = [pool.submit(ask, hello, max_completion_tokens=150, ignore_eos=True)]
            wait_until(lambda: served.metric("vllm:num_requests_running") >= 1 or answers[0].done())
            answers.append(pool.submit(ask, asking("Which code is on the green star?", detail="high")))
            # On a fast machine the first may be answered before the second is seen beside it.
            wait_until(lambda: served.metric("vllm:num_requests_running") >= 2 or answers[0].done())
            answers += [pool.submit(ask, messages) for messages in begun]
        assert [answer.result()[0] for answer in answers] == [200] * 5, [answer.result()[1][:300] for answer in answers]
    finally:
        served.end()


@pytest.mark.parametrize("first_that_fails", [4, 9, 14])
def test_starts_with_the_workers_it_can_get(program, first_that_fails):
    preload = pathlib.Path(program).resolve().parent.parent / "lib/fail_allocations.so"
    if not preload.exists():
        pytest.skip("the library that makes threads fail is not built")
    served = Served(program, env={"LD_PRELOAD": str(preload), "FOVEA_FAIL_THREADS": str(first_that_fails)})
    status, text, _ = served.request("POST", "/v1/chat/completions", json.dumps({"messages": asking()}))
    assert status == 200, text
    served.end()
    served.errors.seek(0)
    started = re.search(r"the system has threads for (\d+) of 16 workers", served.errors.read())
    assert started and 1 <= int(started[1]) < first_that_fails
