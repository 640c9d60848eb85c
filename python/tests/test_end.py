# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, the end of Python, and forks, each in a Python of its own."""

import signal
import subprocess
import sys
import textwrap

import pytest

from conftest import ENVIRONMENT, SCENE

LIMIT_S = 60  # for what must not hang
START = f"""
import os, sys, threading, time
import fovea
SCENE = {str(SCENE)!r}
LONG = dict(max_tokens=7000, ignore_end=True)
engine = fovea.Engine()
def begun():
    while not engine.memory().reserved:
        time.sleep(0.001)
"""


def run(code):
    return subprocess.run([sys.executable, "-c", START + textwrap.dedent(code)], text=True,
                          capture_output=True, timeout=LIMIT_S, env=ENVIRONMENT)


@pytest.mark.parametrize("asking", [
    "engine.ask(SCENE, 'x', **LONG)",
    "list(engine.stream(SCENE, 'x', **LONG))",
    "engine.session(SCENE).ask('x', **LONG)",
    "asyncio.run(engine.aask(SCENE, 'x', **LONG))",
])
def test_ctrl_c_stops_an_answer(asking):
    done = run(f"""
        import asyncio, signal
        def interrupt():
            begun()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            {asking}
        except KeyboardInterrupt:
            left = engine.memory().reserved
            print("stopped", engine.ask(SCENE, "x", max_tokens=1).finish)
            print("session" in {asking!r} or left == 0)  # a session keeps what was computed
        """)
    assert done.stdout == "stopped length\nTrue\n", done.stderr


def test_ctrl_c_leaves_a_submitted_request_alone():
    done = run("""
        import signal
        ticket = engine.submit(SCENE, "x", max_tokens=2000, ignore_end=True)
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                ticket.wait(10)
        except KeyboardInterrupt:
            print(ticket.result().finish)
        """)
    assert done.stdout == "length\n", done.stderr


def test_ctrl_c_ends_a_program_that_does_not_catch_it():
    done = run("""
        import signal
        def interrupt():
            begun()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        engine.ask(SCENE, "x", **LONG)
        """)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr


@pytest.mark.parametrize("running", [
    "ticket = engine.submit(SCENE, 'x', **LONG); begun()",
    "tickets = [engine.submit(SCENE, 'x', mask=lambda ids: None, **LONG) for _ in range(4)]; begun()",
    "stream = engine.stream(SCENE, 'x', **LONG); next(stream)",
    "session = engine.session(SCENE); session.submit('x', **LONG); begun()",
    "engine.submit(SCENE, 'x', **LONG); engine = None",
    "daemon(lambda: engine.ask(SCENE, 'x', **LONG)); begun()",
    "daemon(lambda: list(engine.stream(SCENE, 'x', **LONG))); begun()",
    "daemon(lambda: asyncio.run(engine.aask(SCENE, 'x', **LONG))); begun()",
    "daemon(lambda: [engine.ask(SCENE, 'x', max_tokens=3) for _ in iter(int, 1)]); begun()",
    "daemon(lambda: [fovea.see(SCENE) for _ in iter(int, 1)]); time.sleep(0.05)",
    "daemon(lambda: [fovea.Engine() for _ in iter(int, 1)]); time.sleep(0.05)",
    "daemon(lambda: [fovea.cards.generate(1, 2) for _ in iter(int, 1)]); time.sleep(0.05)",
])
def test_python_ends_while_requests_run(running):
    done = run(f"""
        import asyncio
        def daemon(work):
            threading.Thread(target=work, daemon=True).start()
        {running}
        print("end")
        """)
    # What a daemon thread prints while it is stopped is its own.
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert "terminate" not in done.stderr and "Fatal" not in done.stderr


def test_a_thread_that_is_no_daemon_is_waited_for():
    done = run("""
        def ask():
            print(engine.ask(SCENE, "x", max_tokens=300, ignore_end=True).finish)
        threading.Thread(target=ask).start()
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "length\n", "")


def test_work_that_comes_after_the_end_is_refused():
    done = run("""
        class Late:
            def __del__(self):
                try:
                    engine.ask(SCENE, "x")
                except RuntimeError as error:
                    print(error)
        late = Late()
        late.itself = late  # a cycle: collected at the very end
        """)
    assert done.returncode == 0 and "Python ends" in done.stdout, done.stderr


def test_a_forked_process_is_told_so():
    done = run("""
        engine.ask(SCENE, "x", max_tokens=1)
        running = engine.submit(SCENE, "x", **LONG)
        begun()
        child = os.fork()
        if child == 0:
            for ask in (lambda: engine.ask(SCENE, "x"), lambda: engine.session()):
                try:
                    ask()
                except RuntimeError as error:
                    print("fork" in str(error), flush=True)
            own = fovea.Engine()
            print(own.ask(SCENE, "x", max_tokens=1).finish, flush=True)
            sys.exit(7)
        status = os.waitpid(child, 0)[1]
        print(os.waitstatus_to_exitcode(status))
        running.cancel()
        print(running.result().finish)
        """)
    assert done.stdout == "True\nTrue\nlength\n7\ncancelled\n", done.stderr
