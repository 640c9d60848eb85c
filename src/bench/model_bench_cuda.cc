// SPDX-License-Identifier: Apache-2.0
// A model on a GPU, piece by piece: tower, prefill and decode by the host's clock, from the call
// until the device has done it.
#include <algorithm>
#include <cmath>
#include <random>

#include "bench/gpu_model_bench.h"
#include "bench/in_flight_bench_cuda.h"
#include "patches/bench_patches_cuda.h"

namespace fovea {
namespace {

constexpr Size kCanvas = kEmulated ? Size{128, 128} : Size{1024, 1024};
constexpr int kFrames = 1;       // of a still image
constexpr double kSame = 0.999;  // the cosine of what two ways of computing in bf16 give

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

// Places of so many patches of level 0, cell by cell.
std::vector<PatchPlace> first_places(int patches) {
  const int cols = grid_at(kCanvas, 0).cols;
  std::vector<PatchPlace> places;
  for (int i = 0; i < patches; ++i) {
    const int cell = i / kPatchesPerCell;
    const int row = cell / cols * 2 + i % kPatchesPerCell / 2;
    const int col = cell % cols * 2 + i % 2;
    places.push_back({static_cast<float>(row), static_cast<float>(col), 0});
  }
  return places;
}

class ModelRows {
 public:
  ModelRows(CudaBench& bench, const ModelConfig& config, CudaTower& tower, CudaDecoder& decoder)
      : bench_(bench), config_(config), tower_(tower), decoder_(decoder) {}

  // Emulated, 16 rows or less take longer than some more, which another kernel multiplies.
  void run() {
    tower("tower/4096", kEmulated ? 24 : 4096, "wanted <= 9 ms");
    tower("tower/272", kEmulated ? 20 : 272, "wanted <= 0.8 ms");
    layers_ = kEmulated ? 1 : config_.text.num_layers;
    prefill("prefill/1056", kEmulated ? 36 : 1056, "wanted <= 8 ms");
    prefill("prefill/100", kEmulated ? 34 : 100, "wanted <= 2 ms");
    layers_ = config_.text.num_layers;
    decode();
  }

 private:
  // The features and those of the taps.
  std::vector<float> values_of(const VisualTokens& tokens) {
    const auto& there = static_cast<const TokensOnDevice&>(*tokens.on_device);
    std::vector<float> values;
    for (const bf16 value : bench_.on_host(there.values.data(), there.values.size()))
      values.push_back(to_float(value));
    return values;
  }
  std::vector<float> encode(std::span<const TowerRequest> requests) {
    auto tokens = tower_.run(requests, EncodeOptions(), kFrames);
    if (!tokens) {
      bench_.check(tokens.error());
      return {};
    }
    return values_of(tokens->front());
  }

  // The same patches twice: alone, and packed with themselves, which other kernels compute.
  void tower(const char* name, int patches, const char* wanted) {
    if (!bench_.report().wants(name)) return;
    bench_.report().progress(name);
    const CudaAccelerator::Lock lock(bench_.device());
    const auto input = tower_.input(2 * patches);
    if (!input) {
      bench_.check(input.error());
      return bench_.settle(name);
    }
    const std::vector<PatchPlace> places = first_places(patches);
    for (int i = 0; i < 2; ++i) {
      const int64_t values = int64_t{patches} * static_cast<int64_t>(patch_values(kFrames));
      fill_random_cuda(bench_.get(), input->patches + i * values, values, 9, 1);
      bench_.stream().upload(input->places + int64_t{i} * patches, places.data(), places.size());
    }
    const TowerRequest request{patches, kCanvas, nullptr, 0, nullptr};
    const TowerRequest both[] = {request, request};
    const std::vector<float> alone = encode({both, 1});
    const std::vector<float> packed = encode({both, 2});
    const bool verified = !alone.empty() && all_finite(alone) && cosine(alone, packed) > kSame;
    const double ms = bench_.host_ms_of([&] {
      const auto tokens = tower_.run({&request, 1}, EncodeOptions(), kFrames);
      if (!tokens) bench_.check(tokens.error());
    });
    const double flop = tower_flop(patches);
    const auto limit = limit_of(flop, bench_.ceilings.product_flop_per_ms);
    bench_.add(verified,
               {name, ms, "ms", limit, text_of("%.1f TFLOP/s; %s", flop / ms / 1e9, wanted)});
  }
  double tower_flop(double patches) const {
    const VisionConfig& vision = config_.vision;
    const double hidden = vision.hidden_size;
    const double block =
        2 * patches * (4 * hidden * hidden + 2 * hidden * vision.intermediate_size) +
        4 * patches * patches * hidden;
    const double merger = 2 * patches / kPatchesPerCell * vision.merged_size() *
                          (vision.merged_size() + vision.out_hidden_size);
    return vision.depth * block +
           2 * patches * static_cast<double>(patch_values(kFrames)) * hidden +
           static_cast<double>(1 + vision.deepstack_taps.size()) * merger;
  }
  double text_flop(double tokens) const {
    const TextConfig& text = config_.text;
    const double q = text.num_heads * text.head_dim;
    const double kv = text.num_kv_heads * text.head_dim;
    const double layer =
        2 * tokens * text.hidden_size * (2 * q + 2 * kv + 3.0 * text.intermediate_size) +
        2 * tokens * tokens * q;
    return text.num_layers * layer;
  }

