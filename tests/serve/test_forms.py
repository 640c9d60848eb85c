# SPDX-License-Identifier: Apache-2.0
"""Answers held to a form, calls of tools, and the Responses API, asked by OpenAI's own client."""

import concurrent.futures
import http.client
import json
import time
from typing import Literal

import pytest

openai = pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")

from test_serve import Served, asking, picture, program, served, wait_until  # noqa: E402, F401: fixtures


class Card(pydantic.BaseModel):
    shape: Literal["star", "cup", "moon"]
    red: bool
    row: Literal[1, 2, 3]


WEATHER = {"type": "object", "additionalProperties": False, "required": ["city", "unit"],
           "properties": {"city": {"enum": ["Bern", "Rome"]}, "unit": {"enum": ["C", "F"]}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER, "strict": True}},
              {"type": "function", "function": {"name": "clock", "parameters": {
                  "type": "object", "properties": {}, "additionalProperties": False}}}]
TOOLS = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]


def ask(served, **options):
    return served.client().chat.completions.create(model="tiny", messages=asking(), **options)


def respond(served, **options):
    return served.client().responses.create(model="tiny", **{"input": "Which code is on the red star?", **options})


@pytest.fixture(scope="module", autouse=True)
def grammars(served):
    body = {"messages": [{"role": "user", "content": "?"}], "max_tokens": 1, "response_format": {"type": "json_object"}}
    status, text, _ = served.request("POST", "/v1/chat/completions", json.dumps(body))
    if status == 400 and json.loads(text)["error"]["code"] == "unsupported_value":
        pytest.skip("built without xgrammar")
    assert status == 200, text


def test_an_answer_is_parsed_by_its_schema(served):
    answer = served.client().chat.completions.parse(model="tiny", messages=asking(), response_format=Card)
    assert isinstance(answer.choices[0].message.parsed, Card)
    assert answer.choices[0].finish_reason == "stop"


def test_a_stream_is_parsed_by_its_schema(served):
    with served.client().chat.completions.stream(model="tiny", messages=asking(), response_format=Card) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Card)


def test_each_of_several_answers_is_of_the_schema(served):
    schema = {"type": "json_schema", "json_schema": {"name": "card", "strict": True,
                                                     "schema": Card.model_json_schema()}}
    answer = ask(served, n=6, temperature=2, seed=5, response_format=schema)
    texts = [choice.message.content for choice in answer.choices]
    assert all(Card.model_validate_json(text) for text in texts)
    assert len(set(texts)) > 1


def test_any_object(served):
    answer = ask(served, response_format={"type": "json_object"}, max_completion_tokens=400)
    choice = answer.choices[0]
    assert choice.message.content.startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


def test_probabilities_are_the_models_own(served):
    free = ask(served, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    held = ask(served, logprobs=True, top_logprobs=3, response_format={"type": "json_object"},
               max_completion_tokens=1).choices[0].logprobs.content
    assert held[0].token != free[0].token
    assert [(one.token, one.logprob) for one in held[0].top_logprobs] == [
        (one.token, one.logprob) for one in free[0].top_logprobs]
    assert held[0].logprob < free[0].logprob


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_that_is_demanded(served, choice):
    answer = ask(served, tools=CHAT_TOOLS, tool_choice=choice, parallel_tool_calls=False)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    [call] = answer.choices[0].message.tool_calls
    if call.function.name == "weather":
        assert set(json.loads(call.function.arguments)) == {"city", "unit"}
    else:
        assert call.function.name == "clock" and choice == "required"


def test_a_streamed_call(served):
    chunks = ask(served, tools=CHAT_TOOLS, stream=True,
                 tool_choice={"type": "function", "function": {"name": "weather"}})
    deltas = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or []]
    assert deltas[0].function.name == "weather" and deltas[0].id.startswith("call_")
    assert set(json.loads("".join(delta.function.arguments for delta in deltas))) == {"city", "unit"}


