# SPDX-License-Identifier: Apache-2.0
"""Requests on their way: waited for, streamed, cancelled, with threads and with asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

from fovea import _fovea
from fovea.errors import WorkError
from fovea.words import Answer


class Ticket:
    """A question that was submitted. It goes on where the ticket is dropped."""

    def __init__(self, request: _fovea.Request) -> None:
        self._request = request
        self._answer: Answer | None = None

    def cancel(self) -> None:
        """Ends the request soon, with what it has, as "cancelled"."""
        self._request.cancel()

    @property
    def stage(self) -> str:
        """"waiting", "glance", "couple", "look", "prefill", "step" or "done"."""
        return self._request.stage()

    @property
    def done(self) -> bool:
        return self._request.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for its end, at most so many seconds; whether it is done. Ctrl-C ends the wait
        alone."""
        return self._request.wait(-1 if timeout is None else max(0.0, timeout))

    def result(self, timeout: float | None = None) -> Answer:
        """The answer, waited for; its error is raised. TimeoutError where it takes longer."""
        if not self.wait(timeout):
            raise TimeoutError(f"not done within {timeout} s")
        if self._answer is None:
            self._answer = self._request.answer()
        return self._answer

    def __await__(self) -> Generator[Any, None, Answer]:
        """The answer, for asyncio. Cancelling the task that awaits it cancels the request."""
        yield from _ended(self._request).__await__()
        return self.result()

    def __repr__(self) -> str:
        return f"<fovea.Ticket {self.stage}>"


class Stream:
    """Pieces of an answer's text as soon as they are certain, for `for` and for `async for`.

    Leaving it early (close, `with`, or dropping it after a break) ends the request. `answer` is
    there after the last piece.
    """

    def __init__(self, start: Callable[[], _fovea.Request]) -> None:
        self._start: Callable[[], _fovea.Request] | None = start
        self._request: _fovea.Request | None = None
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        if self._answer is None:
            raise WorkError("the stream has not come to its end, so there is no whole answer yet")
        return self._answer

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        if self._start is not None:
            start, self._start = self._start, None
            self._request = start()
        if self._request is None or self._answer is not None:
            raise StopIteration
        try:
            piece = self._request.next()
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if piece is None:
            self._end()
            raise StopIteration
        return piece

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        if self._start is not None:
            start, self._start = self._start, None
            self._request = await _started(start)
        if self._request is None or self._answer is not None:
            raise StopAsyncIteration
        try:
            piece = await _next(self._request)
        except BaseException:
            await self.aclose()
            raise
        if piece is None:
            self._end()
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Ends the request, and waits for that."""
        self._start = None
        if self._request is not None and self._answer is None:
            self._request.cancel()
            self._request.wait_out()
            self._settle()

    async def aclose(self) -> None:
        self._start = None
        if self._request is not None and self._answer is None:
            self._request.cancel()
            await _ended(self._request)
            self._settle()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.aclose()

    def _end(self) -> None:
        """Takes the answer, or raises what went wrong; nothing comes after either."""
        request, self._request = self._request, None
        assert request is not None
        self._answer = request.answer()

    def _settle(self) -> None:
        """The same for who has left."""
        try:
            self._end()
        except Exception:  # nobody waits for it any more
            pass


async def answer_of(start: Callable[[], _fovea.Request]) -> Answer:
    request = await _started(start)
    await _ended(request)
    return request.answer()


async def _started(start: Callable[[], _fovea.Request]) -> _fovea.Request:
    """Reads pictures and submits on another thread, so that the loop goes on."""
    starting = asyncio.get_running_loop().run_in_executor(None, start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_cancel_started)
        await asyncio.wait([starting])
        if starting.exception() is None:
            await _ended(starting.result())
        raise


def _cancel_started(starting: asyncio.Future[_fovea.Request]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().cancel()


async def _ended(request: _fovea.Request) -> None:
    """Until it is done. Where the task is cancelled the request is, too, and its memory is free
    when the task hears of it."""
    try:
        while await _next(request) is not None:
            pass
    except asyncio.CancelledError:
        request.cancel()
        while await _next(request) is not None:
            pass
        raise


async def _next(request: _fovea.Request) -> str | None:
    """The next piece, or None at the end."""
    loop = asyncio.get_running_loop()
    while True:
        piece = request.next_now()
        if piece is not False:
            return piece
        woken = loop.create_future()
        # Called on the engine's thread; only this function of a loop may be.
        if request.arm(functools.partial(loop.call_soon_threadsafe, _set, woken)):
            await woken


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