  // Random tokens in passes of `chunk`: the logits after the last.
  std::vector<float> read(const PromptTokens& prompt, DecoderKeyValues* memory, int chunk) {
    const auto count = static_cast<int>(prompt.ids.size());
    for (int first = 0; first < count; first += chunk) {
      const int end = std::min(first + chunk, count);
      const PassRun request{
          prompt.ids_of(first, end), prompt.positions_of(first, end), {}, memory, first};
      const CudaDecoder::PassOptions options = pass_options(end == count);
      if (!bench_.check(decoder_.run({&request, 1}, options))) return {};
    }
    return bench_.on_host(decoder_.logits(), static_cast<size_t>(config_.text.vocab_size));
  }
  CudaDecoder::PassOptions pass_options(bool logits) const {
    CudaDecoder::PassOptions options;
    options.layers = layers_;
    options.logits = logits;
    return options;
  }

  void prefill(const char* name, int tokens, const char* wanted) {
    if (!bench_.report().wants(name)) return;
    bench_.report().progress(name);
    const CudaAccelerator::Lock lock(bench_.device());
    std::shared_ptr<OnDevice> owner;
    const auto memory = decoder_.room_for(owner, 0, tokens);
    if (!memory) {
      bench_.check(memory.error());
      return bench_.settle(name);
    }
    const PromptTokens prompt(tokens, config_.text.vocab_size, 3);
    const std::vector<float> whole = read(prompt, *memory, tokens);
    const std::vector<float> in_chunks = read(prompt, *memory, kEmulated ? 17 : 37);
    const bool verified = !whole.empty() && all_finite(whole) && cosine(whole, in_chunks) > kSame;
    const PassRun request{prompt.ids, prompt.positions, {}, *memory, 0};
    const double ms = bench_.host_ms_of([&] {
      bench_.check(decoder_.run({&request, 1}, pass_options(true)));
    });
    const auto by_product = limit_of(text_flop(tokens), bench_.ceilings.product_flop_per_ms);
    const auto by_memory =
        limit_of(static_cast<double>(decoder_.bytes()), bench_.ceilings.read_bytes_per_ms);
    bench_.add(verified, {name, ms, "ms",
                          by_product && by_memory ? std::max(by_product, by_memory) : by_memory,
                          text_of("%.0f tokens/s, %.1f TFLOP/s; %s", 1000 * tokens / ms,
                                  text_flop(tokens) / ms / 1e9, wanted)});
  }

  // What follows a prompt of 1,056 tokens, drawn on the device and seen by the host one by one.
  void decode() {
    const char* name = "decode/1";
    if (!bench_.report().wants(name)) return;
    bench_.report().progress(name);
    constexpr int kPrompt = kEmulated ? 2 : 1056;
    constexpr int kWarm = kEmulated ? 1 : 8;
    constexpr int kSteps = kEmulated ? 2 : 136;
    PromptTokens prompt(kPrompt, config_.text.vocab_size, 4);
    DecoderMemory memory;
    memory.reserved_tokens = kPrompt + kSteps;
    ForwardRequest request{{prompt.ids, prompt.positions, {}}, &memory};
    request.options.leave_logits = true;
    decoder_.work({&request, 1});
    bench_.check(request.status);
    auto answer = decoder_.answer(memory, {{}, prompt.ids, static_cast<float>(kPrompt), kSteps});
    if (!answer) bench_.check(answer.error());
    std::chrono::steady_clock::time_point start;
    for (int i = 0; i < kSteps && bench_.good(); ++i) {
      if (i == kWarm) start = std::chrono::steady_clock::now();
      const auto token = (*answer)->next();
      if (token)
        prompt.add(token->id);
      else
        bench_.check(token.error());
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (!bench_.good()) return bench_.settle(name);
    const double ms = took.count() / (kSteps - kWarm);

    const CudaAccelerator::Lock lock(bench_.device());
    auto* const kept = static_cast<DecoderKeyValues*>(memory.on_device.get());
    const bool verified = is_likely(prompt, kept);
    const auto limit =
        limit_of(static_cast<double>(decoder_.bytes()), bench_.ceilings.read_bytes_per_ms);
    bench_.add(verified, {name,
                          1000 / ms,
                          "tokens/s",
                          {},
                          text_of("%.3f ms a token, %.0f %% of reading the weights; wanted >= 900",
                                  ms, percent_of(limit, ms))});
  }

  // Whether the last token follows the others when all of them are read at once, but for what bf16
  // leaves open.
  bool is_likely(const PromptTokens& tokens, DecoderKeyValues* memory) {
    PromptTokens before = tokens;
    before.ids.pop_back();
    before.positions.pop_back();
    const std::vector<float> logits = read(before, memory, static_cast<int>(before.ids.size()));
    if (logits.empty() || !all_finite(logits)) return false;
    const float best = *std::max_element(logits.begin(), logits.end());
    return best - logits[static_cast<size_t>(tokens.ids.back())] <= 0.05f + 0.02f * std::abs(best);
  }

  CudaBench& bench_;
  const ModelConfig& config_;
  CudaTower& tower_;
  CudaDecoder& decoder_;
  int layers_ = 0;  // of a pass
};

}  // namespace
}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_bench_gpu_model(
    const fovea::GpuModel& model, fovea::GpuBench& report) {
  auto gpu = std::static_pointer_cast<fovea::CudaAccelerator>(model.device);
  auto& tower = static_cast<fovea::CudaTower&>(*model.tower);
  auto& decoder = static_cast<fovea::CudaDecoder&>(*model.decoder);
  fovea::CudaBench bench(gpu, report);
  fovea::ModelRows(bench, *model.config, tower, decoder).run();
  fovea::bench_in_flight_cuda(bench, *model.config, tower, decoder);
  bench.settle("model");
}