def test_a_conversation_goes_on_after_calls(served):
    messages = asking()
    first = served.client().chat.completions.create(
        model="tiny", messages=messages, tools=CHAT_TOOLS,
        tool_choice={"type": "function", "function": {"name": "weather"}})
    said = first.choices[0].message
    messages += [said.model_dump(exclude_none=True),
                 {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "rain"}]
    second = served.client().chat.completions.create(model="tiny", messages=messages, tools=CHAT_TOOLS,
                                                     max_completion_tokens=4)
    assert second.choices[0].finish_reason in ("stop", "length")
    assert second.model_dump()["fovea"]["earlier_looks"] == "kept"


def test_parameters_of_null_are_none(served):
    tools = [{"type": "function", "function": {"name": "clock", "parameters": None}}]
    said = ask(served, tools=tools, tool_choice="required", max_completion_tokens=8)
    assert said.choices[0].finish_reason in ("tool_calls", "length")
    tools = [{"type": "function", "name": "clock", "parameters": None}]
    assert respond(served, tools=tools, tool_choice="required", max_output_tokens=8).error is None


@pytest.mark.parametrize("schema", [
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/properties/a"}}},
    {"type": "number", "minimum": 1e-9, "maximum": 2e-9},
    {"allOf": [{"type": "boolean"}, {"type": "null"}]},
    {"$ref": "#anchor"},
    {"type": []},
    {"type": "string", "pattern": "^(?!a)b$"},
], ids=["itself", "cycle", "dead end", "no number", "allOf", "anchor", "no type", "lookahead"])
def test_forms_that_no_answer_has_are_blamed_on_the_form(served, schema):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(served, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}})
    assert refused.value.param.startswith("response_format"), refused.value
    assert "is false" not in str(refused.value) and "heck failed" not in str(refused.value)


HOSTILE = [
    {"$ref": "#/$defs/none"},
    {"$ref": "http://example.com/schema"},
    {"type": "string", "pattern": "(" * 5},
    {"type": "string", "pattern": "a{100000}"},
    {"enum": ["x" * 100_000]},
    {"type": "object", "properties": {f"p{i}": {"enum": [f"{j}" for j in range(100)]} for i in range(100)}},
]


@pytest.mark.parametrize("schema", HOSTILE, ids=["dangling", "remote", "open", "repeats", "long", "many"])
def test_schemas_that_cannot_be_held_are_refused_soon(served, schema):
    start = served.processor_seconds()
    with pytest.raises(openai.BadRequestError) as refused:
        ask(served, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}})
    assert refused.value.param.startswith("response_format")
    assert served.processor_seconds() - start < 10


def test_a_schema_of_a_megabyte_or_of_a_thousand_levels_is_refused(served):
    deep = "{}"
    for _ in range(1000):
        deep = '{"items":' + deep + "}"
    for schema in (deep, '{"const":"' + "x" * (1 << 20) + '"}'):
        body = ('{"messages":[{"role":"user","content":"?"}],"response_format":{"type":"json_schema",'
                '"json_schema":{"name":"a","schema":' + schema + "}}}")
        assert served.request("POST", "/v1/chat/completions", body)[0] == 400


def test_others_are_answered_while_schemas_compile(served):
    def compile_one(i):
        schema = {"type": "object", "properties": {f"p{i}_{j}": {"type": "string"} for j in range(300)}}
        return ask(served, max_completion_tokens=1,
                   response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}})
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        compiled = [pool.submit(compile_one, i) for i in range(8)]
        assert ask(served).choices[0].message.content == "8R"
        assert all(one.result().choices[0].finish_reason == "length" for one in compiled)


def slow_schema(i):
    """Seconds to compile even for a small vocabulary, and no two alike."""
    texts = {f"p{i}_{j}": {"type": "string", "pattern": f"^([a-z]{{1,9}}[0-9]?){{1,10}}x{i}_{j}$"}
             for j in range(20)}
    return {"type": "object", "properties": texts}


