# SPDX-License-Identifier: Apache-2.0
"""What tools/soak_server asks: random bodies about a few scenes, good ones and damaged ones, and what their answers
must be."""

import base64
import json
import pathlib
import subprocess

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"

SCHEMA = {"type": "object", "properties": {"code": {"type": "string", "maxLength": 8}, "sure": {"type": "boolean"}},
          "required": ["code", "sure"], "additionalProperties": False}
FUNCTIONS = [{"name": "look_up", "description": "Looks a code up.", "parameters": SCHEMA}, {"name": "give_up"}]
# Each is taken together with any other, but a relook with crops.
WHERE_IT_LOOKS = {"looks": [1, 2, 3], "relook": [0.3, 1.0], "sure": [0.5, 1.0], "look": ["mixed", "crops"],
                  "kv": ["f32", "bf16", "int8", "fp8"], "trace": [True], "regions": [[[10, 20, 100, 80]]],
                  "fixations": [[[300, 200]]]}
FORGETTING = ["vl-cache", "sparse-vlm", "merge", "window", "oldest", "random"]


class Questions:
    """Random bodies, each with its path. `forms`: whether the server was built with grammars."""

    def __init__(self, program, seed, folder):
        subprocess.run([program, "cards", "--count", "4", "--size", "512", "--seed", str(seed), "-q", "-o",
                        f"{folder}/cards"], check=True)
        self.pictures = ["data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
                         for path in sorted(pathlib.Path(folder, "cards/images").glob("*.png"))]
        self.forms = False

    def asking(self, text, picture, by_uuid=False):
        """`by_uuid`: the server was shown the picture by introductions() before."""
        parts = [{"type": "text", "text": text}]
        if picture is not None:
            url = {"url": self.pictures[picture], "detail": "low"}
            parts.insert(0, {"type": "image_url", "uuid": f"scene {picture}",
                             "image_url": None if by_uuid else url})
        return {"messages": [{"role": "user", "content": parts}]}

    def introductions(self):
        """Shows each picture by its name; the name alone is enough from then on."""
        return [{**self.asking("Which code?", i), "max_completion_tokens": 1} for i in range(len(self.pictures))]

    def random(self, rng, by_uuid=False):
        """-> (path, body)"""
        picture = rng.choice([None, None, 0, 1, 2, 3])
        if rng.random() < 0.15:
            return RESPONSES, self.random_response(rng, picture)
        body = self.asking(f"Which code is on card {rng.randrange(1000)}?", picture, by_uuid and rng.random() < 0.5)
        body["max_completion_tokens"] = rng.randint(1, 12)
        body["stream"] = rng.random() < 0.5
        for key, value in [("n", rng.randint(1, 3)), ("temperature", 1.5), ("seed", 7), ("logprobs", True),
                           ("stop", ["a", "7"]), ("cache_salt", f"{rng.randrange(3)}"),
                           ("fovea", self.random_look(rng, picture))]:
            if rng.random() < 0.2:
                body[key] = value
        body.update(self.random_form(rng))
        return CHAT, body

    @staticmethod
    def random_look(rng, picture):
        look = {"budget": rng.randint(1, 90)}
        for key, values in WHERE_IT_LOOKS.items():
            if rng.random() < 0.25 and (picture is not None or key not in ("regions", "fixations")):
                look[key] = rng.choice(values)
        if rng.random() < 0.25:
            look.update(keep=rng.choice([0.3, 0.8]), forget=rng.choice(FORGETTING))
        if look.get("look") == "crops":  # none can be added to an answer
            look.pop("relook", None)
        return look

    def random_form(self, rng):
        """What an answer is held to; an answer that is not may go on after its end."""
        kind = rng.random()
        if kind < 0.1 and self.forms:
            return {"response_format": rng.choice([
                {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "code", "schema": SCHEMA}}])}
        if kind < 0.25:
            choices = ["auto", "none"]
            if self.forms:
                choices += ["required", {"type": "function", "function": {"name": "look_up"}}]
            return {"tools": [{"type": "function", "function": function} for function in FUNCTIONS],
                    "tool_choice": rng.choice(choices)}
        return {"ignore_eos": True} if kind < 0.45 else {}

    def random_response(self, rng, picture):
        parts = [{"type": "input_text", "text": f"Which code is on card {rng.randrange(1000)}?"}]
        if picture is not None:
            parts.insert(0, {"type": "input_image", "image_url": self.pictures[picture], "detail": "low"})
        body = {"input": [{"role": "user", "content": parts}], "max_output_tokens": rng.randint(1, 12),
                "stream": rng.random() < 0.5}
        for key, value in [("temperature", 1.5), ("top_logprobs", 2), ("instructions", "Be brief."),
                           ("tools", [{"type": "function", **function} for function in FUNCTIONS]),
                           ("fovea", self.random_look(rng, picture))]:
            if rng.random() < 0.2:
                body[key] = value
        if rng.random() < 0.1 and self.forms:
            body["text"] = {"format": {"type": "json_schema", "name": "code", "schema": SCHEMA}}
        return body

    def conversation(self, rng, by_uuid):
        """A first question, to which second_turn() adds."""
        body = self.asking(f"Which code is on card {rng.randrange(1000)}?", rng.choice([None, 0, 1, 2, 3]), by_uuid)
        body["max_completion_tokens"] = rng.randint(1, 6)
        if rng.random() < 0.3:
            body["fovea"] = {"looks": 2, "kv": rng.choice(WHERE_IT_LOOKS["kv"])}
        return body


def second_turn(first, answer):
    """The body that goes on from an answer, as clients do: all of the conversation once more."""
    message = json.loads(answer)["choices"][0]["message"]
    said = {"role": "assistant", "content": message["content"] or ""}
    return {**first, "messages": first["messages"] + [said, {"role": "user", "content": "And on the blue star?"}]}


def why_wrong(path, body, status, text):
    """What is wrong with the answer to a good question; empty where it is whole."""
    if status != 200:
        return f"{status} {text[:300]}"
    if body.get("stream"):
        ends = [b"data: [DONE]\n\n"] if path == CHAT else [b"event: response.completed", b"event: response.incomplete"]
        last = text[-40:] if path == CHAT else text[text.rfind(b"event: "):]
        return "" if any(end in last for end in ends) else f"a stream without its end: {text[-200:]}"
    answer = json.loads(text)
    if path == RESPONSES:
        return "" if answer["status"] in ("completed", "incomplete") else f"the response is {answer['status']}"
    if len(answer["choices"]) != body.get("n", 1):
        return f"{len(answer['choices'])} choices of {body.get('n', 1)}"
    for choice in answer["choices"]:
        if "response_format" in body and choice["finish_reason"] == "stop":
            json.loads(choice["message"]["content"])
    return ""


def damaged(rng, text):
    data = bytearray(text[:2000] + text[-200:] if rng.random() < 0.5 else text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        data[at:at + rng.randint(0, 3)] = bytes(rng.randrange(256) for _ in range(rng.randint(0, 3)))
    return bytes(data)
