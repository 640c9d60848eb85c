#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `fovea tokenize` with the `tokenizers` package: ids of many strings, texts of many lists
of ids, and the speed of both on long text, on one thread.

  tools/compare_tokenizer.py ../shared/qwen3 --count 20000"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
from pydoc_data import topics

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
# First and last code points of blocks, so that letters of many scripts stand beside one another.
SCRIPTS = [(0x41, 0x7A), (0xC0, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F),
           (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x74F), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F),
           (0xB80, 0xBFF), (0xC00, 0xC7F), (0xD00, 0xD7F), (0xE00, 0xE7F), (0xE80, 0xEFF), (0xF00, 0xFFF),
           (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF),
           (0x1780, 0x17FF), (0x1800, 0x18AF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2C00, 0x2C5F),
           (0x3040, 0x30FF), (0x3100, 0x312F), (0x4E00, 0x9FFF), (0xA000, 0xA48F), (0xAC00, 0xD7A3),
           (0xFB00, 0xFB4F), (0xFF00, 0xFFEF), (0x10330, 0x1034F), (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF)]
MARKS = [(0x300, 0x36F), (0x591, 0x5BD), (0x64B, 0x65F), (0x93C, 0x94D), (0xE31, 0xE4E), (0x1AB0, 0x1ACE),
         (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x3099, 0x309A), (0xFE20, 0xFE2F), (0x1E8D0, 0x1E8D6)]
SPACES = " \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
NUMBERS = "0123456789²½Ⅷ①٣४๕〇㊀𝟘\U0001f10a"
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇺🇳🇯🇵", "❤️", "1️⃣", "🧑🏿‍🚀", "☺", "\ufe0f", "\u200d"]
ENDINGS = ["'s", "'T", "'re", "'VE", "'m", "'Ll", "'d", "'ſ", "’s", "'x", "''", "'RE'", "'l", "'v"]
CODE = ["def f(x):\n\treturn x**2\n", "for(int i=0;i<n;++i){a[i]=0;}\r\n", "<div class=\"a\">&nbsp;</div>",
        "SELECT * FROM t WHERE a='b';", "https://example.org/a?b=c&d=%20e#f", "x = {'k': [1, 2.5e-3]}\n\n\n",
        "#include <vector>\n", "\\frac{a}{b}", "    if a:\n        b()\n", "// -----\n/* **** */", "a_b__c.d->e::f"]
WORDS = ("the quick brown fox jumps over a lazy dog internationalization don't they'll we've I'M naïve café "
         "Straße résumé über señor Привет мир как дела γειά σου κόσμε 你好世界 今天天气很好 こんにちは カタカナ "
         "안녕하세요 세계 مرحبا بالعالم שלום עולם नमस्ते दुनिया வணக்கம் สวัสดีชาวโลก ខ្មែរ").split(" ")


def char_of(rng, ranges):
    first, last = rng.choice(ranges)
    return chr(rng.randint(first, last))


def any_char(rng):
    c = rng.randrange(0x110000 - 0x800)
    return chr(c if c < 0xD800 else c + 0x800)


def some(rng, low, high, make):
    return "".join(make() for _ in range(rng.randint(low, high)))


def piece(rng, tokens):
    """One stretch of one kind."""
    makers = [
        lambda: " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 8))),
        lambda: some(rng, 1, 12, lambda: char_of(rng, SCRIPTS)),
        lambda: some(rng, 1, 6, lambda: char_of(rng, SCRIPTS) + some(rng, 0, 4, lambda: char_of(rng, MARKS))),
        lambda: some(rng, 1, 8, lambda: rng.choice(SPACES)),
        lambda: rng.choice(" \n\t") * rng.randint(1, 40),
        lambda: some(rng, 1, 10, lambda: rng.choice(NUMBERS)),
        lambda: some(rng, 1, 4, lambda: rng.choice(EMOJI)),
        lambda: rng.choice(["it", "IT", "é", "", " "]) + rng.choice(ENDINGS),
        lambda: rng.choice(CODE),
        lambda: rng.choice(tokens),
        lambda: rng.choice(tokens)[: rng.randint(1, 8)],
        lambda: some(rng, 1, 12, lambda: chr(rng.randrange(0x21, 0x7F))),
        lambda: some(rng, 1, 12, lambda: rng.choice("!?.,;:-—…«»“”()[]{}#@$€%&*+=/\\|~^`_")),
        lambda: rng.randbytes(rng.randint(1, 24)).decode("utf-8", errors="replace"),
        lambda: some(rng, 1, 6, lambda: any_char(rng)),
        lambda: rng.choice(["\r\n", "\n\n", " \n", "\n ", "\r", "\t\n", "\u2028\n"]) * rng.randint(1, 3),
        lambda: some(rng, 1, 5, lambda: chr(rng.randint(0x1100, 0x11FF))),
    ]
    return rng.choice(makers)()


