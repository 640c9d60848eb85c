#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times `fovea serve` against `transformers serve` with one checkpoint: the same requests, by turns, in one run.

    .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python bench/peers/serve.py [--model models/tiny] [--threads 2] [--rounds 3] [--json]

A request is a scene of 1024x1024 (`fovea cards`) as a data URL and a question about it, temperature 0, streamed.
No two requests of a server's life have the same scene. Fovea answers them twice: with its default plan, and
with every token (`detail: original`), which is what transformers computes; the answers of both are compared.
One client asks all servers in turn, request by request; then 32 clients ask each server. Servers listen on
127.0.0.1 alone. The figures are medians over the rounds.
"""
import argparse
import base64
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import ROOT, report

START_SECONDS, ANSWER_SECONDS = 300, 900
MANY = 32  # clients
MAX_TOKENS = 16  # the longest answer about a scene has 5
DEFAULT, EVERY = "default plan", "every token"
RATE, FIRST, USED = "requests", "first text", "processor time"
WANTED = 10  # times the requests/s of transformers


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server while it runs; its log is shown where it ends by itself."""

    def __init__(self, command, threads, port):
        self.port = port
        self.log = tempfile.TemporaryFile("w+")
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
        self.process = subprocess.Popen([str(part) for part in command], env=environment, stdout=self.log,
                                        stderr=subprocess.STDOUT)

    def __enter__(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        self.fail("did not start")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def processor_seconds(self):
        """What it took of all processors up to now, which other work on the machine hardly changes."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fail(self, reason):
        self.__exit__()
        self.log.seek(0)
        sys.exit(f"{self.log.read()[-4000:]}\nserve.py: {self.process.args[0]} {reason}")


def start_fovea(args):
    port = free_port()
    return Server([args.program, "serve", "--model", args.model, "--name", args.model, "--port", port, "--threads",
                   args.threads],
                  args.threads, port)


def start_transformers(args, dtype):
    port = free_port()
    program = Path(sys.executable).with_name("transformers")
    return Server([program, "serve", args.model, "--host", "127.0.0.1", "--port", port, "--device", "cpu",
                   "--dtype", dtype, "--log-level", "warning"], args.threads, port)


def ask(server, body):
    """-> (seconds to the first text, seconds to the end, text)"""
    start, first, text = time.perf_counter(), None, ""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_SECONDS)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        server.fail(f"answered {response.status}: {response.read()[:500]}")
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            server.fail(f"answered {event}")
        piece = event["choices"][0]["delta"].get("content") if event["choices"] else None
        if piece:
            first = first or time.perf_counter() - start
            text += piece
    connection.close()
    if not text:
        server.fail("gave no text")
    return first, time.perf_counter() - start, text


def make_questions(args, count):
    """-> [(data URL of a scene, question, right answer)]"""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.program, "cards", "--count", str(count), "--questions", "1", "--seed", str(args.seed),
                        "--families", "read", "-q", "-o", folder], check=True, stdout=subprocess.DEVNULL)
        questions = []
        for line in (Path(folder) / "questions.jsonl").read_text().splitlines():
            entry = json.loads(line)
            picture = base64.b64encode((Path(folder) / entry["image"]).read_bytes()).decode()
            human, model = (part["value"] for part in entry["conversations"])
            questions.append(("data:image/png;base64," + picture, human.removeprefix("<image>\n"), model))
    return questions


def body_of(args, question, plan):
    image = {"url": question[0], **({"detail": "original"} if plan == EVERY else {})}
    return json.dumps({"model": str(args.model), "stream": True, "temperature": 0, "max_tokens": MAX_TOKENS,
                       "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": image},
                                                                 {"type": "text", "text": question[1]}]}]}).encode()


def runs_of(args):
    """-> [(who, what starts its server, its plan)]"""
    runs = [("fovea, " + plan, lambda: start_fovea(args), plan) for plan in (DEFAULT, EVERY)]
    return runs + [("transformers " + dtype, lambda dtype=dtype: start_transformers(args, dtype), DEFAULT)
                   for dtype in args.dtypes]


def time_group(server, bodies, clients):
    """-> ([what ask() gives], seconds, seconds of processors that the server took)"""
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        used, begin = server.processor_seconds(), time.perf_counter()
        heard = list(pool.map(lambda body: ask(server, body), bodies))
        return heard, time.perf_counter() - begin, server.processor_seconds() - used


def time_round(args, questions):
    """One life of every server. -> ({(who, clients, what): value}, {who: {number of a question: answer}})

    One client asks all servers in turn, request by request; then many clients ask each server.
    """
    values, answers = {}, {}
    with contextlib.ExitStack() as stack:
        servers = [(who, stack.enter_context(start()), plan) for who, start, plan in runs_of(args)]
        for _, server, plan in servers:
            ask(server, body_of(args, questions[0], plan))  # what is made at the first request
        groups = [(1, [number]) for number in range(1, 1 + args.alone)]
        groups.append((MANY, list(range(1 + args.alone, len(questions)))))
        for clients, numbers in groups:
            for who, server, plan in servers:
                bodies = [body_of(args, questions[number], plan) for number in numbers]
                for key, value in zip(("heard", "seconds", "used"), time_group(server, bodies, clients)):
                    values.setdefault((who, clients, key), []).append(value)
                heard = values[who, clients, "heard"][-1]
                answers.setdefault(who, {}).update(
                    {number: text for number, (_, _, text) in zip(numbers, heard)})
    return {key: value for who, _, _ in servers for clients in (1, MANY)
            for key, value in figures(values, who, clients).items()}, answers


def figures(values, who, clients):
    """The figures of one server of what time_group() gave."""
    heard = [one for group in values[who, clients, "heard"] for one in group]
    used = max(sum(values[who, clients, "used"]), 1 / os.sysconf("SC_CLK_TCK"))  # less cannot be told
    return {(who, clients, RATE): len(heard) / sum(values[who, clients, "seconds"]),
            (who, clients, FIRST): 1e3 * statistics.median(first for first, _, _ in heard),
            (who, clients, USED): 1e3 * used / len(heard)}


def measure(args, questions):
    """-> ({(who, clients, what): median}, {who: answers of the last round})"""
    values, answers = {}, {}
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        found, answers = time_round(args, questions)
        for (who, clients, what), value in found.items():
            values.setdefault((who, clients, what), []).append(value)
            print(f"  {who}, {clients} at once, {what}: {value:.2f}", file=sys.stderr)
    return {key: statistics.median(all_) for key, all_ in values.items()}, answers


def compared_rows(args, values):
    rows = []
    for plan, clients, what, dtype in itertools.product((DEFAULT, EVERY), (1, MANY), (RATE, FIRST, USED), args.dtypes):
        ours, theirs = values["fovea, " + plan, clients, what], values["transformers " + dtype, clients, what]
        row = {"name": f"{plan}, {clients} at once, {what}", "unit": "/s" if what == RATE else "ms", "value": ours,
               "peer": f"transformers serve {dtype}", "peer_value": theirs,
               "ratio": ours / theirs if what == RATE else theirs / ours}
        if what == RATE and plan == DEFAULT:
            row["wanted"] = WANTED
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models/tiny", help="a checkpoint folder")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="each starts every server once (default 3)")
    parser.add_argument("--alone", type=int, default=8, help="requests of one client (default 8)")
    parser.add_argument("--each", type=int, default=1, help="requests of each of many clients (default 1)")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16"],
                        help="of transformers (default: bfloat16, which is faster than float32)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    args.model = args.model.resolve()

    questions = make_questions(args, 1 + args.alone + MANY * args.each)
    values, answers = measure(args, questions)
    report(args, {"threads": args.threads, "requests": len(questions) - 1}, compared_rows(args, values))
    for who, said in answers.items():
        right = sum(text == questions[number][2] for number, text in said.items())
        line = f"{who}: {right} of {len(said)} right"
        for dtype in args.dtypes if who.startswith("fovea") else []:
            theirs = answers["transformers " + dtype]
            line += f", {sum(theirs[number] == text for number, text in said.items())} as transformers {dtype}"
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
