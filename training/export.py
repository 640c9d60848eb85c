#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a trained checkpoint as a Hugging Face folder: python3 training/export.py run models/tiny

The folder must hold tokenizer.json already. Stock tensors go into shards of at most 16 MiB, bf16; what stock models
lack goes into fovea.safetensors (docs/weights.md). --check answers a few questions with transformers and with
training's own model, all cells of level 0, and fails unless they agree.
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent))
import checkpoint
import model
from data import Words

TEMPLATE = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}
{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'image' or 'image' in part or 'image_url' in part %}
{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}
{{- part.text }}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def config_json(c, ids):
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "dtype": "bfloat16",
        "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "qwen3_vl_text", "attention_bias": False, "eos_token_id": ids["<|im_end|>"],
            "head_dim": c.head_dim, "hidden_act": "silu", "hidden_size": c.size, "intermediate_size": c.inner,
            "max_position_embeddings": 8192, "num_attention_heads": c.heads, "num_hidden_layers": c.layers,
            "num_key_value_heads": c.kv_heads, "rms_norm_eps": 1e-6, "rope_theta": c.text_theta,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": list(c.mrope_section),
                             "rope_type": "default"},
            "tie_word_embeddings": True, "vocab_size": c.vocab_size},
        "vision_config": {
            "model_type": "qwen3_vl", "depth": c.depth, "hidden_size": c.vision_size,
            "intermediate_size": c.vision_inner, "num_heads": c.vision_heads, "in_channels": 3, "patch_size": 16,
            "temporal_patch_size": 2, "spatial_merge_size": 2, "num_position_embeddings": c.position_side ** 2,
            "out_hidden_size": c.size, "deepstack_visual_indexes": list(c.taps), "hidden_act": "gelu_pytorch_tanh"},
        "fovea": {"gaze_layer": c.gaze_layer, "gaze_size": c.gaze_size, "gaze_grid": c.gaze_grid,
                  "levels": c.levels},
    }


def split(values):
    """Stock tensors and our own, bf16."""
    stock, own = {}, {}
    for name, value in values.items():
        value = value.bfloat16()
        if name == model.VISUAL + "patch_embed.proj.weight":  # a still image is two equal frames: half for each
            value = (value / 2).view(-1, 3, 1, 16, 16).expand(-1, -1, 2, -1, -1)
        if name == "fovea.level_embedding":
            value = torch.cat((torch.zeros_like(value[:1]), value))
        if name.startswith("fovea."):
            own[name.removeprefix("fovea.")] = value.contiguous()
        elif not name.startswith("aux."):
            stock[name] = value.contiguous()
    return stock, own


def write(values, c, folder):
    stock, own = split(values)
    shards = [{n: t for n, t in stock.items() if n.startswith(part)} for part in (model.VISUAL, model.TEXT)]
    places = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        places.update({tensor: name for tensor in shard})
        size = (folder / name).stat().st_size
        assert size <= 16 * 2 ** 20, f"{name} has {size} bytes"
    total = sum(t.nbytes for t in stock.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    ids = {t["content"]: t["id"] for t in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}
    processor = {"size": {"longest_edge": 16777216, "shortest_edge": 1024}, "patch_size": 16,
                 "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
                 "processor_class": "Qwen3VLProcessor", "image_processor_type": "Qwen2VLImageProcessorFast"}
    for name, value in {"model.safetensors.index.json": index, "config.json": config_json(c, ids),
                        "preprocessor_config.json": processor,
                        "generation_config.json": {"eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]]}}.items():
        (folder / name).write_text(json.dumps(value, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    save_file(own, folder / "fovea.safetensors", metadata={"format": "pt"})
    return sum(t.numel() for t in stock.values()) + sum(t.numel() for t in own.values())


def check(values, c, folder):
    """Largest difference of the logits of transformers and training's model over random pictures and questions."""
    from transformers import Qwen3VLForConditionalGeneration
    from data import SIDE, to_cells
    import plans
    theirs = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    words = Words(folder)
    ours = {n: v.bfloat16().float() for n, v in values.items()}
    generator = torch.Generator().manual_seed(0)
    small = torch.randint(0, 256, (1, 3, 40, 40), generator=generator).float()
    image = torch.nn.functional.interpolate(small, size=(1024, 1024), mode="bilinear").byte().permute(0, 2, 3, 1)
    cells = to_cells(image.contiguous())[:, :1024].view(1, 1024, 4, 768).float() / 127.5 - 1
    plan = plans.whole_level(0, 1, torch.device("cpu"))
    question = torch.randint(33, 400, (12,), generator=generator).tolist()
    tail = [words.vision_end] + question + words.after
    ids = torch.tensor([words.before + [theirs.config.image_token_id] * 1024 + tail])
    # transformers takes patches in the same order, each with both frames: [3][2][16][16]
    pixels = cells.view(4096, 3, 1, 256).expand(-1, -1, 2, -1).reshape(4096, 1536)
    kinds = (ids == theirs.config.image_token_id).int()
    with torch.no_grad():
        wanted = theirs(input_ids=ids, pixel_values=pixels, image_grid_thw=torch.tensor([[1, 64, 64]]),
                        mm_token_type_ids=kinds).logits[0, -len(tail):]
        tokens, tapped = model.tower(ours, c, cells, *plan[1:], (1024,))
        embedding = ours[model.TEXT + "embed_tokens.weight"]
        embedded = torch.cat((embedding[torch.tensor(words.before)][None], tokens,
                              embedding[torch.tensor(tail)][None]), 1)
        places = model.cell_places(*plan[1:]) + 4
        three = lambda begin, n: torch.arange(begin, begin + n).float()[None, :, None].expand(1, n, 3)
        positions = torch.cat((three(0, 4), torch.cat((torch.full_like(places[..., :1], 4), places), -1),
                               three(4 + SIDE, len(tail))), 1)
        length = embedded.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        found = model.logits(ours, model.language(ours, c, embedded, positions, mask, (4, 1028), tapped))
    difference = (found[0, -len(tail):] - wanted).norm() / wanted.norm()
    print(f"logits differ from transformers' by {difference:.1e} of their norm", file=sys.stderr)
    return difference < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    values, _ = checkpoint.load(args.run)
    c = model.Config(vocab_size=values[model.TEXT + "embed_tokens.weight"].shape[0])
    print(f"{write(values, c, args.out) / 1e6:.2f} M parameters", file=sys.stderr)
    if args.check and not check(values, c, args.out):
        sys.exit("the exported model is not what was trained")


if __name__ == "__main__":
    main()
