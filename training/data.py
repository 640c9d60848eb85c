# SPDX-License-Identifier: Apache-2.0
"""Fresh CardField scenes on the device: a pool that threads of the generator renew while training draws from it.

A scene is kept as cells of levels 0, 1 and 2 (the engine's pyramid: 2x2 boxes, rounded to 8 bits), its cards, and its
questions as slots of token ids:

    <|vision_end|> question <|im_end|> \\n <|im_start|> assistant \\n answer <|im_end|> padding
"""
import json
import queue
import threading
from pathlib import Path

import numpy as np
import torch

SIDE = 32                      # cells of level 0 along a side of the 1024 px canvas
LEVEL_CELLS = (1024, 256, 64)  # of levels 0, 1, 2
FIRST_CELL = (0, 1024, 1280)
CELLS = sum(LEVEL_CELLS)
SLOT = 32                      # tokens of a question with its answer
QUESTIONS = 32                 # of each scene
CARDS = 48
FAMILIES = ("read", "find", "count", "exist", "same", "gap", "follow", "ticks")


class Words:
    """The ids of the tokens around a question."""

    def __init__(self, folder):
        tokenizer = json.loads((Path(folder) / "tokenizer.json").read_text())
        ids = {t["content"]: t["id"] for t in tokenizer["added_tokens"]} | tokenizer["model"]["vocab"]
        self.end, self.vision_end = ids["<|im_end|>"], ids["<|vision_end|>"]
        line = ids["\u010a"]
        self.before = [ids["<|im_start|>"], ids["user"], line, ids["<|vision_start|>"]]
        self.after = [self.end, line, ids["<|im_start|>"], ids["assistant"], line]
        self.count = max(ids.values()) + 1
        self.vocab_size = -(-self.count // 64) * 64


def make_slots(words, question, question_length, answer, answer_length):
    """Token ids of slots [n, SLOT], the targets (-100 where none: position i predicts i + 1) and which tokens are
    asked (the question up to the answer)."""
    device = question.device
    n = question_length.shape[0]
    at = torch.arange(SLOT, device=device).expand(n, SLOT)
    q, a = question_length.long()[:, None], answer_length.long()[:, None]
    after = torch.tensor(words.after, device=device)
    begin = 1 + q + len(words.after)  # of the answer
    ids = torch.full((n, SLOT), words.end, device=device)
    ids = torch.where(at == 0, words.vision_end, ids)
    ids = torch.where((at >= 1) & (at < 1 + q), question.gather(1, (at - 1).clamp(0, question.shape[1] - 1)).long(), ids)
    ids = torch.where((at >= 1 + q) & (at < begin), after[(at - 1 - q).clamp(0, len(words.after) - 1)], ids)
    ids = torch.where((at >= begin) & (at < begin + a),
                      answer.gather(1, (at - begin).clamp(0, answer.shape[1] - 1)).long(), ids)
    following = torch.cat((ids[:, 1:], ids[:, :1]), 1)
    wanted = (at >= begin - 1) & (at < begin + a)
    return ids, torch.where(wanted, following, -100), at < begin


def to_cells(images):
    """uint8 [n, 1024, 1024, 3] -> the cells of levels 0, 1, 2: [n, CELLS, 4 * 768], a patch as [3][16][16]."""
    n = images.shape[0]
    level = images.permute(0, 3, 1, 2).contiguous()
    levels = []
    for i, count in enumerate(LEVEL_CELLS):
        if i:
            sums = sum(level[:, :, y::2, x::2].to(torch.int16) for y in (0, 1) for x in (0, 1))
            level = ((sums + 2) >> 2).to(torch.uint8)
        side = level.shape[2] // 32
        rows = level.view(torch.int64).view(n, 3, side, 2, 16, side, 2, 2)  # a row of a patch is two words
        cells = rows.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(n, count, 4 * 96)
        levels.append(cells.view(torch.uint8))
    return torch.cat(levels, 1)


class Pool:
    """`scenes` scenes on the device; renew() takes what the generator has ready."""

    def __init__(self, words, tokenizer, scenes, device, seed, batch=128, workers=2, threads=7, families=FAMILIES,
                 cards=(16, 32), payload=(9, 13)):
        import fovea.cards  # built by ./test or tools/build_python
        self.generate = fovea.cards.generate
        self.words, self.tokenizer, self.device, self.batch = words, str(tokenizer), device, batch
        self.families, self.cards_range, self.payload_range, self.threads = list(families), cards, payload, threads
        self.scenes = scenes
        self.cells = torch.empty(scenes, CELLS, 4 * 768, dtype=torch.uint8, device=device)
        self.cards = torch.empty(scenes, CARDS, 16, dtype=torch.int16, device=device)
        self.slots = torch.empty(scenes, QUESTIONS, SLOT, dtype=torch.int16, device=device)
        self.targets = torch.empty(scenes, QUESTIONS, SLOT, dtype=torch.int16, device=device)
        self.asked = torch.empty(scenes, QUESTIONS, SLOT, dtype=torch.bool, device=device)
        self.family = torch.empty(scenes, QUESTIONS, dtype=torch.int8, device=device)
        self.evidence = torch.empty(scenes, QUESTIONS, CARDS, dtype=torch.bool, device=device)
        self.made = 0  # scenes put into the pool so far
        self.next_seed = seed
        self.seed_lock = threading.Lock()
        self.device_lock = threading.Lock()  # held while graphs are captured: no other thread uses the device then
        self.ready = queue.Queue(maxsize=2)
        self.failure = None
        self.ending = threading.Event()
        self.workers = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for worker in self.workers:
            worker.start()
        while self.made < scenes:
            self.renew(wait=True)

    def _work(self):
        try:
            cuda = self.device.type == "cuda"
            images = torch.empty(self.batch, 1024, 1024, 3, dtype=torch.uint8, pin_memory=cuda)
            stream = torch.cuda.Stream() if cuda else None
            while not self.ending.is_set():
                arrays = self._generate(images)
                with self.device_lock, torch.cuda.stream(stream):  # a stream of None is none
                    scenes = self._upload(images, arrays)
                    if cuda:
                        stream.synchronize()
                while not self.ending.is_set():
                    try:
                        self.ready.put(scenes, timeout=0.1)
                        break
                    except queue.Full:
                        pass
        except Exception as error:  # told by renew(), which runs on the thread that trains
            self.failure = error
            self.ready.put(None)

    def close(self):
        """Ends the generators, which must not be at work when Python ends: it ends threads in the midst of C++."""
        self.ending.set()
        for worker in self.workers:
            worker.join()

    def _generate(self, images):
        with self.seed_lock:
            seed, families = self.next_seed, list(self.families)
            self.next_seed += self.batch
            wide = seed // self.batch % 4 == 0
        # A quarter of the batches in all numbers and sizes, the others in those that are measured most.
        cards, payload = ((8, 48), (8, 24)) if wide else (self.cards_range, self.payload_range)
        return self.generate(
            seed, self.batch, cards_min=cards[0], cards_max=cards[1], payload_min=payload[0],
            payload_max=payload[1], questions=QUESTIONS, families=families, tokenizer=self.tokenizer, question_tokens=22, answer_tokens=4, threads=self.threads,
            images=images.numpy())

    def _upload(self, images, arrays):
        staged = images.to(self.device, non_blocking=True)
        cells = torch.cat([to_cells(part) for part in staged.split(32)])
        put = lambda name: torch.from_numpy(np.ascontiguousarray(arrays[name])).to(self.device)
        flat = lambda name: put(name).flatten(0, 1)
        slots = make_slots(self.words, flat("question_ids"), flat("question_length"), flat("answer_ids"),
                           flat("answer_length"))
        shape = (self.batch, QUESTIONS, SLOT)
        bits = np.unpackbits(arrays["evidence"].view(np.uint8).reshape(self.batch, QUESTIONS, 8), axis=2,
                             bitorder="little")[..., :CARDS].astype(bool)
        return (cells, *(tensor.view(shape) for tensor in slots), put("cards"), put("family"),
                torch.from_numpy(bits).to(self.device))

    def renew(self, wait=False):
        """Puts the next ready scenes into the pool, if there are any."""
        try:
            scenes = self.ready.get(block=wait)
        except queue.Empty:
            return False
        if scenes is None:
            raise RuntimeError("the generator failed") from self.failure
        at = self.made % self.scenes
        kept = (self.cells, self.slots, self.targets, self.asked, self.cards, self.family, self.evidence)
        for store, new in zip(kept, scenes):
            store[at:at + self.batch] = new
            if new.is_cuda:
                new.record_stream(torch.cuda.current_stream())
        self.made += self.batch
        return True
