# SPDX-License-Identifier: Apache-2.0
"""The module's arrays, and every answer worked out again from them."""

import pathlib
import re

import numpy as np
import pytest

import fovea
from fovea import cards

SCENES = 200
QUESTIONS = 40
COLUMN = {name: i for i, name in enumerate(cards.COLUMNS)}
TOKENIZERS = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/tokenizer"


@pytest.fixture(scope="module")
def scenes():
    """Small scenes, as many cards as there may be; their images are not kept."""
    made = cards.generate(1000, SCENES, width=512, height=512, cards_min=8, cards_max=36,
                          payload_min=8, payload_max=12, questions=QUESTIONS)
    return made


class Scene:
    """A scene as its array tells it."""

    def __init__(self, rows):
        self.rows = [dict(zip(cards.COLUMNS, map(int, row))) for row in rows if row[3] >= 0]
        self.by_name = {f"{cards.COLOURS[r['colour']]} {cards.SHAPES[r['shape']]}": i
                        for i, r in enumerate(self.rows)}

    def code(self, i):
        assert self.kind(i) == "code"
        return cards.ALPHABET[self.rows[i]["char1"]] + cards.ALPHABET[self.rows[i]["char2"]]

    def kind(self, i):
        return cards.KINDS[self.rows[i]["kind"]]

    def coded(self):
        return [i for i in range(len(self.rows)) if self.kind(i) == "code"]

    def named(self, text):
        """The cards a text names, in its order."""
        pattern = f"({'|'.join(cards.COLOURS)}) ({'|'.join(cards.SHAPES)})"
        return [self.by_name[f"{c} {s}"] for c, s in re.findall(pattern, text)]

    def answer(self, family, text):
        """The answer and the cards it rests on."""
        if family == "find":
            (code,) = re.findall(r"\b[A-Z2-9]{2}\b", text)
            holders = [i for i in self.coded() if self.code(i) == code]
            assert len(holders) == 1, f"{text}: {len(holders)} cards hold it"
            row = self.rows[holders[0]]
            return f"{cards.COLOURS[row['colour']]} {cards.SHAPES[row['shape']]}", self.coded()
        if family == "count":
            column = "colour" if re.search("|".join(cards.COLOURS), text) else "shape"
            names = cards.COLOURS if column == "colour" else cards.SHAPES
            (word,) = re.findall("|".join(names), text)
            return str(sum(r[column] == names.index(word) for r in self.rows)), []
        if family == "exist":
            colour, shape = re.search(f"({'|'.join(cards.COLOURS)}) ({'|'.join(cards.SHAPES)})",
                                      text).groups()
            return "yes" if f"{colour} {shape}" in self.by_name else "no", []
        named = self.named(text)
        if family == "same":
            a, b = named
            return "yes" if self.code(a) == self.code(b) else "no", named
        (card,) = named
        if family == "read":
            return self.code(card), named
        if family == "gap":
            assert self.kind(card) == "gap"
            return cards.DIRECTIONS[self.rows[card]["direction"]], named
        if family == "ticks":
            assert self.kind(card) == "ticks"
            return str(self.rows[card]["ticks"]), named
        assert family == "follow" and self.kind(card) == "arrow"
        target = self.pointed_at(card)
        assert target == self.rows[card]["target"]
        return self.code(target), [card, target]

    def pointed_at(self, arrow):
        """The first card on the line from an arrow's card, as the picture shows it."""
        own = self.rows[arrow]
        right, down = ((0, -1), (1, 0), (0, 1), (-1, 0))[own["direction"]]
        met = []
        for i, row in enumerate(self.rows):
            x, y = row["x"] - own["x"], row["y"] - own["y"]
            ahead, aside = x * right + y * down, abs(x * down) + abs(y * right)
            if ahead > 0 and aside <= own["side"] // 2:
                met.append((ahead, i))
        return min(met)[1]


def test_every_answer_follows_from_the_cards(scenes):
    asked = {name: set() for name in cards.FAMILIES}
    for n in range(SCENES):
        scene = Scene(scenes["cards"][n])
        for q in range(QUESTIONS):
            family = cards.FAMILIES[scenes["family"][n, q]]
            text, given = scenes["questions"][n][q], scenes["answers"][n][q]
            answer, evidence = scene.answer(family, text)
            assert given == answer, (n, text)
            assert scenes["evidence"][n, q] == sum(1 << i for i in evidence), (n, text)
            asked[family].add(given)
    assert asked["exist"] == asked["same"] == {"yes", "no"}
    assert asked["gap"] == set(cards.DIRECTIONS)
    assert asked["ticks"] == set("123456")
    assert {"0", "1", "2", "3", "4", "5"} <= asked["count"]


def test_families_take_turns(scenes):
    expected = np.arange(QUESTIONS) % len(cards.FAMILIES)
    assert (scenes["family"] == expected).all()
    few = cards.generate(3, 2, families=["gap", "read"], questions=3)
    names = [[cards.FAMILIES[f] for f in row] for row in few["family"]]
    assert names == [["gap", "read", "gap"]] * 2


