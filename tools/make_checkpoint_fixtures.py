#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/checkpoint and tests/fixtures/config/transformers5_*.json (needs torch).

These are what transformers' save_pretrained really writes: names, headers, index, settings.
checkpoint/sums.json holds each tensor's shape, sum and last value as transformers loads them.
"""
import argparse
import json
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoImageProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLModel

TEXT = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, rope_theta=5000000.0, eos_token_id=35, bos_token_id=33,
            rope_scaling=dict(mrope_interleaved=True, mrope_section=[2, 1, 1], rope_type="default"))
VISION = dict(depth=2, hidden_size=8, intermediate_size=12, num_heads=2, out_hidden_size=16,
              num_position_embeddings=9, deepstack_visual_indexes=[0])


def make(tied, **text):
    torch.manual_seed(1)
    config = Qwen3VLConfig(text_config=dict(TEXT, tie_word_embeddings=tied, **text), vision_config=dict(VISION),
                           tie_word_embeddings=tied, image_token_id=30, vision_start_token_id=31,
                           vision_end_token_id=32, video_token_id=34)
    model = Qwen3VLForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return model


def save_settings(out):
    with tempfile.TemporaryDirectory() as folder:
        Qwen3VLConfig.from_pretrained(out / "published_2b.json").save_pretrained(folder)
        shutil.copyfile(Path(folder) / "config.json", out / "transformers5_2b.json")
        shutil.copyfile(out / "published_preprocessor.json", Path(folder) / "preprocessor_config.json")
        processor = AutoImageProcessor.from_pretrained(folder)
        nested = {"image_processor": json.loads(processor.to_json_string()), "processor_class": "Qwen3VLProcessor"}
        (out / "transformers5_processor.json").write_text(json.dumps(nested, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/fixtures")
    out = parser.parse_args().out
    save_settings(out / "config")
    shutil.rmtree(out / "checkpoint", ignore_errors=True)
    make(True).save_pretrained(out / "checkpoint/tied_f32")
    make(False).to(torch.bfloat16).save_pretrained(out / "checkpoint/sharded_bf16", max_shard_size="16KB")
    base = make(True, attention_bias=True).to(torch.float16).model
    assert isinstance(base, Qwen3VLModel)
    base.save_pretrained(out / "checkpoint/base_f16")
    for path in out.glob("checkpoint/*/*.safetensors"):
        path.chmod(0o644)
    facts = {}
    for folder in sorted((out / "checkpoint").iterdir()):
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype="auto")
        facts[folder.name] = {name: [list(tensor.shape), float(tensor.double().sum()), float(tensor.flatten()[-1])]
                              for name, tensor in model.state_dict().items()}
    (out / "checkpoint/sums.json").write_text(json.dumps(facts, indent=0) + "\n")


if __name__ == "__main__":
    main()
