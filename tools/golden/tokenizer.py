#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/tokenizer: a small tokenizer like Qwen's, trained on a few words of many
languages, and what the `tokenizers` package makes of strings with it and with variants of it. With
--qwen DIR also goldens for the tokenizer.json there, which itself is not copied."""
import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from compare_tokenizer import CODE, EMOJI, WORDS, any_char, piece, some, strings  # noqa: E402
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, trainers)

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
LLAMA = QWEN.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
ADDED = [AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
         AddedToken("<word>", single_word=True, normalized=False), AddedToken("<both> ", lstrip=True, rstrip=True),
         AddedToken("caf\u00e9", normalized=True), AddedToken("<|im", normalized=False),
         AddedToken("\u2460 x", normalized=True)]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    texts = [" ".join(WORDS), *WORDS * 3, *CODE * 3, "    " * 8, "\n\n\n", "<|im_start|>", *EMOJI]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens(ADDED)
    return json.loads(tokenizer.to_str())


def variants():
    """Changes to the small tokenizer, as JSON merge patches."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}

    def split(pattern, behavior="Isolated"):
        steps = [{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}, byte_level]
        return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}

    yield "gpt2", {"normalizer": None, "pre_tokenizer": {**byte_level, "add_prefix_space": True, "use_regex": True}}
    yield "llama", {"normalizer": None, **split({"Regex": LLAMA})}
    yield "removed", split({"String": "o. *"}, "Removed")
    yield "gaps", split({"Regex": "[aeiou ]+"})
    yield "two steps", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        split({"Regex": r"\p{N}+"})["pre_tokenizer"]["pretokenizers"][0],
        split({"Regex": QWEN})["pre_tokenizer"]["pretokenizers"][0],
        {**byte_level, "add_prefix_space": True}]}}
    yield "whole words", {"model": {"ignore_merges": True}}
    yield "lacks bytes", {"model": {"vocab": {"!": None, "\u0122": None, "\u0123": None}, "merges": []}}
    yield "unknown", {"model": {"vocab": {"!": None, "\u0122": None}, "merges": [], "unk_token": "#"}}
    yield "fused unknown", {"model": {"vocab": {"!": None, "\u0122": None}, "merges": [], "unk_token": "#",
                                      "fuse_unk": True}}


def patch(target, change):
    """RFC 7386, except that null replaces at the top."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict) and "type" not in value:
            patch(target[key], value)
        elif value is None and key != "normalizer":
            target.pop(key)
        else:
            target[key] = value
    return target


def renumber(file):
    """Ids without gaps, as the package counts them."""
    vocab = {token: i for i, token in enumerate(file["model"]["vocab"])}
    file["model"]["vocab"] = vocab
    for i, token in enumerate(file["added_tokens"]):
        token["id"] = len(vocab) + i
    return file


def goldens(tokenizer, texts):
    return [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]


def decodings(tokenizer, rng, count):
    size = tokenizer.get_vocab_size()
    lists = [[rng.randrange(size + 5) for _ in range(rng.randint(0, 10))] for _ in range(count)]
    return [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False),
             "plain": tokenizer.decode(ids, skip_special_tokens=True)} for ids in lists]


def short_strings(rng, count, tokens):
    found = (text for text in strings(rng, 10 ** 9, tokens) if len(text) < 45)
    return [next(found) for _ in range(count)]


def added_token_strings(rng, tokens):
    glue = ["", " ", "  ", "\n", "\u00a0", "a", "_", "9", "\u0301", ".", "x ", " y", "\u200d"]
    return [some(rng, 1, 4, lambda: rng.choice(glue) + rng.choice(tokens) + rng.choice(glue)) for _ in range(60)]


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/fixtures/tokenizer"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qwen", type=pathlib.Path, help="folder of Qwen3's tokenizer.json")
    args = parser.parse_args()
    root.mkdir(parents=True, exist_ok=True)
    file = train()
    text = json.dumps(file)
    tokenizer = Tokenizer.from_str(text)
    tokens = [token["content"] for token in file["added_tokens"]]
    rng = random.Random(4)
    texts = short_strings(rng, 150, tokens) + added_token_strings(rng, tokens) + [
        "e\u0301" * 40, "caf\u00e9 cafe\u0301 <|im_start|><|im_x", "\u1112\u1161\u11ab\uac00\u11a8",
        "\u0958\u2126\u0344\u0f73\u1e69 s\u0323\u0307 s\u0307\u0323", "\U00011935\U00011930 q\u0334\u1abf\u0301",
        "word" * 60, " " * 100 + "x", "".join(any_char(rng) for _ in range(60)), piece(rng, tokens)]
    cases = []
    for name, change in variants():
        varied = renumber(patch(json.loads(text), change))
        other = Tokenizer.from_str(json.dumps(varied))
        cases.append({"name": name, "change": change, "texts": goldens(other, short_strings(rng, 24, tokens))})
    write(root / "tokenizer.json", file)
    write(root / "golden.json", {"texts": goldens(tokenizer, texts), "ids": decodings(tokenizer, rng, 80),
                                 "variants": cases})
    if args.qwen:
        qwen = Tokenizer.from_file(str(args.qwen / "tokenizer.json"))
        tokens = [token.content for token in qwen.get_added_tokens_decoder().values()]
        texts = short_strings(rng, 140, tokens)
        write(root / "qwen3_golden.json", {"texts": goldens(qwen, texts), "ids": decodings(qwen, rng, 60)})


if __name__ == "__main__":
    main()
