#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fovea batch` beside transformers batched, one question about many JPEG pictures, on one machine.

    tools/random_checkpoint.py Qwen3-VL-2B-Instruct.config.json 2b --tokenizer DIR --dtype bf16
    python bench/peers/batch.py 2b --device cuda [--pictures 1000] [--at-once 32,64] [--seconds 30] [--json]

Pictures are made first (Pillow, or torchvision), 1024x1024, no two alike. Answers have at most --tokens tokens: with
random weights hardly one ends before, and transformers is told not to. (--least-tokens would have Fovea's scores read
by the host, which takes several times as long.) Both sides start from the files. Fovea is the program as a user runs
it; its rate is its own, of the run without loading. transformers is given what makes it fast: files decoded on all
cores ahead of the batch before, its processor on the device, sdpa attention, no look at an answer's text. It sees
every token, and pictures made small for as many tokens as Fovea takes; each for --seconds at most, after a batch to
warm up.

How long the GPU waits is the driver's (NVML): the share of time in which no kernel ran, between the first line and
the last; copies count as waiting. The driver samples it a few times a second.
"""
import argparse
import concurrent.futures
import ctypes
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from compare import ROOT

SIDE, QUESTION, WANTED_TIMES, WANTED_WAIT = 1024, "What is on the table, and what is beside it?", 8, 0.2


def make_picture(job):
    """Waves, blobs and noise: what a photograph costs to decode."""
    import numpy as np

    folder, number = job
    random = np.random.default_rng(number)
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    planes = []
    for channel in range(3):
        a, b, phase = random.uniform(20, 90, 2).tolist() + [random.uniform(0, 6)]
        planes.append(128 + 70 * np.sin(x / a + channel + phase) * np.cos(y / b))
    coarse = random.normal(0, 30, (SIDE // 8, SIDE // 8, 3)).repeat(8, 0).repeat(8, 1)
    pixels = np.stack(planes, 2) + coarse + random.normal(0, 6, (SIDE, SIDE, 1))
    path = Path(folder) / f"{number:05}.jpg"
    pixels = pixels.clip(0, 255).astype(np.uint8)
    try:
        from PIL import Image
    except ImportError:  # then torchvision's, which takes longer to import
        import torch
        import torchvision

        torch.set_num_threads(1)
        torchvision.io.write_jpeg(torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), str(path), 90)
    else:
        Image.fromarray(pixels).save(path, quality=90)
    return str(path)


class Watch:
    """When lines came into a file; and what the driver says of the GPU meanwhile."""

    def __init__(self, path, device):
        self.path, self.times, self.samples, self.stop = path, [], [], threading.Event()
        self.nvml = self._nvml() if device.startswith("cuda") else None
        self.thread = threading.Thread(target=self._work)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    @staticmethod
    def _nvml():
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        handle = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)):
            return None
        return library, handle

    def _sample(self, since):
        """[(seconds since the epoch, share of time with a kernel)] of the driver's own buffer"""

        class Sample(ctypes.Structure):
            _fields_ = [("at", ctypes.c_ulonglong), ("value", ctypes.c_uint), ("padding", ctypes.c_uint)]

        library, handle = self.nvml
        kind, count, room = ctypes.c_uint(), ctypes.c_uint(1000), (Sample * 1000)()
        utilization = 1  # NVML_GPU_UTILIZATION_SAMPLES
        code = library.nvmlDeviceGetSamples(handle, utilization, ctypes.c_ulonglong(int(since * 1e6)),
                                            ctypes.byref(kind), ctypes.byref(count), room)
        return [(one.at / 1e6, one.value / 100) for one in room[:count.value]] if code == 0 else []

    def _work(self):
        lines, start = 0, time.time()
        while not self.stop.wait(0.01):
            try:
                text = self.path.read_bytes()
            except OSError:
                continue
            found = max(0, text.count(b"\n") - 1)  # the first is of the settings
            if found > lines:
                lines = found
                self.times.append((time.time(), lines))
        if self.nvml:
            self.samples = self._sample(start)

    def figures(self):
        found = {}
        if len(self.times) > 1:
            (begin, first), (end, last) = self.times[0], self.times[-1]
            found["images_per_s_between_lines"] = (last - first) / (end - begin)
            inside = [share for at, share in self.samples if begin < at <= end]
            if inside:
                found["gpu_waits"] = 1 - sum(inside) / len(inside)
                found["samples"] = len(inside)
        return found


def measure_fovea(args, pictures, at_once, folder):
    out = Path(tempfile.mkdtemp(dir=folder)) / "answers.jsonl"
    command = [args.program, "batch", pictures, "--question", QUESTION, "-m", args.model, "--device", args.device,
               "--budget", args.budget, "--max-tokens", args.tokens, "-o", out, "--stats"] + (["--at-once", at_once] if at_once else [])
    with Watch(out, args.device) as watch:
        done = subprocess.run([str(part) for part in command], stderr=subprocess.PIPE, text=True)
    said = done.stderr.strip().splitlines()
    rate = re.search(r"([0-9.]+) images/s", done.stderr)
    if done.returncode or not rate:
        return {"failed": f"{done.returncode}: {said[-1] if said else ''}"}
    lines = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    assert len(lines) == args.pictures and not any("error" in line for line in lines), "not every picture is answered"
    visual = sum(line["usage"]["image_tokens"] for line in lines) / len(lines)
    said_tokens = sum(line["tokens"] for line in lines) / len(lines)
    return {"images_per_s": float(rate.group(1)), "visual_tokens": visual, "answer_tokens": said_tokens,
            **watch.figures(), "stats": next((line for line in said if line.startswith("load")), "")}


