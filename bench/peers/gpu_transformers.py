# SPDX-License-Identifier: Apache-2.0
"""transformers' Qwen3-VL on a GPU, bf16, random weights: tower, prefill, decode, first token, requests in a batch.

"eager" is what a user gets. "CUDA graph" replays the same kernels without the host, which transformers does not
offer by itself for the tower and the prefill: the best torch's own kernels could do.
"""
import inspect
import json
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_clock import attempt, check_close, emit, note
from gpu_torch import random_pixels

# The sizes of Qwen3-VL-2B.
QWEN3_VL_2B = {
    "image_token_id": 151655, "video_token_id": 151656, "vision_start_token_id": 151652,
    "vision_end_token_id": 151653, "tie_word_embeddings": True,
    "text_config": {"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
                    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                    "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True,
                                        "mrope_section": [24, 20, 20]}},
    "vision_config": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
                      "out_hidden_size": 2048, "num_position_embeddings": 2304,
                      "deepstack_visual_indexes": [5, 11, 17]}}
SMOKE = {
    "image_token_id": 92, "video_token_id": 93, "vision_start_token_id": 90, "vision_end_token_id": 91,
    "tie_word_embeddings": True,
    "text_config": {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_interleaved": True,
                                        "mrope_section": [4, 2, 2]}},
    "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32,
                      "num_position_embeddings": 64, "deepstack_visual_indexes": [0]}}
PROCESSOR = {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16, "temporal_patch_size": 2,
             "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
QUESTION_TOKENS, DECODED_TOKENS, REQUESTS = 30, 32, 32  # two tokens around the picture are text too


def image_processor():
    """The image processor that can work on the device."""
    try:  # where there is one for Pillow apart, the plain name is the one by torchvision
        from transformers.models.qwen2_vl import image_processing_pil_qwen2_vl  # noqa: F401
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor as kind
    except ImportError:
        from transformers.models.qwen2_vl.image_processing_qwen2_vl_fast import Qwen2VLImageProcessorFast as kind
    return kind(**PROCESSOR)


class Peer:
    """The model, made once for all parts."""

    def __init__(self, clock, config_file=None):
        from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

        self.clock = clock
        sizes = json.loads(config_file.read_text()) if config_file else clock.size(QWEN3_VL_2B, SMOKE)
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with clock.device:
                self.model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**sizes)).eval()
        finally:
            torch.set_default_dtype(before)
        self.model.requires_grad_(False)
        self.config = self.model.config
        self.tower, self.language = self.model.model.visual, self.model.model.language_model
        self.best = {}  # what the sum of the best parts is made of

    def tokens(self, count, batch=1):
        generator = torch.Generator().manual_seed(count)
        highest = self.config.vision_start_token_id
        return torch.randint(0, highest, (batch, count), generator=generator).to(self.clock.device)

    def processor(self):
        return image_processor()

    def smallest(self, name, value):
        if value is not None:
            self.best[name] = min(value, self.best.get(name, value))


def captured_tower(peer, patches, grid):
    """The tower from its own modules, with what depends on the grid alone computed beforehand, as its host-side
    lists cannot be captured. -> a body to capture"""
    tower, stolen = peer.tower, {}

    def steal(module, args, kwargs):
        stolen["args"], stolen["kwargs"] = args, kwargs

    hook = tower.blocks[0].register_forward_pre_hook(steal, with_kwargs=True)
    tower(patches, grid_thw=grid)
    hook.remove()
    kwargs = dict(stolen["kwargs"])
    start = stolen["args"][0] if stolen["args"] else kwargs.pop("hidden_states")
    rest = list(stolen["args"][1:])
    if "cu_seqlens" in kwargs:
        kwargs["cu_seqlens"] = kwargs["cu_seqlens"].cpu()  # it is read on the host
    elif rest:
        rest[0] = rest[0].cpu()
    places = start - tower.patch_embed(patches)

    def body():
        hidden, taps = tower.patch_embed(patches) + places, []
        for number, block in enumerate(tower.blocks):
            hidden = block(hidden, *rest, **kwargs)
            if number in tower.deepstack_visual_indexes:
                merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(number)]
                taps.append(merger(hidden))
        return tower.merger(hidden), taps

    return body


def merged(result):
    """The merged tokens of a tower's result, in any version's form."""
    found = getattr(result, "pooler_output", None)
    return found if found is not None else result[0]


