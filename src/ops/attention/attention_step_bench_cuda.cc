// SPDX-License-Identifier: Apache-2.0
// Attention of one token of Qwen3-VL-2B: rotating and attending in two kernels, and in one, with
// its keys shared in several ways.
#include <algorithm>
#include <cmath>

#include "device/cuda/gpu_bench.h"
#include "ops/attention/attention_step_cuda.h"

namespace fovea {
namespace {

constexpr int kHeads = 16;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 128;
constexpr int kCacheLayers =
    28;  // taken one after the other: a layer of a decoder is never in the cache

constexpr StepSplit kSplits[] = {
    {.cluster = 8, .cluster_warps = 16},           {.cluster = 8, .cluster_warps = 8},
    {.cluster = 4, .cluster_warps = 16},           {.cluster = 4, .cluster_warps = 8},
    {.cluster = 0, .warps = 8, .part_keys = 64},   {.cluster = 0, .warps = 8, .part_keys = 128},
    {.cluster = 0, .warps = 16, .part_keys = 128}, {.cluster = 0, .warps = 16, .part_keys = 256},
};

std::string variant_of(const StepSplit& split) {
  return split.cluster > 0 ? text_of("/cluster%dx%d", split.cluster, split.cluster_warps)
                           : text_of("/%dx%d", split.warps, split.part_keys);
}

class StepBench {
 public:
  StepBench(CudaBench& bench, AttentionWorkspace& workspace, int keys)
      : bench_(bench),
        workspace_(workspace),
        keys_(kEmulated ? std::min(keys, 70) : keys),
        layers_(kEmulated ? 2 : kCacheLayers),
        name_("attention/step" + std::to_string(keys)) {}

  void run() {
    if (!make()) return bench_.settle(name_);
    const auto two = [&](int layer) {
      const RotaryJob job = rotary(layer);
      rotate_heads_cuda(bench_.get(), job);
      attention_cuda(bench_.get(), shape(layer), sequence_.data(), q_.data(), kRow, out_.data(),
                     kRow, workspace_, bench_.device().kernels());
    };
    wanted_ = result_of(two);
    time(two, name_ + "/two-kernels");
    for (const StepSplit& split : kSplits) {
      if (split.cluster > 0 && !workspace_.clusters()) continue;
      const auto one = [&](int layer) {
        attention_step_cuda(bench_.get(),
                            {.rotary = rotary(layer),
                             .scale = kScale,
                             .max_keys = keys_,
                             .out = out_.data(),
                             .split = split},
                            workspace_);
      };
      time(one, name_ + variant_of(split));
    }
  }

 private:
  static constexpr int64_t kRow = int64_t{kHeads} * kHeadDim;
  static constexpr float kScale = 0.0883883476f;  // 1 / sqrt(head_dim)

  bool make() {
    constexpr size_t kQkv = size_t{kHeads + 2 * kKvHeads} * kHeadDim;
    const size_t all =
        static_cast<size_t>(layers_) * kKvHeads * kHeadDim * static_cast<size_t>(keys_);
    if (!bench_.make(qkv_, kQkv) || !bench_.make(q_, kRow) || !bench_.make(out_, kRow) ||
        !bench_.make(memory_keys_, all) || !bench_.make(memory_values_, all))
      return false;
    fill_random_cuda(bench_.get(), qkv_.data(), kQkv, 3, 4);
    fill_random_cuda(bench_.get(), memory_keys_.data(), static_cast<int64_t>(all), 4, 1);
    fill_random_cuda(bench_.get(), memory_values_.data(), static_cast<int64_t>(all), 5, 1);
    AttentionSequence sequence;
    sequence.q_count = 1;
    sequence.keys = memory_keys_.data();
    sequence.values = memory_values_.data();
    sequence.capacity = sequence.key_count = keys_;
    sequence.first_query = keys_ - 1;
    const RowPlace place{memory_keys_.data(), memory_values_.data(), keys_, keys_ - 1};
    return bench_.upload(sequence_, std::vector{sequence}) &&
           bench_.upload(place_, std::vector{place}) &&
           bench_.upload(norm_, std::vector<float>(kHeadDim, 1.0f)) &&
           bench_.upload(cos_, std::vector<float>(kHeadDim / 2, 0.8f)) &&
           bench_.upload(sin_, std::vector<float>(kHeadDim / 2, 0.6f));
  }
  RotaryJob rotary(int layer) {
    RotaryJob job;
    job.qkv = qkv_.data();
    job.rows = 1;
    job.heads = kHeads;
    job.kv_heads = kKvHeads;
    job.head_dim = kHeadDim;
    job.q_norm = job.k_norm = norm_.data();
    job.eps = 1e-6f;
    job.cos = cos_.data();
    job.sin = sin_.data();
    job.q = q_.data();
    job.places = place_.data();
    job.layer = layer;
    return job;
  }
  AttentionShape shape(int layer) const {
    AttentionShape shape;
    shape.max_q_count = 1;
    shape.max_key_count = keys_;
    shape.heads = kHeads;
    shape.kv_heads = kKvHeads;
    shape.head_dim = kHeadDim;
    shape.scale = kScale;
    shape.causal = true;
    shape.layer = layer;
    return shape;
  }

  template <class Enqueue>
  std::vector<bf16> result_of(const Enqueue& enqueue) {
    cudaMemsetAsync(out_.data(), 0xFF, out_.bytes(), bench_.get());
    enqueue(layers_ - 1);
    return bench_.on_host(out_.data(), out_.size());
  }
  template <class Enqueue>
  bool verify(const Enqueue& enqueue) {
    const auto got = result_of(enqueue);
    // Two roundings to bf16 of the same value, added in another order.
    for (size_t i = 0; i < got.size(); ++i)
      if (!(std::abs(to_float(got[i]) - to_float(wanted_[i])) <=
            1e-4f + std::abs(to_float(wanted_[i])) / 100))
        return false;
    return true;
  }
  template <class Enqueue>
  void time(const Enqueue& enqueue, const std::string& name) {
    const bool verified = verify(enqueue);
    const double ms = bench_.ms_of(layers_, [&](int call) { enqueue(call % layers_); });
    const double bytes = 2.0 * 2.0 * kKvHeads * kHeadDim * keys_;
    bench_.add(verified, {name, ms, "ms", limit_of(bytes, bench_.ceilings.read_bytes_per_ms),
                          text_of("%.0f GB/s", bytes / ms / 1e6)});
  }

  CudaBench& bench_;
  AttentionWorkspace& workspace_;
  int keys_;
  int layers_;
  std::string name_;
  std::vector<bf16> wanted_;
  DeviceMemory<bf16> qkv_;
  DeviceMemory<bf16> q_;
  DeviceMemory<bf16> out_;
  DeviceMemory<bf16> memory_keys_;
  DeviceMemory<bf16> memory_values_;
  DeviceMemory<float> norm_;
  DeviceMemory<float> cos_;
  DeviceMemory<float> sin_;
  DeviceMemory<RowPlace> place_;
  DeviceMemory<AttentionSequence> sequence_;
};

void run_steps(CudaBench& bench) {
  AttentionWorkspace workspace;
  if (!bench.check(workspace.open(bench.get()))) return;
  for (const int keys : {300, 1100, 2000}) StepBench(bench, workspace, keys).run();
}

const CudaBenchRegistration kStepsRegistered(kKernelPhase, "attention/step", run_steps);

}  // namespace
}  // namespace fovea