def send_slow(served, i):
    """A connection whose grammar is being compiled, or waits for that."""
    body = json.dumps({"messages": [{"role": "user", "content": "?"}], "max_tokens": 1, "response_format": {
        "type": "json_schema", "json_schema": {"name": "a", "schema": slow_schema(i)}}})
    connection = http.client.HTTPConnection(served.address, timeout=60)
    connection.request("POST", "/v1/chat/completions", body)
    return connection


def test_slow_schemas_hold_up_nobody(program):
    served = Served(program)
    try:
        connections = [send_slow(served, i) for i in range(24)]  # more than there are workers
        wait_until(lambda: served.metric("vllm:num_requests_waiting") >= 20)
        assert served.request("POST", "/tokenize", json.dumps({"prompt": "a"}))[0] == 200
        plain = {"messages": [{"role": "user", "content": "?"}], "max_tokens": 1}
        assert served.request("POST", "/v1/chat/completions", json.dumps(plain))[0] == 200
        # Behind those that 16 workers can hold, it would have been answered when nine were compiled.
        assert served.metric("vllm:num_requests_waiting") > 16
        for connection in connections:
            connection.close()
        # At most the one that is being compiled goes on.
        start = time.monotonic()
        served.end()
        assert time.monotonic() - start < 20
    finally:
        served.process.kill()


def test_a_form_contradicts_going_on(served):
    for key, value in [("ignore_eos", True), ("min_tokens", 5)]:
        with pytest.raises(openai.BadRequestError) as refused:
            ask(served, response_format={"type": "json_object"}, extra_body={key: value})
        assert refused.value.param == key


def test_a_response(served):
    content = [{"type": "input_image", "image_url": picture(), "detail": "auto"},
               {"type": "input_text", "text": "Which code is on the red star?"}]
    response = respond(served, input=[{"role": "user", "content": content}])
    assert response.output_text == "8R" and response.status == "completed"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.input_tokens_details.model_dump()["image_tokens"] <= 96
    assert response.model_dump()["fovea"]["looks"]


def test_a_response_that_is_cut(served):
    response = respond(served, max_output_tokens=1)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"


def test_events_of_a_response(served):
    with served.client().responses.stream(model="tiny", input="Which code is on the red star?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    types = [event.type for event in events]
    assert types[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"]
    assert types[-4:] == ["response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.completed"]
    assert set(types[4:-4]) <= {"response.output_text.delta"}
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == final.output_text


def test_a_response_is_parsed_by_its_schema(served):
    response = served.client().responses.parse(model="tiny", input="?", text_format=Card)
    assert isinstance(response.output_parsed, Card)


def test_a_response_that_calls_a_tool_goes_on(served):
    first = respond(served, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    [call] = first.output
    assert call.type == "function_call" and set(json.loads(call.arguments)) == {"city", "unit"}
    second = respond(served, tools=TOOLS, tool_choice="none", max_output_tokens=4, input=[
        {"role": "user", "content": "Which code is on the red star?"}, call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}])
    assert second.output[0].type == "message"


def test_events_of_a_call(served):
    events = list(respond(served, tools=TOOLS, tool_choice={"type": "function", "name": "weather"}, stream=True))
    [done] = [event for event in events if event.type == "response.function_call_arguments.done"]
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == done.arguments
    assert set(json.loads(done.arguments)) == {"city", "unit"}
    assert events[-1].response.output[0].arguments == done.arguments


@pytest.mark.parametrize("key, value", [("previous_response_id", "resp_1"), ("input", 5), ("background", True),
                                        ("max_output_tokens", 0), ("tools", [{"type": "web_search"}])])
def test_wrong_responses_name_the_key(served, key, value):
    with pytest.raises(openai.BadRequestError) as refused:
        respond(served, **{key: value})
    assert refused.value.param.startswith(key)