def measure_tower(clock, peer):
    for name, height, width in (("tower/4096", *clock.size((64, 64), (8, 8))),
                                ("tower/272", *clock.size((8, 34), (4, 8)))):
        size = peer.tower.patch_embed.proj.weight[0].numel()
        patches = torch.randn(height * width, size, device=clock.device, dtype=torch.bfloat16)
        grid = torch.tensor([[1, height, width]], device=clock.device)

        def eager():
            return peer.tower(patches, grid_thw=grid)

        def graph(backends):
            with sdpa_kernel(backends):
                replay, result = clock.graph(captured_tower(peer, patches, grid))
            check_close("the captured tower", result[0], merged(eager()))
            return clock.ms(replay)

        peer.smallest(name, attempt(name, "transformers eager", lambda: clock.ms(eager)))
        for label, backend in ATTENTION.items():
            if clock.smoke == (label == "math"):  # what there is without a device; far too slow on one
                peer.smallest(name, attempt(name, f"transformers' modules, CUDA graph, {label} attention",
                                            lambda: graph(backend)))
        if clock.use_compile:
            compiled = torch.compile(captured_tower(peer, patches, grid), mode="max-autotune-no-cudagraphs")
            attempt(name, "transformers' modules, compiled, CUDA graph", lambda: clock.ms(clock.graph(compiled)[0]))


def step(peer, tokens, positions=None, cache=None, mask=None):
    """Logits of the last token. -> (logits, cache)"""
    extra = {"attention_mask": mask} if mask is not None else {}
    if positions is not None:
        extra["position_ids"] = positions
        if "cache_position" in inspect.signature(peer.language.forward).parameters:
            extra["cache_position"] = positions[0]
    out = peer.language(input_ids=tokens, past_key_values=cache, use_cache=True, **extra)
    return peer.model.lm_head(out.last_hidden_state[:, -1]), out.past_key_values


def measure_prefill(clock, peer):
    for name, count in (("prefill/1056", clock.size(1056, 24)), ("prefill/100", clock.size(100, 12))):
        tokens = peer.tokens(count)

        def graph():
            replay, logits = clock.graph(lambda: step(peer, tokens)[0])
            check_close("the captured prefill", logits, step(peer, tokens)[0])
            return clock.ms(replay)

        eager = attempt(name, "transformers eager", lambda: clock.ms(
            lambda: peer.model(input_ids=tokens, use_cache=True, logits_to_keep=1)))
        peer.smallest(name, eager)
        peer.smallest(name, attempt(name, "transformers' modules, CUDA graph", graph))


def rewind(cache, length):
    """Lets a static cache go on behind `length` tokens; what it counts by differs between versions."""
    for layer in cache.layers:
        count = getattr(layer, "cumulative_length", None)
        if isinstance(count, torch.Tensor):
            count.fill_(length)
        elif count is not None:
            layer.cumulative_length = length


def static_decode(peer, prompt):
    """-> (a body that decodes one token in place, reset, the logits it fills)"""
    from transformers import StaticCache

    clock, length = peer.clock, prompt.shape[1]
    room = length + 2 * DECODED_TOKENS
    cache = StaticCache(config=peer.config.text_config, max_cache_len=room)
    places = torch.arange(room, device=clock.device)
    token, position = peer.tokens(1), torch.full((1, 1), length, device=clock.device)
    logits = torch.empty(1, peer.config.text_config.vocab_size, device=clock.device, dtype=torch.bfloat16)
    step(peer, prompt, torch.arange(length, device=clock.device)[None], cache)

    def reset():
        rewind(cache, length)
        position.fill_(length)
        token.copy_(peer.tokens(1))

    def body():
        mask = (places <= position)[None, None]  # given whole, nothing is asked of the host for it
        logits.copy_(step(peer, token, position, cache, mask)[0])
        token.copy_(logits.argmax(-1, keepdim=True))
        position.add_(1)
        return logits

    return body, reset, logits


