# SPDX-License-Identifier: Apache-2.0
"""A browser, the program's server, and a page that waits for what is on its way."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
QUESTION = "Which code does the cyan cross carry?"  # of the scene
ANSWER = "9V"
ANSWER_CELL = (14, 9)  # row and column of the level-0 cell where it stands
PATIENCE = 120  # seconds; the machine may have other work


def pytest_addoption(parser):
    parser.addoption("--program", default="build/release/bin/fovea", help="the program to test")


@pytest.fixture(scope="session")
def program(request):
    return request.config.getoption("--program")


@pytest.fixture(scope="session")
def scene(program, tmp_path_factory):
    """A picture of 512 x 512 that the embedded model knows how to read."""
    folder = tmp_path_factory.mktemp("cards")
    subprocess.run([program, "cards", "-q", "--seed", "9", "--count", "1", "--size", "512", "--cards", "10",
                    "--families", "read", "--questions", "1", "-o", folder], check=True, capture_output=True)
    made = json.loads((folder / "questions.jsonl").read_text())
    assert QUESTION in made["conversations"][0]["value"] and made["conversations"][1]["value"] == ANSWER
    left, top, right, bottom = made["evidence"][0]
    assert ((top + bottom) // 64, (left + right) // 64) == ANSWER_CELL
    return folder / "images/000000.png"


class Served:
    """The program while it serves on a free port."""

    def __init__(self, program, key=""):
        env = {**os.environ, "FOVEA_API_KEY": key} if key else dict(os.environ)
        self.process = subprocess.Popen([program, "serve", "-q", "--port", "0", "--log", "off"],
                                        text=True, stdout=subprocess.PIPE, env=env)
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.url = line.removeprefix("listening on ").strip() + "/"

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


@pytest.fixture(scope="session")
def served(program):
    served = Served(program)
    yield served
    served.end()


# Pixels are read from a copy: chromium warns of canvases that are read often.
COPY_OF = """
  const copyOf = (canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    return context.getImageData(0, 0, copy.width, copy.height);
  };
"""


class Browser:
    """A page in chromium. What it logs is looked at when a test ends."""

    def __init__(self, downloads):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--window-size=1400,1000"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.downloads = downloads
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def open(self, url, width=1400, height=1000):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.get(url)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.one(selector).text

    def run(self, script, *values):
        return self.driver.execute_script(COPY_OF + script, *values)

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"waited {PATIENCE} s for: {what}; error: {self.text('#error')!r}")

    def settled(self):
        """Waits until nothing is being asked."""
        self.until("the end of the answer", lambda: not self.one("#ask-form").get_attribute("aria-busy"))
        assert self.text("#error") == ""

    def choose(self, path):
        self.one("#file").send_keys(str(path))
        self.until("the picture", lambda: self.one("#thumb").is_displayed())

    def ask(self, question=QUESTION):
        box = self.one("#question-0")
        box.clear()
        box.send_keys(question)
        self.one("#ask").click()
        self.until("an answer", lambda: self.all(".figures dd"))
        self.settled()

    def pixels(self, selector="canvas"):
        """The picture of a canvas, as a text that differs where a pixel does."""
        return self.run("return document.querySelector(arguments[0]).toDataURL()", selector)

    def count_colour(self, colour, selector="canvas"):
        return self.run("""
          const canvas = document.querySelector(arguments[0]);
          const data = copyOf(canvas).data;
          const [r, g, b] = arguments[1];
          let count = 0;
          for (let i = 0; i < data.length; i += 4)
            if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12) ++count;
          return count;""", selector, colour)

    def hover(self, target, dx=0, dy=0):
        from selenium.webdriver import ActionChains
        ActionChains(self.driver, duration=0).move_to_element_with_offset(target, dx, dy).perform()

    def visual_tokens(self, selector=".figures dd"):
        return int(self.text(selector).split()[0].replace(",", ""))

    def complaints(self):
        """What the console holds beside the statuses that a test provoked."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] != "INFO"]


@pytest.fixture(scope="session")
def browser_process(tmp_path_factory):
    pytest.importorskip("selenium")
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        pytest.skip("no chromium or no chromedriver; tools/install page brings them")
    browser = Browser(tmp_path_factory.mktemp("downloads"))
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(browser_process):
    browser_process.complaints()  # those of the test before
    yield browser_process
    assert browser_process.complaints() == []


@pytest.fixture(scope="session")
def trace(program, scene, tmp_path_factory):
    """What `fovea ask` says of the scene, its picture with it."""
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    subprocess.run([program, "ask", scene, QUESTION, "-q", "--trace", path, "--trace-picture"],
                   check=True, capture_output=True)
    return json.loads(path.read_text())
