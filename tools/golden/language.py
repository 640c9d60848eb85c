#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/models: ten small random Qwen3-VL models as transformers saves them, and
what transformers computes with them (float32, its default attention) for a prompt with pictures.

NN/config.json, model.safetensors  the model; preprocessor_config.json lets small pictures be
NN/image_I.png                     pictures that fit the model's grid as they are
NN/golden.safetensors              input_ids, position_ids [3][tokens]; visual and deepstack.T, the
                                   tower's output [visual tokens][hidden]; layer.L, what leaves layer
                                   L (deepstack added) [tokens][hidden]; logits [vocab] of the last
                                   token or [tokens][vocab]; greedy.ids, .logprobs, .gaps [64]
NN/golden.json                     the pictures' places and grids of cells, how it was made

A seed is taken when no greedy step is a near tie and the tokens vary. --check makes all of it again
and compares it with what is there. Needs torch, transformers, numpy, pillow.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.numpy import load_file, save_file
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

STEPS = 64
LEAST_GAP = 1e-3  # between the best two logits of every step: far above what rounding changes
LEAST_DISTINCT = 16
START, IMAGE, END, VIDEO = 1, 2, 3, 4  # vision tokens
SIZE = {"shortest_edge": 1024, "longest_edge": 16777216}


def case(layers, hidden, inner, heads, kv_heads, head_dim, sections, vocab, prompt, tied=False, bias=False,
         vision=(1, 8, 1), taps=(), std=0.2, theta=5e6, eps=1e-6, all_logits=False):
    return dict(locals())


# A prompt is numbers of text tokens and (rows, cols) of images, in cells; `vision` is depth, hidden, heads.
CASES = [
    case(1, 16, 24, 1, 1, 8, [2, 1, 1], 64, [2, (1, 1), 3], tied=True, all_logits=True, std=0.3),
    case(2, 32, 64, 4, 2, 16, [4, 2, 2], 120, [5, (3, 5), 9], vision=(2, 8, 2), taps=[0]),
    case(3, 36, 40, 8, 1, 8, [2, 1, 1], 100, [1, (7, 1), 6], bias=True, vision=(3, 8, 1), taps=[0, 1, 2]),
    case(4, 40, 56, 4, 1, 16, [3, 3, 2], 96, [3, (2, 9), 4, (5, 2), 7], tied=True, vision=(4, 8, 2), taps=[1, 3]),
    case(1, 24, 80, 2, 2, 32, [6, 5, 5], 80, [0, (3, 3), 2], bias=True, vision=(3, 8, 1), taps=[0, 1, 2],
         theta=1e4, all_logits=True, std=0.3),
    case(2, 36, 48, 6, 3, 20, [4, 3, 3], 128, [1, (1, 4), 2, (4, 1), 5, (3, 2), 3], tied=True, vision=(2, 12, 3),
         taps=[1, 0], eps=1e-5),
    case(4, 24, 48, 8, 4, 12, [2, 2, 2], 200, [23], bias=True, taps=[0]),
    case(2, 48, 64, 2, 1, 64, [12, 10, 10], 64, [2, (5, 7), 11], tied=True, vision=(3, 8, 2), taps=[0, 1, 2]),
    case(3, 40, 33, 5, 5, 24, [4, 4, 4], 300, [4, (2, 3), 0, (3, 1)], bias=True, vision=(2, 8, 1), taps=[0, 1]),
    case(4, 28, 48, 8, 2, 16, [1, 1, 1], 150, [6, (9, 2), 30], vision=(2, 8, 1), taps=[1], theta=5e5),
]


def make_model(c, seed):
    depth, vision_hidden, vision_heads = c["vision"]
    text = dict(vocab_size=c["vocab"], hidden_size=c["hidden"], intermediate_size=c["inner"],
                num_hidden_layers=c["layers"], num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"],
                head_dim=c["head_dim"], attention_bias=c["bias"], rms_norm_eps=c["eps"], max_position_embeddings=4096,
                rope_parameters=dict(rope_type="default", rope_theta=c["theta"], mrope_section=c["sections"],
                                     mrope_interleaved=True), tie_word_embeddings=c["tied"])
    vision = dict(depth=depth, hidden_size=vision_hidden, intermediate_size=3 * vision_hidden, num_heads=vision_heads,
                  out_hidden_size=c["hidden"], num_position_embeddings=25, deepstack_visual_indexes=list(c["taps"]))
    config = Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=c["tied"], image_token_id=IMAGE,
                           video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END)
    model = Qwen3VLForConditionalGeneration(config).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=random)
            norm = "norm" in name and name.endswith("weight")
            std = 0.05 if "patch_embed" in name else c["std"]
            parameter.copy_(1 + 0.3 * values if norm else std * values)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def picture(rows, cols, random):
    """Waves with a little noise: pixels that differ, and that PNG stores small."""
    y, x = np.mgrid[0:rows * 32, 0:cols * 32].astype(np.float64)
    channels = []
    for _ in range(3):
        a, b, phase = random.uniform(-0.1, 0.1, 2).tolist() + [random.uniform(0, 6)]
        channels.append(128 + 110 * np.sin(a * x + b * y + phase))
    noise = random.integers(0, 2, (rows * 32, cols * 32, 1)) * 4
    return (np.rint(np.stack(channels, 2)) // 8 * 8 + noise).clip(0, 255).astype(np.uint8)


def make_prompt(c, seed):
    random = np.random.default_rng(seed)
    ids, places, pictures = [], [], []
    for part in c["prompt"]:
        if isinstance(part, tuple):
            rows, cols = part
            places.append(dict(file=f"image_{len(places)}.png", rows=rows, cols=cols, at=len(ids) + 1))
            pictures.append(picture(rows, cols, random))
            ids += [START] + [IMAGE] * (rows * cols) + [END]
        else:
            ids += random.integers(VIDEO + 1, c["vocab"], part).tolist()
    return ids, places, pictures


def inputs_of(ids, pictures):
    inputs = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    if pictures:
        processor = Qwen2VLImageProcessorPil(size=SIZE, patch_size=16, temporal_patch_size=2, merge_size=2,
                                             image_mean=[0.5] * 3, image_std=[0.5] * 3)
        out = processor(images=[Image.fromarray(p) for p in pictures], return_tensors="pt")
        inputs.update(pixel_values=out["pixel_values"], image_grid_thw=out["image_grid_thw"],
                      mm_token_type_ids=(inputs["input_ids"] == IMAGE).int())
        for p, (_, rows, cols) in zip(pictures, out["image_grid_thw"].tolist()):
            assert p.shape[:2] == (rows * 16, cols * 16), "the processor resized a picture"
    return inputs


@torch.no_grad()
def greedy(model, inputs):
    out = model.generate(**inputs, do_sample=False, max_new_tokens=STEPS, output_logits=True,
                         return_dict_in_generate=True)
    ids = out.sequences[0, inputs["input_ids"].shape[1]:]
    logits = torch.cat(out.logits).float()
    best = logits.topk(2).values
    logprobs = logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]
    return {"greedy.ids": ids.int(), "greedy.logprobs": logprobs, "greedy.gaps": best[:, 0] - best[:, 1]}


