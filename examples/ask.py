# SPDX-License-Identifier: Apache-2.0
"""Asks about a picture in every way there is, and shows where the model looked: ask.py PICTURE [MODEL]"""

import asyncio
import sys

import fovea


async def side_by_side(engine: fovea.Engine, picture: str, questions: list[str]) -> None:
    """Questions that are answered at once; cancelling this task would end all of them."""
    answers = await asyncio.gather(*(engine.aask(picture, question) for question in questions))
    for question, answer in zip(questions, answers):
        print(f"{question} {answer.text}")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: ask.py PICTURE [MODEL]")
    picture = sys.argv[1]
    engine = fovea.Engine(*sys.argv[2:])
    questions = ["Which code is on the red star?", "How many of the cards are stars?"]

    answer = engine.ask(picture, questions[0], budget=96, looks=2)
    print(f"{questions[0]} {answer.text} ({answer.confidence:.0%} sure, {answer.finish})")
    print(f"  {answer.usage.image_tokens} visual tokens of {answer.usage.image_tokens_full}")
    for look in answer.looks:
        fine = look.cells[look.glance_tokens:]  # [n, 3]: level, row, column
        print(f"  {look.glance_tokens} cells of glance, {len(fine)} of looks; relevance of each cell: "
              f"{look.relevance.shape}, {look.relevance.dtype}")
        for saccade in look.saccades:
            x, y = saccade.fixations[0]
            print(f"  looked at {x:.0f},{y:.0f}")

    session = engine.session(picture)  # a further question costs what is new
    for question in questions:
        print(question, end=" ")
        stream = session.stream(question)
        for piece in stream:
            print(piece, end="", flush=True)
        print(f" ({stream.answer.usage.kept_tokens} tokens of the prompt were kept)")

    asyncio.run(side_by_side(engine, picture, questions))

    patches = fovea.patches(picture, budget=96)  # for an encoder of your own
    print(f"patches {patches.values.shape}, positions {patches.positions.shape}, levels {patches.levels.shape}")


if __name__ == "__main__":
    main()