def tokens_per_s(clock, body, reset):
    rates = []
    for _ in range(4):  # the first is a warm-up
        reset()
        clock.wait()
        start = time.perf_counter()
        for _ in range(DECODED_TOKENS):
            body()
        clock.wait()
        rates.append(DECODED_TOKENS / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def measure_decode(clock, peer):
    """Batch 1 after a prompt of 1,056 tokens."""
    prompt, held = peer.tokens(clock.size(1056, 12)), {}
    first, captured = peer.tokens(1), "transformers' modules, static cache, CUDA graph"

    def restart():
        held["cache"] = step(peer, prompt)[1]
        held["token"] = first

    def eager():
        out = peer.model(input_ids=held["token"], past_key_values=held["cache"], use_cache=True)
        held["logits"] = out.logits[:, -1]
        held["token"] = held["logits"].argmax(-1, keepdim=True)

    restart()
    start = time.perf_counter()
    for number in range(DECODED_TOKENS):
        if number == 4:  # the first are a warm-up
            clock.wait()
            start = time.perf_counter()
        eager()
    clock.wait()
    rate = (DECODED_TOKENS - 4) / (time.perf_counter() - start)
    emit("decode/1", "transformers eager, dynamic cache", rate, "tokens/s")
    restart()
    eager()
    try:
        body, reset, logits = static_decode(peer, prompt)
        reset()
        body()
        check_close("decode with a static cache", logits, held["logits"])
        emit("decode/1", "transformers eager, static cache", tokens_per_s(clock, body, reset), "tokens/s")
        if clock.use_compile:
            compiled = torch.compile(body, mode="reduce-overhead")
            emit("decode/1", "transformers compiled, static cache", tokens_per_s(clock, compiled, reset), "tokens/s")
        replay, _ = clock.graph(body)
        reset()
        replay()
        clock.wait()
        check_close("decode as a graph", logits, held["logits"])
        emit("decode/1", captured, tokens_per_s(clock, replay, reset), "tokens/s")
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        note("decode/1", captured, error)


def prompt_of(peer, grids, batch):
    config = peer.config
    pads = int(grids[0].prod()) // config.vision_config.spatial_merge_size ** 2
    ids = [config.vision_start_token_id] + [config.image_token_id] * pads + [config.vision_end_token_id]
    picture = torch.tensor([ids], device=peer.clock.device).expand(batch, -1)
    return torch.cat([picture, peer.tokens(QUESTION_TOKENS).expand(batch, -1)], dim=1)


def ask(peer, processor, pictures, device):
    """Pictures in host memory -> (the first token of each, cache)"""
    seen = processor(images=pictures, return_tensors="pt", **({"device": device} if device else {}))
    seen = {key: value.to(peer.clock.device) for key, value in seen.items()}
    prompt = prompt_of(peer, seen["image_grid_thw"], len(pictures))
    out = peer.model(input_ids=prompt, mm_token_type_ids=(prompt == peer.config.image_token_id).int(), use_cache=True,
                     logits_to_keep=1, pixel_values=seen["pixel_values"].to(torch.bfloat16),
                     image_grid_thw=seen["image_grid_thw"])
    return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values


def host_pictures(clock, count, height, width):
    side = max(height, width)
    pixels = random_pixels(clock, count, side)[:, :height, :width].permute(0, 3, 1, 2).cpu()
    return [picture.contiguous() for picture in pixels]


def measure_first_token(clock, peer):
    processor = peer.processor()
    device = str(clock.device)
    whole = host_pictures(clock, 1, *clock.size((1024, 1024), (256, 256)))
    few = host_pictures(clock, 1, *clock.size((128, 544), (256, 256)))  # 8 x 34 patches: 68 tokens

    def time_of(pictures, place):
        return clock.wall_ms(lambda: ask(peer, processor, pictures, place)[0].tolist())

    on_device = attempt("processor/1024x1024", "transformers, on the device", lambda: clock.wall_ms(
        lambda: processor(images=whole, return_tensors="pt", device=device)))
    attempt("processor/1024x1024", "transformers, on the CPU", lambda: clock.wall_ms(
        lambda: processor(images=whole, return_tensors="pt"), 3))
    peer.smallest("processor", on_device)
    for label, place in (("", device), (", processor on the CPU", None)):
        peer_name = f"transformers eager, all 1,024 tokens{label}"
        found = attempt("first-token/full", peer_name, lambda: time_of(whole, place))
        if found is not None:
            emit("first-token/68", peer_name, found)
    attempt("first-token/68", "transformers eager, a picture of 68 tokens", lambda: time_of(few, device))
    for name, parts in (("first-token/full", ("tower/4096", "prefill/1056")),
                        ("first-token/68", ("tower/272", "prefill/100"))):
        if all(part in peer.best for part in ("processor", *parts)):
            total = sum(peer.best[part] for part in ("processor", *parts))
            emit(name, "sum of torch's best parts: processor, tower, prefill", total)


def answer_batch(clock, peer, processor, pictures, answer_tokens):
    """-> seconds to the first tokens of all, and to the end of their answers"""
    clock.wait()
    start = time.perf_counter()
    token, cache = ask(peer, processor, pictures, str(clock.device))
    clock.wait()
    first = time.perf_counter()
    for _ in range(answer_tokens - 1):
        logits = peer.model(input_ids=token, past_key_values=cache, use_cache=True).logits
        token = logits[:, -1].argmax(-1, keepdim=True)
    clock.wait()
    return first - start, time.perf_counter() - start


def measure_in_flight(clock, peer):
    """Requests in one batch, every answer of 32 tokens: pictures a second, and tokens a second after the first."""
    processor, requests = peer.processor(), clock.size(REQUESTS, 2)
    whole = host_pictures(clock, requests, *clock.size((1024, 1024), (256, 256)))
    few = host_pictures(clock, requests, *clock.size((128, 544), (256, 256)))
    for label, names, pictures in (("all 1,024 tokens", ("in-flight/32/full", "in-flight/32"), whole),
                                   ("pictures of 68 tokens", ("in-flight/32",), few)):
        answer_batch(clock, peer, processor, pictures, 2)  # a warm-up
        first, end = answer_batch(clock, peer, processor, pictures, DECODED_TOKENS)
        for name in names:
            emit(name, f"transformers batched, {label}", requests / end, "images/s")
        emit(f"{names[0]}/first-token", f"transformers batched, {label}", requests / first, "images/s")
        emit(f"{names[0]}/decode", f"transformers batched, {label}",
             requests * (DECODED_TOKENS - 1) / (end - first), "tokens/s")
