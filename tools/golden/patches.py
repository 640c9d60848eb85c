#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/patches: what transformers' Qwen image processor (its PIL backend) and
Pillow's resize give for sizes and pictures, to be compared with canvas_size, fit_canvas and
sample_patches.

Needs transformers, numpy, pillow, scikit-image (for its CC0 photographs).
"""
import argparse
import json
import pathlib

import numpy as np
import PIL
import transformers
from PIL import Image
from skimage import data
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (Qwen2VLImageProcessorPil,
                                                                        smart_resize)

MIN_PIXELS, MAX_PIXELS = 65536, 16777216
NO_LIMIT = 2**63 - 1
SAMPLES = 256  # values kept beside the digest, so that a failure says how far off it is


def synthetic(width, height):
    """Waves with noise, in integers alone so that the test can make the same picture."""
    y, x, c = np.meshgrid(*(np.arange(n, dtype=np.uint32) for n in (height, width, 3)), indexing="ij")
    wave = (x * (3 + c) + y * (5 - c)) % 512
    wave = np.where(wave < 256, wave, 511 - wave)
    noise = (x * 374761393 + y * 668265263 + c * 2246822519).astype(np.uint32)
    noise = ((noise ^ (noise >> 13)) * np.uint32(1274126177)).astype(np.uint32)
    noise = (noise ^ (noise >> 16)) % 64
    return ((wave * 3 + noise * 4) // 4).clip(0, 255).astype(np.uint8)


def digest(values):
    """The values weighted by their place, modulo 2^64: any one changed or moved shows."""
    place = np.arange(values.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    place ^= place >> np.uint64(29)
    total = ((values.ravel().astype(np.uint64) + np.uint64(1)) * place).sum(dtype=np.uint64)
    return f"{int(total):016x}"


def samples(values):
    flat = values.ravel()
    return [int(flat[i * 2654435761 % flat.size]) for i in range(SAMPLES)]


def canvas_of(pixel_values, height, width):
    """The patches put together again: [height][width][3]."""
    cells = pixel_values.reshape(height // 32, width // 32, 2, 2, 3, 2, 16, 16)
    assert np.array_equal(cells[:, :, :, :, :, 0], cells[:, :, :, :, :, 1])
    return cells[:, :, :, :, :, 0].transpose(0, 2, 5, 1, 3, 6, 4).reshape(height, width, 3)


def to_8_bit(values):
    return np.rint((values * 0.5 + 0.5) * 255).astype(np.uint8)


def processor_case(processor, name, image):
    out = processor(images=Image.fromarray(image), return_tensors="np")
    _, rows, cols = (int(n) for n in out["image_grid_thw"][0])
    values = np.ascontiguousarray(out["pixel_values"])
    canvas = to_8_bit(canvas_of(values, rows * 16, cols * 16))
    bits = values.view(np.uint32)
    return {"picture": name, "size": [image.shape[1], image.shape[0]], "canvas": [cols * 16, rows * 16],
            "canvas_digest": digest(canvas), "canvas_samples": samples(canvas),
            "patches_digest": digest(bits), "patches_samples": samples(bits)}


def resize_case(width, height, to_width, to_height):
    out = Image.fromarray(synthetic(width, height)).resize((to_width, to_height), Image.BICUBIC)
    out = np.asarray(out)
    return {"size": [width, height], "to": [to_width, to_height], "digest": digest(out),
            "samples": samples(out)}


def size_cases(rng):
    """[width, height, canvas width, canvas height] without and with the upper limit."""
    pairs = [(640, 480), (1920, 1080), (64, 64), (50, 100), (4000, 37), (48, 48), (5000, 5000),
             (6000, 3000), (1, 1), (1, 200), (200, 1), (16, 16), (16, 3200), (48, 9600), (13000, 13000),
             (80, 112), (4096, 4096), (4112, 4080), (256, 256), (240, 272), (32, 2048), (31, 2081)]
    while len(pairs) < 1500:
        width, height = (int(np.exp(rng.uniform(0, np.log(14000)))) for _ in range(2))
        if len(pairs) % 3 == 0:  # halves, where rounding to even shows
            width, height = width // 16 * 16 + 16, height // 16 * 16 + 16
        if max(width, height) <= 200 * min(width, height):
            pairs.append((width, height))
    rows = []
    for width, height in pairs:
        bound = smart_resize(height, width, 32, MIN_PIXELS, MAX_PIXELS)
        free = smart_resize(height, width, 32, MIN_PIXELS, NO_LIMIT)
        rows.append([width, height, bound[1], bound[0], free[1], free[0]])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/fixtures/patches")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    processor = Qwen2VLImageProcessorPil(
        size={"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS}, patch_size=16,
        temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)

    crops = {"astronaut": data.astronaut()[0:97, 170:290], "coffee": data.coffee()[150:240, 230:331],
             "chelsea": data.chelsea()[80:141, 120:251]}
    cases = []
    for name, crop in crops.items():
        Image.fromarray(crop).save(out / f"{name}.ppm")
        cases.append(processor_case(processor, f"{name}.ppm", crop))
    for size in [(288, 256), (256, 256), (2048, 32), (32, 6400), (300, 200), (64, 64), (1, 1), (7, 3),
                 (4000, 37), (13, 2000), (513, 257), (333, 512), (620, 330), (800, 600), (100, 50),
                 (1000, 1000)]:
        cases.append(processor_case(processor, "synthetic", synthetic(*size)))
    resizes = [resize_case(*sizes) for sizes in [
        (500, 500, 409, 409), (700, 300, 100, 50), (9, 9, 1, 2), (601, 299, 600, 300), (50, 80, 51, 79),
        (700, 900, 650, 340), (1300, 40, 13, 40), (40, 1300, 40, 13), (2, 2, 400, 300),
        (1201, 901, 1200, 900)]]
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None, None], (256, 256, 3)).copy()
    values = processor(images=Image.fromarray(levels), return_tensors="np")["pixel_values"]
    normalised = np.ascontiguousarray(canvas_of(values, 256, 256)[:, 0, 0]).view(np.uint32)

    golden = {
        "made_with": {"transformers": transformers.__version__, "pillow": PIL.__version__},
        "processor": cases, "resize": resizes,
        "normalised_bits": normalised.tolist(),
        "sizes": size_cases(np.random.default_rng(7))}
    text = json.dumps(golden, separators=(",", ":"))
    (out / "goldens.json").write_text(text.replace('},{', '},\n{').replace('],"', '],\n"') + "\n")
    print(f"wrote {out}: {sum(f.stat().st_size for f in out.iterdir())} bytes")


if __name__ == "__main__":
    main()