class Transformers:
    def __init__(self, args):
        import torch
        from tokenizers import Tokenizer
        from transformers import Qwen3VLForConditionalGeneration

        from gpu_transformers import image_processor

        self.torch, self.args, self.processor = torch, args, image_processor()
        on_gpu = args.device.startswith("cuda")
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(
            args.model, dtype=torch.bfloat16 if on_gpu else torch.float32).to(args.device).eval()
        self.tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))

    def decode(self, path, size):
        try:
            from PIL import Image
        except ImportError:
            return self.decode_by_torchvision(path, size)
        import numpy as np

        with Image.open(path) as picture:
            if size:
                picture.draft("RGB", (2 * size[0], 2 * size[1]))  # Pillow's fast way to a small picture
                picture = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC)
            return self.torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1)

    def decode_by_torchvision(self, path, size):
        import torchvision

        picture = torchvision.io.decode_jpeg(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)
        if size:
            picture = torchvision.transforms.v2.functional.resize(picture, [size[1], size[0]], antialias=True)
        return picture

    def answer(self, pictures):
        torch, config = self.torch, self.model.config
        seen = self.processor(images=pictures, return_tensors="pt", device=self.args.device)
        seen = {name: value.to(self.args.device) for name, value in seen.items()}
        pads = int(seen["image_grid_thw"][0].prod()) // config.vision_config.spatial_merge_size ** 2
        before = self.tokenizer.encode("<|im_start|>user\n").ids
        after = self.tokenizer.encode(QUESTION + "<|im_end|>\n<|im_start|>assistant\n").ids
        ids = [*before, config.vision_start_token_id, *[config.image_token_id] * pads, config.vision_end_token_id,
               *after]
        prompt = torch.tensor([ids], device=self.args.device).expand(len(pictures), -1)
        made = self.model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=self.args.tokens,
            min_new_tokens=self.args.tokens, do_sample=False, pixel_values=seen["pixel_values"].to(self.model.dtype),
            image_grid_thw=seen["image_grid_thw"], mm_token_type_ids=(prompt == config.image_token_id).int())
        assert made.shape[1] == prompt.shape[1] + self.args.tokens
        return pads, made.tolist()

    def measure(self, paths, size, batch):
        """-> images a second over as many batches as fit the time"""
        batches = [paths[i:i + batch] for i in range(0, len(paths), batch)]
        workers = len(os.sched_getaffinity(0))
        with self.torch.inference_mode(), concurrent.futures.ThreadPoolExecutor(workers) as pool:
            load = lambda number: [pool.submit(self.decode, path, size) for path in batches[number]]
            self.answer([one.result() for one in load(0)])
            start, done, ready = time.perf_counter(), 0, load(0)
            for number in range(len(batches)):
                pictures = [one.result() for one in ready]
                ready = load(number + 1) if number + 1 < len(batches) else []
                pads, _ = self.answer(pictures)
                done += len(pictures)
                if time.perf_counter() - start > self.args.seconds:
                    break
            took = time.perf_counter() - start
            for one in ready:
                one.cancel()
        return {"images_per_s": done / took, "visual_tokens": pads, "pictures": done, "batch": batch}


def small_size(tokens):
    """Width and height of a picture of exactly so many tokens, as square as may be."""
    rows = max(n for n in range(1, math.isqrt(tokens) + 1) if tokens % n == 0)
    return 32 * tokens // rows, 32 * rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a checkpoint folder, e.g. of tools/random_checkpoint.py")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where pictures are made, or are (default: a temporary one)")
    parser.add_argument("--at-once", default="0", help="of Fovea, a list; 0 is its default")
    parser.add_argument("--batch", type=int, default=32, help="of transformers")
    parser.add_argument("--budget", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=16, help="of an answer")
    parser.add_argument("--seconds", type=float, default=30, help="of each of transformers' measurements, at most")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    rows = []

    def tell(name, figures):
        rows.append({"name": name, **figures})
        if args.json:
            print(json.dumps(rows[-1]), flush=True)
            return
        text = "  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                         for key, value in figures.items())
        print(f"{name:36} {text}", flush=True)

    with tempfile.TemporaryDirectory() as own:
        folder = args.folder or Path(own) / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        workers = len(os.sched_getaffinity(0))
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            paths = list(pool.map(make_picture, [(folder, number) for number in range(args.pictures)], chunksize=8))
        tell("pictures", {"count": len(paths), "mean_bytes": sum(os.path.getsize(path) for path in paths) // len(paths)})
        for at_once in map(int, args.at_once.split(",")):
            tell(f"fovea batch, at once {at_once or 'default'}", measure_fovea(args, folder, at_once, Path(own)))
        peer = Transformers(args)
        for name, size in ((f"transformers, {args.budget} tokens", small_size(args.budget)),
                           ("transformers, every token", None)):
            try:
                tell(name, peer.measure(paths, size, args.batch))
            except RuntimeError as error:
                tell(name, {"failed": str(error).splitlines()[0]})
    runs = [row for row in rows if row["name"].startswith("fovea") and "images_per_s" in row]
    if not runs:
        sys.exit("batch.py: fovea batch did not answer")
    best = max(runs, key=lambda row: row["images_per_s"])
    ours = best["images_per_s"]
    for row in rows:
        if row["name"].startswith("transformers") and "images_per_s" in row:
            wanted = f" (wanted >= {WANTED_TIMES}x)" if row["name"].endswith("every token") else ""
            print(f"{ours / row['images_per_s']:.2f}x {row['name']}{wanted}", file=sys.stderr)
    if "gpu_waits" in best:
        print(f"the GPU waits for the CPU {100 * best['gpu_waits']:.0f} % of the time "
              f"(wanted < {100 * WANTED_WAIT:.0f} %)", file=sys.stderr)


if __name__ == "__main__":
    main()
