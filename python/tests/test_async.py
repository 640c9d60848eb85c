# SPDX-License-Identifier: Apache-2.0
"""asyncio: answers side by side, streams, and tasks that are cancelled."""

import asyncio

import pytest

import fovea
from conftest import LONG, SCENE


def settled(engine):
    """The memory of requests that are over."""
    memory = engine.memory()
    return memory.resident - memory.cached, memory.reserved


async def begun(engine):
    while not engine.memory().reserved:
        await asyncio.sleep(0.001)


def test_questions_side_by_side(engine, scene):
    async def main():
        answers = await asyncio.gather(*(engine.aask(scene.pixels, q) for q in scene.questions))
        return [answer.text for answer in answers]

    assert asyncio.run(main()) == scene.answers


def test_the_loop_goes_on_meanwhile(engine, scene):
    async def main():
        ticks = 0
        task = asyncio.create_task(engine.aask(scene.pixels, scene.question))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0)
        return ticks, (await task).text

    ticks, text = asyncio.run(main())
    assert ticks > 20 and text == scene.answer


def test_a_stream(engine, scene):
    async def main():
        stream = engine.stream(scene.pixels, scene.question)
        pieces = [piece async for piece in stream]
        assert [piece async for piece in stream] == []
        return pieces, stream.answer

    pieces, answer = asyncio.run(main())
    assert "".join(pieces) == answer.text == scene.answer and len(pieces) > 1


def test_a_session(engine, scene):
    async def main():
        session = engine.session(scene.pixels)
        first = await session.aask(scene.question)
        second = "".join([piece async for piece in session.stream(scene.questions[1])])
        return first.text, second, (await session.submit(scene.questions[2])).text

    assert asyncio.run(main()) == tuple(scene.answers[:3])


def test_a_cancelled_task_frees_its_pages(engine, scene):
    async def main():
        await engine.aask(scene.pixels, scene.question, share=False)
        before = settled(engine)

        async def stream():
            async for _ in engine.stream(scene.pixels, scene.question, share=False, **LONG):
                pass

        async def ticket():
            await engine.submit(scene.pixels, scene.question, share=False, **LONG)

        for work in (lambda: engine.aask(scene.pixels, scene.question, share=False, **LONG), stream,
                     ticket):
            task = asyncio.create_task(work())
            await begun(engine)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert settled(engine) == before  # at once, when the caller hears of it

    asyncio.run(main())


def test_a_task_that_is_cancelled_before_it_began(engine, scene):
    async def main():
        for turns in range(6):  # while the picture is read, and while it is submitted
            task = asyncio.create_task(engine.aask(scene.pixels, scene.question, **LONG))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    while engine.memory().reserved:  # each is ended as soon as it has begun
        pass


def test_a_timeout_ends_the_request(engine, scene):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(engine.aask(scene.pixels, scene.question, **LONG), 0.2)
        assert engine.memory().reserved == 0

    asyncio.run(main())


def test_leaving_a_stream_ends_its_request(engine, scene):
    async def main():
        async with engine.stream(scene.pixels, scene.question, **LONG) as stream:
            async for piece in stream:
                break
        assert engine.memory().reserved == 0 and stream.answer.text.startswith(piece)

    asyncio.run(main())


def test_several_tasks_await_one_ticket(engine, scene):
    async def main():
        ticket = engine.submit(scene.pixels, scene.question)

        async def wait():
            return (await ticket).text

        return await asyncio.gather(wait(), wait(), wait())

    assert asyncio.run(main()) == [scene.answer] * 3


def test_errors(engine, scene):
    async def main():
        with pytest.raises(fovea.InputError, match="no/such"):
            await engine.aask("/no/such/picture.png", "What?")
        with pytest.raises(fovea.InputError, match="fixation"):
            await engine.aask(SCENE, "What?", fixation=(9999, 0))
        with pytest.raises(fovea.InputError, match="no/such"):
            async for _ in engine.stream("/no/such/picture.png", "What?"):
                pass
        with pytest.raises(TypeError, match="did you mean"):
            await engine.aask(SCENE, "What?", budgte=9)

    asyncio.run(main())


def test_a_loop_that_is_gone_harms_nobody(engine, scene):
    async def main():
        engine.submit(scene.pixels, scene.question).__await__().send(None)  # waits, and is left

    asyncio.run(main())
    assert engine.ask(scene.pixels, scene.question).text == scene.answer
