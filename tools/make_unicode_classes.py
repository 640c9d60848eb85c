#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/language/tokenizer/unicode_classes.inc: the classes of characters as the `tokenizers`
package sees them. Its parts follow different versions of Unicode (its patterns a recent one, its
normaliser version 9), so every code point is tried in the package itself."""
import argparse
import pathlib
import textwrap

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matching(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return {c for c in CODE_POINTS if not split.pre_tokenize_str(chr(c))}


def word_characters():
    """A single_word token is not found where a word character touches it."""
    tokenizer = Tokenizer(models.BPE(vocab={}, merges=[]))
    tokenizer.add_tokens([AddedToken("[]", single_word=True, normalized=False)])
    return {c for c in CODE_POINTS if not tokenizer.encode("[]" + chr(c)).ids}


def nfc_active():
    """What NFC may change, alone or after another character; everything else stays as it is."""
    nfc, nfd = normalizers.NFC(), normalizers.NFD()
    active = set()
    for c in CODE_POINTS:
        decomposed = nfd.normalize_str(chr(c))
        active.update(ord(part) for part in decomposed[1:])
        # Beside the two ends of the canonical order, classes 1 and 240, a mark of any class moves.
        moves = [f"q{chr(c)}\u0334", f"q\u0345{chr(c)}"] if decomposed == chr(c) else []
        if nfc.normalize_str(chr(c)) != chr(c) or any(nfd.normalize_str(move) != move for move in moves):
            active.add(c)
    return active


def ranges(members):
    found = []
    for c in sorted(members):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "src/language/tokenizer/unicode_classes.inc"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default=default, type=pathlib.Path)
    output = parser.parse_args().output
    letters, words = matching(r"\p{L}"), word_characters()
    assert letters <= words
    classes = {"kLetters": letters, "kNumbers": matching(r"\p{N}"), "kSpaces": matching(r"\s"),
               "kOtherWordCharacters": words - letters, "kNfcActiveRanges": nfc_active()}
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             f"// Made by tools/make_unicode_classes.py from tokenizers {tokenizers.__version__}.",
             "// clang-format off"]
    for name, members in classes.items():
        items = [f"{{{first:#x},{last:#x}}}," for first, last in ranges(members)]
        lines.append(f"constexpr Range {name}[] = {{")
        lines += textwrap.wrap(" ".join(items), 99)
        lines[-1] = lines[-1].rstrip(",") + "};"
    lines.append("// clang-format on")
    output.write_text("\n".join(lines) + "\n")
    print(f"{output}: " + ", ".join(f"{name[1:]} {len(ranges(m))} ranges" for name, m in classes.items()))


if __name__ == "__main__":
    main()
