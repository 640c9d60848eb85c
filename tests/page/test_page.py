# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, with the program behind it: tools/test_page, or
pytest tests/page --program PATH"""

import base64
import json
import subprocess

import pytest
from conftest import ANSWER, ANSWER_CELL, QUESTION, Served

YELLOW = [0xfa, 0xe9, 0x1d]  # level 0
LEVELS = [YELLOW, [0xff, 0x8b, 0x26], [0xf5, 0x3d, 0x75], [0xba, 0x4d, 0xd9]]


@pytest.fixture
def asked(browser, served, scene):
    """The page with an answer about the scene."""
    browser.open(served.url)
    browser.choose(scene)
    before = browser.count_colour(YELLOW)
    browser.ask()
    browser.before = before
    return browser


def test_a_question_is_answered_and_its_cells_are_drawn(asked):
    assert asked.text(".answer") == ANSWER
    assert asked.text(".panel h2") == QUESTION
    assert 64 < asked.visual_tokens() <= 96
    assert "of 256" in asked.text(".figures dd")
    assert asked.count_colour(YELLOW) > asked.before + 500, "lines of level-0 cells"
    assert sum(asked.count_colour(colour) > 500 for colour in LEVELS) >= 2, "coarse cells too"
    with_cells = asked.pixels()
    asked.one(".cells").click()
    assert asked.count_colour(YELLOW) < asked.before + 500
    assert asked.pixels() != with_cells
    assert "1. " in asked.text(".saccades") and "% sure" in asked.text(".saccades")
    assert "level 0 · 32 px" in asked.text(".legend")


def test_the_maps_the_path_and_what_was_seen_are_drawn(asked):
    shown = {asked.pixels()}
    for view in ("seen", "information", "salience", "coupling", "relevance", "attention"):
        asked.one(f".show option[value={view}]").click()
        shown.add(asked.pixels())
    assert len(shown) >= 6, "each differs, but relevance is coupling where the model has a gaze head"
    with_path = asked.pixels()
    asked.one(".path").click()
    assert asked.pixels() != with_path
    asked.one(".times summary").click()
    assert "first token" in asked.text(".times") and "ms" in asked.text(".times")


def test_a_word_shows_what_it_attended_to(asked):
    plain = asked.pixels()
    asked.hover(asked.one(".word"))
    assert "of its attention to the picture" in asked.text(".attended")
    # The cell where the code stands is the hottest, and outlined.
    size = asked.run("return document.querySelector('canvas').clientHeight")
    assert asked.pixels() != plain
    hottest = asked.run("""
      const canvas = document.querySelector("canvas");
      const data = copyOf(canvas).data;
      let at = [];
      for (let i = 0; i < data.length; i += 4)
        if (data[i] === 0xf9 && data[i + 1] === 0xf2 && data[i + 2] === 0xab)
          at.push([i / 4 % canvas.width, Math.floor(i / 4 / canvas.width)]);
      return [at.reduce((sum, [x]) => sum + x, 0) / at.length - (canvas.width - canvas.height) / 2,
              at.reduce((sum, [, y]) => sum + y, 0) / at.length, at.length];""")
    assert hottest[2] > 20
    row, col = ANSWER_CELL
    assert abs(hottest[0] / size * 16 - col - 0.5) < 1 and abs(hottest[1] / size * 16 - row - 0.5) < 1, hottest
    asked.hover(asked.one("header"))
    assert asked.pixels() == plain


def test_a_cell_tells_its_share(asked):
    asked.hover(asked.one("canvas"), 3, 3)
    told = asked.text(".readout")
    assert "level" in told and "of the question’s attention" in told, told
    asked.hover(asked.one("header"))
    assert "Point at a cell" in asked.text(".readout")


def set_budget(browser, index):
    browser.run("""
      const slider = document.getElementById("budget");
      slider.value = arguments[0];
      slider.dispatchEvent(new Event("input"));
      slider.dispatchEvent(new Event("change"));""", index)
    browser.settled()


def test_the_slider_asks_with_another_budget(asked):
    at_96 = asked.visual_tokens()
    set_budget(asked, 1)
    assert asked.text("#budget-text") == "24 tokens"
    assert asked.visual_tokens() <= 24 < at_96


def test_zoom_stays_where_the_same_picture_is_asked_again(asked):
    whole = asked.pixels()
    asked.one(".in").click()
    asked.one("#ask").click()
    asked.settled()
    asked.hover(asked.one("header"))
    zoomed = asked.pixels()
    asked.one(".fit").click()
    asked.hover(asked.one("header"))
    assert asked.pixels() == whole != zoomed


def test_further_looks_are_told_in_their_order(asked):
    asked.run("""
      const looks = document.getElementById("looks");
      looks.value = "3";
      document.getElementById("question-0").value = "Is there a purple ring?";
      looks.dispatchEvent(new Event("change"));""")
    asked.settled()
    told = [item.text for item in asked.all(".saccades li")]
    assert 1 <= len(told) <= 3
    assert all(text.startswith(f"{i + 1}. ") and "sure" in text for i, text in enumerate(told))
    plain = asked.pixels()
    asked.hover(asked.one(".saccades button"))
    assert asked.pixels() != plain, "its cells stand out"


def test_uniform_and_full_stand_beside_it(browser, served, scene):
    browser.open(served.url)
    browser.choose(scene)
    browser.one("#compare").click()
    browser.ask()
    rows = [row.text for row in browser.all(".comparison tbody tr")]
    assert len(rows) == 3 and ANSWER in rows[0]
    assert rows[1].startswith("uniform") and rows[2].startswith("full 256")
    browser.all(".comparison button")[2].click()
    assert browser.text(".figures dd") == "256 of 256"
    assert len(browser.all(".legend li")) == 1, "level 0 alone"


def test_a_fixation_that_is_dragged_is_looked_at(asked):
    from selenium.webdriver import ActionChains
    canvas = asked.one("canvas")
    at = asked.run("""
      const canvas = document.querySelector("canvas").getBoundingClientRect();
      return [canvas.width, canvas.height];""")
    # A place of its own first: a double click in the lower right looks there.
    chain = ActionChains(asked.driver, duration=0)
    chain.move_to_element_with_offset(canvas, at[1] * 0.3, at[1] * 0.3).double_click().perform()
    asked.settled()
    assert asked.one("#forget").is_displayed()
    there = asked.pixels()
    chain = ActionChains(asked.driver, duration=50)
    chain.move_to_element_with_offset(canvas, at[1] * 0.3, at[1] * 0.3).click_and_hold()
    chain.move_by_offset(-200, -150).release().perform()
    asked.settled()
    asked.hover(asked.one("header"))
    assert asked.pixels() != there
    asked.hover(canvas, at[1] * 0.3 - 200, at[1] * 0.3 - 150)
    assert "level 0" in asked.text(".readout"), "fine cells stand where it was dropped"
    asked.one("#forget").click()
    asked.settled()
    assert asked.text(".answer") == ANSWER


def test_two_questions_stand_side_by_side(asked):
    asked.one("#two").click()
    asked.one("#question-1").send_keys("How many of the cards are crosses?")
    asked.one("#ask").click()
    asked.until("two answers", lambda: len(asked.all(".figures")) == 2 and
                len(asked.all(".figures dd")) == 8)
    asked.settled()
    first, second = asked.all(".panel")
    assert first.rect["y"] == second.rect["y"] and first.rect["x"] < second.rect["x"]
    assert [panel.find_element("css selector", ".answer").text for panel in (first, second)][0] == ANSWER
    assert asked.pixels(".panel:nth-child(1) canvas") != asked.pixels(".panel:nth-child(2) canvas")


def test_the_trace_is_downloaded_and_dropped_back(asked, program, tmp_path):
    asked.one(".download").click()
    path = asked.downloads / "fovea-trace.json"
    asked.until("the file", path.exists)
    asked.until("all of it", lambda: path.read_text().endswith("}"))
    trace = json.loads(path.read_text())
    assert trace["text"] == ANSWER and trace["looks"][0]["picture"].startswith("data:image/png;base64,")
    made = subprocess.run([program, "view", path, "-o", tmp_path / "page.html"], capture_output=True)
    assert made.returncode == 0, made.stderr
    drawn = asked.pixels()
    drop(asked, "trace.json", "application/json", path.read_bytes())
    asked.until("the same picture", lambda: asked.pixels() == drawn)
    path.unlink()


def drop(browser, name, kind, content):
    browser.run("""
      const [name, type, text] = arguments;
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], name, { type }));
      for (const event of ["dragover", "drop"])
        document.body.dispatchEvent(new DragEvent(event, { bubbles: true, cancelable: true, dataTransfer: data }));
      """, name, kind, base64.b64encode(content).decode())


def test_a_picture_may_be_dropped(browser, served, scene):
    browser.open(served.url)
    drop(browser, "scene.png", "image/png", scene.read_bytes())
    browser.until("the picture", lambda: browser.one("#thumb").is_displayed())
    browser.ask()
    assert browser.text(".answer") == ANSWER


def test_the_keyboard_alone_is_enough(browser, served, scene):
    from selenium.webdriver import ActionChains, Keys
    browser.open(served.url)
    browser.choose(scene)  # a file dialog is the system's
    keys = lambda *all: ActionChains(browser.driver).send_keys(*all).perform()  # noqa: E731
    keys(QUESTION, Keys.ENTER)  # the question has the focus now
    browser.until("an answer", lambda: browser.all(".figures dd"))
    browser.settled()
    reached = []
    for _ in range(30):
        keys(Keys.TAB)
        reached.append(browser.run("return document.activeElement.className || document.activeElement.id || document.activeElement.tagName"))
        if "word" in reached[-1]:
            break
        if reached[-1] == "CANVAS" and not browser.text(".readout").startswith("level"):
            keys(Keys.ARROW_LEFT, Keys.ARROW_UP)
            assert "level" in browser.text(".readout")
            zoomed = browser.pixels()
            keys("+")
            assert browser.pixels() != zoomed
            keys("0")
    assert "budget" in reached and "show" in reached and "CANVAS" in reached, reached
    assert "of its attention" in browser.text(".attended")
    browser.run("document.querySelector('canvas').focus()")
    keys(Keys.ARROW_DOWN, Keys.ENTER)
    browser.until("a look there", lambda: browser.one("#forget").is_displayed())
    browser.settled()


def test_pan_and_zoom_show_another_part(asked):
    from selenium.webdriver import ActionChains
    whole = asked.pixels()
    asked.one(".in").click()
    zoomed = asked.pixels()
    ActionChains(asked.driver, duration=50).move_to_element_with_offset(asked.one("canvas"), 200, 200) \
        .click_and_hold().move_by_offset(-60, -60).release().perform()
    asked.hover(asked.one("header"))
    assert len({whole, zoomed, asked.pixels()}) == 3
    asked.one(".fit").click()
    asked.hover(asked.one("header"))
    assert asked.pixels() == whole


def test_a_narrow_screen_has_no_horizontal_scroll(browser, served, scene):
    browser.open(served.url, width=360, height=740)
    browser.choose(scene)
    browser.one("#compare").click()
    browser.ask(QUESTION.replace("?", ", ") + "and " * 30 + "x" * 80 + "?")
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide <= 360
    outside = browser.run("""return [...document.querySelectorAll("main *")].filter((one) => {
      const box = one.getBoundingClientRect();
      return box.width > 0 && box.right > 361; }).map((one) => one.tagName + "." + one.className)""")
    assert outside == []


def contrast(browser, selector):
    return browser.run("""
      const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map((v) => v / 255)
          .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const clear = /rgba\\(.*, 0\\)/;
      return [...document.querySelectorAll(arguments[0])].filter((one) => one.offsetWidth > 0 && one.textContent.trim()).map((one) => {
        let behind = one;
        while (behind && clear.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
        const a = light(getComputedStyle(one).color);
        const b = light(getComputedStyle(behind ?? document.documentElement).backgroundColor);
        return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.tagName + "." + one.className + "#" + one.id];
      }).filter(([ratio]) => ratio < 4.5);""", selector)


def test_all_text_has_contrast(asked):
    assert contrast(asked, "body *:not(script):not(style)") == []


def test_what_the_server_says_is_wrong_is_told_in_words(browser, served, tmp_path, scene):
    browser.open(served.url)
    browser.one("#ask").click()
    assert browser.text("#error") == "Choose a picture first."
    drop(browser, "notes.txt", "text/plain", b"hello")
    browser.until("an error", lambda: "no picture that can be read" in browser.text("#error"))
    browser.choose(scene)
    browser.one("#ask").click()
    assert browser.text("#error") == "Write a question first."
    browser.ask()
    browser.run("document.getElementById('question-0').value = 'why '.repeat(5000)")
    browser.one("#ask").click()
    browser.until("an error", lambda: "context" in browser.text("#error"))
    browser.until("what was there before", lambda: browser.text(".panel h2") == QUESTION)
    assert browser.text(".answer") == ANSWER, "with its own question and figures"
    assert "400" in browser.complaints()[0], "of the question that was refused"


def test_a_long_question_leaves_room_for_its_answer(browser, served, scene):
    browser.open(served.url)
    browser.choose(scene)
    browser.run("document.getElementById('question-0').value = 'why '.repeat(600)")
    browser.one("#ask").click()
    browser.until("an answer", lambda: browser.all(".figures dd"))
    browser.settled()
    assert browser.one("canvas").rect["y"] < 400


def test_the_embedded_model_says_what_it_knows(browser, served):
    browser.open(served.url)
    browser.until("the model's name", lambda: browser.text("#model") == "tiny")
    assert "fovea cards" in browser.text("#knows")


def test_a_key_is_asked_for_and_sent(browser, program, scene):
    served = Served(program, key="open-sesame")
    try:
        browser.open(served.url)
        browser.until("the question for a key", lambda: browser.one("#key-form").is_displayed())
        assert all("401" in line for line in browser.complaints())
        browser.one("#key").send_keys("open-sesame")
        browser.one("#key-form button").click()
        browser.until("the model's name", lambda: browser.text("#model") == "tiny")
        assert not browser.one("#key-form").is_displayed()
        browser.choose(scene)
        browser.ask()
        assert browser.text(".answer") == ANSWER
    finally:
        served.end()


def view(program, trace, path):
    (path / "trace.json").write_text(json.dumps(trace))
    page = path / "page.html"
    subprocess.run([program, "view", path / "trace.json", "-o", page], check=True)
    return page.as_uri()


def test_the_file_of_view_opens_alone(browser, program, trace, tmp_path):
    browser.open(view(program, trace, tmp_path))
    assert browser.text(".answer") == ANSWER and browser.text(".panel h2") == QUESTION
    assert not browser.one("#ask-form").is_displayed()
    browser.until("cells over the picture", lambda: browser.count_colour(YELLOW) > 2000)
    plain = browser.pixels()
    browser.hover(browser.one(".word"))
    assert browser.pixels() != plain
    browser.hover(browser.one("header"))
    browser.one(".show option[value=relevance]").click()
    assert browser.pixels() != plain


HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'><!-- \u2028"


def test_a_hostile_trace_runs_nothing(browser, program, trace, tmp_path):
    hostile = json.loads(json.dumps(trace))
    for key in ("text", "question", "finish", "prompt"):
        hostile[key] = HOSTILE
    hostile["times_ms"][HOSTILE] = 1
    look = hostile["looks"][0]
    look["plan"] = look["look"] = HOSTILE
    look["picture"] = "data:image/svg+xml;base64," + base64.b64encode(
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.broken = 3'/>").decode()
    look["saccades"][0]["confidence"] = HOSTILE
    look["maps"]["relevance"] = [[HOSTILE]]
    look["attention"] = [HOSTILE] * len(look["cells"])
    hostile["answer_attention"] = [{"token": HOSTILE, "bytes": list(HOSTILE.encode()), "looks": [7]}]
    hostile["__proto__"] = {"broken": 4}
    browser.open(view(program, hostile, tmp_path))
    assert browser.text(".panel h2").startswith("</script>"), "shown as the text it is"
    assert browser.run("return window.broken") is None
    assert browser.run("return document.scripts.length") == 2
    assert browser.all("main img:not(#thumb)") == []


def test_what_was_built_in_cannot_be_added_to(browser, served):
    """The policy of the page, not only its care, keeps scripts out."""
    browser.open(served.url)
    browser.run("""
      const script = document.createElement("script");
      try { script.text = "window.broken = 5"; document.body.append(script); } catch { /* refused */ }
      try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.broken = 6'>"); }
      catch { /* refused */ }""")
    assert browser.run("return window.broken") is None
    browser.complaints()  # the refusals
