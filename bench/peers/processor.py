#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times transformers' Qwen image processor with either backend, and the resizes of torchvision,
Pillow and OpenCV."""
import argparse
import json
import statistics
import time

import cv2
import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

RESIZES = [(800, 600, 800, 608), (1000, 1000, 992, 992), (64, 64, 256, 256), (4001, 3001, 4000, 3008)]


def median_ms(body, budget_s=0.5, min_calls=5):
    body()
    times = []
    while len(times) < min_calls or sum(times) < budget_s:
        start = time.perf_counter()
        body()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def random_picture(width, height):
    """Smooth waves with noise."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    waves = 128 + 90 * np.sin(x / 37 + c) * np.cos(y / 23)
    noise = np.random.default_rng(1).normal(0, 20, waves.shape)
    return (waves + noise).clip(0, 255).astype(np.uint8)


def run(threads):
    """-> rows {name, peer, peer_value, unit}; name is the row of `fovea bench` it is a peer of."""
    torch.set_num_threads(threads)
    cv2.setNumThreads(threads)
    # What Qwen3-VL's preprocessor_config.json says.
    config = {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16,
              "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3,
              "image_std": [0.5] * 3}
    picture = Image.fromarray(random_picture(1024, 1024))
    rows = []
    # The PIL backend is the one whose values are compared; torchvision's is there where that is.
    for backend, kind in [("", Qwen2VLImageProcessorPil), (" (torchvision)", Qwen2VLImageProcessor)]:
        processor = kind(**config)
        value = median_ms(lambda p=processor: p(images=picture, return_tensors="pt"), 2.0)
        rows.append({"name": "patches/1024x1024/uniform/f32",
                     "peer": f"transformers processor 1024x1024{backend}",
                     "peer_value": value, "unit": "ms"})

    for width, height, to_width, to_height in RESIZES:
        pixels = random_picture(width, height)
        image = Image.fromarray(pixels)
        # Planes, as the torchvision backend hands them on; and interleaved, the fastest.
        planes = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        interleaved = torch.from_numpy(pixels).permute(2, 0, 1)
        size = f"{width}x{height}->{to_width}x{to_height}"

        def torchvision_resize(tensor, to=(to_height, to_width)):
            return functional.resize(tensor, list(to), antialias=True,
                                     interpolation=functional.InterpolationMode.BICUBIC)

        bodies = {
            "torchvision resize of planes": lambda t=planes: torchvision_resize(t),
            "torchvision resize interleaved": lambda t=interleaved: torchvision_resize(t),
            "pillow resize": lambda i=image, s=(to_width, to_height): i.resize(s, Image.BICUBIC),
            # Not antialiased: less work where it shrinks.
            "opencv INTER_CUBIC": lambda p=pixels, s=(to_width, to_height): cv2.resize(
                p, s, interpolation=cv2.INTER_CUBIC)}
        for peer, body in bodies.items():
            rows.append({"name": f"canvas/{size}", "peer": f"{peer} {size}",
                         "peer_value": median_ms(body), "unit": "ms"})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    print(json.dumps(run(parser.parse_args().threads), indent=1))
