#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tokenizer of models/tiny: byte-level BPE in Qwen's form, small, from CardField's questions.

    python3 training/tokenizer.py models/tiny

Codes are left out of the text it learns from, so that every character of a code stays a token of its own; a few
sentences of plain English give common words tokens of their own too.
"""
import argparse
import json
import re
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
           "<|video_pad|>"]
VOCAB_SIZE = 640
CODE = re.compile(r"\b[A-HJ-NP-Z2-9]{2}\b")
PLAIN = ["user", "assistant", "system", "You are a helpful assistant.", "What is in the picture?",
         "Where is it? What does it say? Who is there? How many are there? Describe the image in one word.",
         "Answer yes or no.", "the left, the right, the top, the bottom, the middle"]


def question_texts():
    import fovea.cards
    made = fovea.cards.generate(2 ** 39, 200, width=512, height=512, cards_min=12, cards_max=12, questions=32)
    for questions, answers in zip(made["questions"], made["answers"]):
        yield from (CODE.sub("", text) for text in questions)
        yield from (CODE.sub("", text) for text in answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE - len(SPECIAL), special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(list(question_texts()) + PLAIN * 50, trainer)
    tokenizer.add_special_tokens(SPECIAL)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    settings = dict(add_bos_token=False, add_prefix_space=False, additional_special_tokens=SPECIAL[1:], bos_token=None,
                    clean_up_tokenization_spaces=False, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                    model_max_length=4096, tokenizer_class="Qwen2Tokenizer", unk_token=None,
                    added_tokens_decoder={str(i): dict(content=token, lstrip=False, normalized=False, rstrip=False,
                                                       single_word=False, special=True) for token, i in ids.items()})
    (args.out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    print(f"{tokenizer.get_vocab_size()} tokens", file=sys.stderr)


if __name__ == "__main__":
    main()