def strings(rng, count, tokens):
    yield ""
    for i in range(1, count):
        if i % 400 == 0:  # very long words
            yield rng.choice(["a", "ab", "é", "字", " ", "1", "\u0301", "x\u0301", "aÀ", "!?"]) * rng.randint(100, 3000)
        elif i % 7 == 0:
            yield piece(rng, tokens)
        else:
            yield some(rng, 1, 8, lambda: piece(rng, tokens))


def run(program, folder, flags, lines):
    command = [program, "tokenize", "--model", str(folder), *flags]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n"
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    ms = float(re.search(r"in ([0-9.]+) ms", done.stderr.decode()).group(1))
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]], ms


def report(what, inputs, theirs, ours):
    equal = sum(a == b for a, b in zip(theirs, ours, strict=True))
    print(f"{what}: {equal} of {len(theirs)} equal")
    wrong = [(i, a, b) for i, a, b in zip(inputs, theirs, ours) if a != b]
    for given, expected, found in wrong[:3]:
        print(f"  {given!r:.300}\n    tokenizers {expected!r:.300}\n    fovea      {found!r:.300}")
    return not wrong


def odd_texts():
    """The shortest texts, and the longest words there could be."""
    shortest = ["", *"aZ5 \t\n'.é字😀\u0301\u0000\ufffd\u00a0"]
    return shortest + [one * (1_000_000 // len(one.encode())) for one in ("a", " ", "\n", "é", "字", "!", "7", "aB")]


def long_texts(rng):
    """Half a megabyte or more each: English, code, and words of many scripts."""
    english = "\n\n".join(topics.topics[name] for name in sorted(topics.topics))  # Python's manual
    files = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
    code = "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)[:3_000_000]
    scripts = " ".join(rng.choice(WORDS) + rng.choice(["", "", "", ",", ".", "?", ".\n"]) for _ in range(150_000))
    return {"English prose": english, "code": code, "words of many scripts": scripts}


def speed(program, folder, tokenizer, rng, goal):
    good = True
    for name, text in long_texts(rng).items():
        size = len(text.encode())
        seconds, runs = [], []
        for _ in range(5):
            start = time.process_time()  # not what others on the machine take
            theirs = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]  # its fastest way
            seconds.append(time.process_time() - start)
            runs.append(run(program, folder, [], [text]))
        ours_s = min(ms for _, ms in runs) / 1000
        equal = runs[0][0][0] == theirs.ids
        ratio = min(seconds) / ours_s
        print(f"{name}, {size / 1e6:.1f} MB: tokenizers {size / min(seconds) / 1e6:.1f} MB/s, "
              f"fovea {size / ours_s / 1e6:.1f} MB/s, {ratio:.1f}x, ids {'equal' if equal else 'DIFFER'}")
        good = good and equal and ratio >= goal
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path, help="folder with tokenizer.json")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/fovea"))
    parser.add_argument("--speed", type=float, default=5, help="fail below this ratio; 0 skips the timing")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    rng = random.Random(args.seed)
    added = list(tokenizer.get_added_tokens_decoder().values())
    texts = list(strings(rng, args.count, [token.content for token in added] or ["<|none|>"]))
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    good = report("texts to ids", texts, ids, run(args.program, args.tokenizer, [], texts)[0])

    odd = odd_texts()
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in odd]
    good &= report("odd texts to ids", odd, expected, run(args.program, args.tokenizer, [], odd)[0])

    tokenizer.encode_special_tokens = True
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts[:2000]]
    tokenizer.encode_special_tokens = False
    good &= report("texts to ids, special tokens as text", texts, plain,
                   run(args.program, args.tokenizer, ["--plain"], texts[:2000])[0])

    size = tokenizer.get_vocab_size()
    lists = ids[:5000] + [[rng.randrange(size + 100) for _ in range(rng.randint(0, 12))] for _ in range(5000)]
    for skip in (False, True):
        expected = [tokenizer.decode(one, skip_special_tokens=skip) for one in lists]
        found, _ = run(args.program, args.tokenizer, ["--decode"] + ["--skip-special"] * skip, lists)
        good &= report(f"ids to texts{', without special tokens' * skip}", lists, expected, found)
    if args.speed:
        good &= speed(args.program, args.tokenizer, tokenizer, rng, args.speed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
