# SPDX-License-Identifier: Apache-2.0
"""How work ends: a client that goes away, signals, and what the program says when it begins."""

import base64
import http.client
import json
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time
import zlib

import pytest

openai = pytest.importorskip("openai")

from test_serve import ROOT, Served, asking, program, served, wait_until  # noqa: E402, F401: fixtures

CHAT = "/v1/chat/completions"


def pattern(side):
    """A gray PNG of that many pixels a side, as a URL."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(x * y // 7 % 256 for x in range(side)) for y in range(side))
    png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
           + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def reserved(served):
    return served.metric("fovea:kv_reserved_bytes")


def send(served, body):
    """A connection on which that has been asked, and nothing of the answer was read."""
    connection = http.client.HTTPConnection(served.address, timeout=300)
    connection.request("POST", CHAT, json.dumps(body))
    return connection


def close_and_watch(served, connection, before):
    """Processor seconds from the close until the pages are back."""
    at = served.processor_seconds()
    start = time.monotonic()
    connection.close()
    wait_until(lambda: reserved(served) == before, seconds=120)
    rest = served.processor_seconds() - at
    print(f"pages back after {time.monotonic() - start:.2f} s, {rest:.2f} s of them computed")
    return rest


@pytest.mark.parametrize("messages", [
    asking(url=pattern(1024), detail="original"),
    [{"role": "user", "content": "Which code is on the red star? " * 230}],
], ids=["every token of a picture", "a long text"])
def test_who_goes_away_while_a_prompt_is_read_frees_its_pages(program, messages):
    served = Served(program)
    try:
        def body(salt):  # nothing is known from the time before
            return {"messages": messages, "max_completion_tokens": 1, "cache_salt": salt}

        began = served.processor_seconds()
        whole = send(served, body("whole"))
        assert whole.getresponse().status == 200
        seconds = served.processor_seconds() - began
        before = reserved(served)
        tokens = served.metric("vllm:generation_tokens_total")
        connection = send(served, body("left"))
        wait_until(lambda: reserved(served) > before)
        rest = close_and_watch(served, connection, before)
        # What this machine is like, and what else it does, both have in common.
        assert rest < seconds / 2, f"the whole takes {seconds:.2f} s of processors"
        assert served.metric("vllm:generation_tokens_total") == tokens
        whole.close()
    finally:
        served.end()


def test_who_goes_away_while_it_is_answered_frees_its_pages(program):
    served = Served(program)
    try:
        before = reserved(served)
        most = 4000
        connection = send(served, {"messages": asking(), "max_completion_tokens": most, "ignore_eos": True,
                                   "stream": True})
        assert b"data:" in connection.getresponse().readline()
        assert reserved(served) > before
        close_and_watch(served, connection, before)
        assert served.metric("vllm:generation_tokens_total") < most / 2
    finally:
        served.end()


def test_a_second_signal_ends_it_at_once(program):
    served = Served(program, "--drain-seconds", "3000")
    stream = send(served, {"messages": asking(), "n": 16, "max_completion_tokens": 3000, "ignore_eos": True,
                           "stream": True}).getresponse()
    stream.readline()
    served.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "ending: what was accepted is answered first" in served.said())
    served.end()  # the second one
    try:
        rest = stream.read()
    except (http.client.HTTPException, ConnectionError):  # which is cut off
        rest = b""
    assert b"[DONE]" not in rest


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl (tools/install test)")
def test_the_curl_line_that_it_prints_works(program):
    served = Served(program)
    try:
        def line():
            return re.search("^try: (curl .*)\n", served.said(), re.MULTILINE)

        wait_until(line)
        answer = subprocess.run(["sh", "-c", line()[1]], capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(answer.stdout)["choices"][0]["message"]["role"] == "assistant"
    finally:
        served.end()


def test_a_device_that_has_failed_ends_the_program_with_1(program, tmp_path):
    library = pathlib.Path(program).resolve().parent.parent / "lib/failing_device.so"
    if not library.exists():
        pytest.skip("the emulated GPU that fails is not built")
    failed = tmp_path / "failed"
    served = Served(program, "--device", "cuda", "-m", ROOT / "tests/fixtures/gaze",  # quick when emulated
                    env={"FOVEA_CUDA_LIBRARY": str(library), "FOVEA_DEVICE_FAILS": str(failed)})
    asked = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 1})
    assert served.request("POST", CHAT, asked)[0] == 200
    assert served.request("GET", "/health")[0] == 200
    failed.touch()
    assert served.request("POST", CHAT, asked)[0] == 500
    wait_until(lambda: "fovea: the device has failed, and the server ends: " in served.said())
    for method, path, body in [("GET", "/health", None), ("POST", CHAT, asked)]:
        try:
            status, text, _ = served.request(method, path, body)
        except (ConnectionError, http.client.HTTPException):  # on a machine so busy that the 5 s are over
            break
        assert status == 503 and json.loads(text)["error"]["code"] == "device_failed"
        assert b"launch" not in text  # the reason is for the log
    served.process.communicate(timeout=300)
    assert served.process.returncode == 1, served.said()
    assert "unspecified launch failure" in served.said()


@pytest.mark.parametrize("path, body", [
    ("/tokenize", {"prompt": "word " * 300_000}),
    (CHAT, {"messages": [{"role": "user", "content": "word " * 300_000}]}),
], ids=["tokenize", "chat"])
def test_an_answer_that_memory_was_missing_for_has_a_line_in_the_log(program, tmp_path, path, body):
    """Each of the places that take memory for the text fails once."""
    preload = pathlib.Path(program).resolve().parent.parent / "lib/fail_allocations.so"
    if not preload.exists():
        pytest.skip("the library that makes memory fail is not built")
    asked = json.dumps(body)

    def ask(flags, env):
        served = Served(program, *flags, env={"LD_PRELOAD": str(preload), **env})
        before = len(places.read_text().splitlines()) if places.exists() else 0
        status, text, _ = served.request("POST", path, asked)
        served.end()
        return before, status, json.loads(text), served.said().splitlines()

    places = tmp_path / "places"
    before = ask([], {"FOVEA_LIST_PLACES": str(places)})[0]
    found = [line.split()[:3] for line in places.read_text().splitlines()[before:]]
    short = 0
    for place in [one for one in found if one[0] == "m" and int(one[1]) >= 1_500_000][:8]:
        _, status, answer, said = ask(["--log", "json"], {"FOVEA_FAIL_PLACE": ":".join(place)})
        lines = [json.loads(line) for line in said if line.startswith("{")]
        assert [(line["path"], line["status"]) for line in lines] == [(path, status)], place
        short += status == 503 and answer["error"]["code"] == "out_of_memory"
    assert short > 0
