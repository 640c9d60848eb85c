#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of docs/page.md with the browser of the page's tests:
.venv-test/bin/python tools/page_screenshots.py [--program build/release/bin/fovea]"""

import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/page"))
from conftest import Browser, Served  # noqa: E402

QUESTION = "Which code does the yellow cross carry?"  # of the scene of ./demo
SECOND = "Follow the arrow on the white cross and read the code there."


def read_png(data):
    """Pixels of a PNG as chromium writes it: 8 bits, RGB or RGBA, not interlaced."""
    width, height, _, kind = struct.unpack(">IIBB", data[16:26])
    channels = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        if name == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += length + 12
    rows = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(height, width * channels + 1)
    above = numpy.zeros(width * channels, numpy.int64)
    pixels = numpy.empty((height, width * channels), numpy.uint8)
    for y, row in enumerate(rows):
        pixels[y] = above = undo_filter(row[0], row[1:].astype(numpy.int64), above, channels)
    return pixels.reshape(height, width, channels)[..., :3]


def undo_filter(kind, row, above, channels):
    if kind in (0, 2):
        return (row + (above if kind == 2 else 0)) & 255
    for x in range(len(row)):
        left = row[x - channels] if x >= channels else 0
        corner = above[x - channels] if x >= channels else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + above[x]) // 2
        else:
            near = left + above[x] - corner
            guess = min((left, above[x], corner), key=lambda value: abs(near - value))
        row[x] = (row[x] + guess) & 255
    return row


def palette_of(pixels, exact=40, colours=256):
    """Those of the page itself, which are the most frequent, as they are; the rest by median cut:
    the box with the widest spread is halved until there are enough."""
    all_colours, counts = numpy.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    order = numpy.argsort(-counts)
    own = all_colours[order[:exact]]
    boxes = [all_colours[order[exact:]].astype(numpy.int32)]
    while len(boxes) < colours - exact:
        spreads = [numpy.ptp(box, axis=0).max() * len(box) ** 0.3 if len(box) > 1 else -1 for box in boxes]
        box = boxes.pop(int(numpy.argmax(spreads)))
        axis = int(numpy.argmax(numpy.ptp(box, axis=0)))
        box = box[numpy.argsort(box[:, axis], kind="stable")]
        boxes += [box[:len(box) // 2], box[len(box) // 2:]]
    return numpy.concatenate([own, numpy.array([box.mean(axis=0).round() for box in boxes], numpy.uint8)])


def write_png(path, pixels):
    """With a palette of 256 colours: a third of the bytes."""
    palette = palette_of(pixels)
    known, index = numpy.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    nearest = numpy.concatenate([
        ((part[:, None].astype(numpy.int32) - palette.astype(numpy.int32)) ** 2).sum(-1).argmin(-1)
        for part in numpy.array_split(known, max(1, len(known) // 4096))]).astype(numpy.uint8)
    height, width = pixels.shape[:2]
    rows = numpy.zeros((height, width + 1), numpy.uint8)
    rows[:, 1:] = nearest[index].reshape(height, width)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)), (b"PLTE", palette.tobytes()),
             (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts))


def take(browser, name):
    path = ROOT / "docs" / name
    write_png(path, read_png(browser.driver.get_screenshot_as_png()))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/fovea"))
    program = parser.parse_args().program
    folder = pathlib.Path(tempfile.mkdtemp())
    subprocess.run([program, "cards", "-q", "--seed", "7", "--count", "1", "-o", folder], check=True,
                   stdout=subprocess.DEVNULL)
    served = Served(program)
    browser = Browser(folder)
    browser.open(served.url, 1260, 800)
    browser.choose(folder / "images/000000.png")
    browser.one("#compare").click()
    browser.ask(QUESTION)
    browser.hover(browser.one("header"))
    take(browser, "page.png")
    browser.hover(browser.one(".word"))
    take(browser, "page-word.png")
    browser.one("#compare").click()
    browser.one("#two").click()
    browser.one("#question-1").send_keys(SECOND)
    browser.one("#ask").click()
    browser.until("two answers", lambda: len(browser.all(".figures dd")) == 8)
    browser.settled()
    take(browser, "page-two.png")
    browser.driver.quit()
    served.end()


main()