@torch.no_grad()
def forward(model, inputs, all_logits):
    """Every layer's output as the next one (or the last norm) gets it."""
    text = model.model.language_model
    seen, hooks = {}, []
    for i, following in enumerate([*text.layers[1:], text.norm]):
        def keep(_, args, i=i):
            seen[f"layer.{i}"] = args[0][0]
        hooks.append(following.register_forward_pre_hook(keep))
    logits = model(**inputs).logits[0]
    for hook in hooks:
        hook.remove()
    seen["logits"] = logits if all_logits else logits[-1]
    count = inputs["input_ids"].shape[1]
    positions = torch.arange(count).expand(3, count)
    if "pixel_values" in inputs:
        features = model.model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"])
        seen["visual"] = torch.cat(features.pooler_output)
        for i, tap in enumerate(features.deepstack_features):
            seen[f"deepstack.{i}"] = torch.cat(tap)
        positions = model.model.get_rope_index(inputs["input_ids"], inputs["mm_token_type_ids"],
                                               inputs["image_grid_thw"])[0][:, 0]
    seen["position_ids"] = positions.float()
    seen["input_ids"] = inputs["input_ids"][0].int()
    return seen


def make(index, out):
    c = CASES[index]
    for seed in range(1000 * index, 1000 * index + 1000):
        model = make_model(c, seed)
        ids, places, pictures = make_prompt(c, seed)
        inputs = inputs_of(ids, pictures)
        chosen = greedy(model, inputs)
        gap = chosen["greedy.gaps"].min().item()
        distinct = len(set(chosen["greedy.ids"].tolist()))
        if gap > LEAST_GAP and distinct >= LEAST_DISTINCT:
            break
    folder = out / f"{index:02}"
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)
    settings = dict(size=SIZE, patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3,
                    image_std=[0.5] * 3, image_processor_type="Qwen2VLImageProcessorFast")
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    for place, pixels in zip(places, pictures):
        Image.fromarray(pixels).save(folder / place["file"], optimize=True)
    tensors = {**forward(model, inputs, c["all_logits"]), **chosen}
    save_file({name: np.ascontiguousarray(t.numpy()) for name, t in tensors.items()}, folder / "golden.safetensors")
    facts = dict(seed=seed, images=places, next_position=int(tensors["position_ids"].max()) + 1,
                 smallest_gap=round(gap, 6), distinct_tokens=distinct,
                 made_with=dict(transformers=transformers.__version__, torch=torch.__version__.split("+")[0]))
    (folder / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder.name}: {len(ids)} tokens, seed {seed}, gap {gap:.4f}, {distinct} distinct, {size} bytes", flush=True)


def differences(made, kept):
    """Ids, pixels, settings and weights must be equal, computed floats nearly so."""
    for path in sorted(made.iterdir()):
        other = kept / path.name
        if not other.exists():
            yield f"{other} is not there"
        elif path.suffix == ".safetensors":
            ours, theirs = load_file(path), load_file(other)
            if ours.keys() != theirs.keys():
                yield f"{other} holds other tensors"
                continue
            for name, values in ours.items():
                exact = path.stem == "model" or values.dtype != np.float32
                limit = 0 if exact else 1e-5 * np.abs(values).max()
                if values.shape != theirs[name].shape or np.abs(values - theirs[name]).max() > limit:
                    yield f"{other}: {name} differs"
        elif path.suffix == ".png":
            if not np.array_equal(np.asarray(Image.open(path)), np.asarray(Image.open(other))):
                yield f"{other} differs"
        else:
            ours, theirs = json.loads(path.read_text()), json.loads(other.read_text())
            for volatile in ("made_with", "transformers_version", "smallest_gap"):
                ours.pop(volatile, None), theirs.pop(volatile, None)
            if ours != theirs:
                yield f"{other} differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/fixtures/models")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    if not args.check:
        shutil.rmtree(args.out, ignore_errors=True)
        for index in range(len(CASES)):
            make(index, args.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder)
        found = []
        for index in range(len(CASES)):
            make(index, made)
            found += differences(made / f"{index:02}", args.out / f"{index:02}")
    sys.exit("\n".join(found) or print(f"{len(CASES)} models are as committed"))


if __name__ == "__main__":
    main()