def test_arrays_have_their_shapes(scenes):
    assert scenes["images"].shape == (SCENES, 512, 512, 3)
    assert scenes["images"].dtype == np.uint8
    assert scenes["cards"].shape == (SCENES, 48, 16) and scenes["cards"].dtype == np.int16
    assert scenes["family"].dtype == np.int8 and scenes["evidence"].dtype == np.uint64
    counts = (scenes["cards"][:, :, COLUMN["shape"]] >= 0).sum(1)
    assert counts.min() == 8 and counts.max() == 36
    for rows, count in zip(scenes["cards"], counts):
        assert (rows[count:] == -1).all()


def test_boxes_lie_in_the_picture(scenes):
    rows = scenes["cards"][scenes["cards"][:, :, COLUMN["shape"]] >= 0]
    x, y, side = rows[:, 0], rows[:, 1], rows[:, 2]
    x0, y0, x1, y1 = rows[:, 6:10].T
    assert (x >= 0).all() and (y >= 0).all() and (x + side <= 512).all() and (y + side <= 512).all()
    assert (x0 >= x).all() and (x1 <= x + side).all() and (x1 > x0).all()
    assert (y0 >= y).all() and (y1 <= y + side).all() and (y1 > y0).all()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    one = cards.generate(77, 5, threads=1)
    many = cards.generate(77, 5, threads=threads)
    for name, array in one.items():
        if isinstance(array, np.ndarray):
            assert np.array_equal(array, many[name]), name
        else:
            assert array == many[name], name


def test_a_scene_depends_on_its_seed_alone():
    several = cards.generate(40, 3)
    last = cards.generate(42, 1)
    assert np.array_equal(several["images"][2], last["images"][0])
    assert several["questions"][2] == last["questions"][0]
    assert not np.array_equal(several["images"][0], several["images"][1])


def test_images_are_filled_in_place():
    images = np.zeros((2, 512, 600, 3), np.uint8)
    made = cards.generate(5, 2, width=600, height=512, cards_min=8, cards_max=8, images=images)
    assert made["images"] is images and images.min(axis=(1, 2, 3)).max() < images.max()
    for wrong in (images[:1], images[:, :, ::2], images.astype(np.int16), images.tolist()):
        with pytest.raises(ValueError, match="images"):
            cards.generate(5, 2, width=600, height=512, images=wrong)
    images.flags.writeable = False
    with pytest.raises(ValueError, match="images"):
        cards.generate(5, 2, width=600, height=512, images=images)


def test_blank_payloads_leave_nothing_to_read():
    made = cards.generate(9, 4)
    blank = cards.generate(9, 4, blank_payloads=True)
    assert np.array_equal(made["cards"], blank["cards"])
    assert made["answers"] == blank["answers"]
    for image, rows in zip(blank["images"], blank["cards"]):
        for row in rows[rows[:, 3] >= 0]:
            x0, y0, x1, y1 = row[6:10]
            assert image[y0:y1, x0:x1].max() < 32  # black, all over the payload


def test_ids_are_the_texts():
    folder = next(p for p in sorted(TOKENIZERS.glob("**/tokenizer.json")))
    made = cards.generate(11, 3, tokenizer=folder, question_tokens=100, answer_tokens=20, texts=True)
    plain = cards.generate(11, 3)
    assert made["questions"] == plain["questions"] and made["answers"] == plain["answers"]
    known = {}
    for kind, texts in (("question", made["questions"]), ("answer", made["answers"])):
        ids, lengths = made[f"{kind}_ids"], made[f"{kind}_length"]
        assert ids.dtype == np.int32 and lengths.dtype == np.int8
        for n, row in enumerate(texts):
            for q, text in enumerate(row):
                length = lengths[n, q]
                assert length > 0 and (ids[n, q, length:] == -1).all()
                own = tuple(ids[n, q, :length])
                assert min(own) >= 0 and known.setdefault(own, text) == text
    assert "questions" not in cards.generate(11, 1, tokenizer=folder, question_tokens=100,
                                             answer_tokens=20)
    with pytest.raises(ValueError, match="question_tokens="):
        cards.generate(11, 1, tokenizer=folder, question_tokens=2, answer_tokens=20)


def test_bad_arguments_are_refused():
    for wrong in ({"width": 100}, {"height": 4096}, {"cards_min": 7}, {"cards_max": 49},
                  {"cards_min": 25}, {"payload_max": 25}, {"payload_min": 14},
                  {"families": ["spell"]}, {"families": []}, {"threads": -1}, {"questions": -1},
                  {"width": 512, "cards_max": 48, "payload_max": 24},
                  {"tokenizer": "/no/such/folder"}):
        with pytest.raises(ValueError):
            cards.generate(0, 1, **wrong)
    for wrong in ({"width": "x"}, {"families": "read"}, {"questions": 1.5}):
        with pytest.raises(TypeError):
            cards.generate(0, 1, **wrong)
    with pytest.raises(ValueError):
        cards.generate(-1, 1)
    assert cards.generate(0, 0)["images"].shape == (0, 1024, 1024, 3)


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", fovea.version())
