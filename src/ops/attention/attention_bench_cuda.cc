// SPDX-License-Identifier: Apache-2.0
// Attention of the shapes of Qwen3-VL-2B: each by the kernel that takes it, and by others that
// could.
#include <algorithm>
#include <cmath>

#include "device/cuda/gpu_bench.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_kernels_cuda.h"
#include "ops/attention/attention_long_cuda.h"

namespace fovea {
namespace {

// Queries so large that each looks at a few keys: a mean over all would pass for too much.
constexpr float kScaleQ = 8;
constexpr uint32_t kSeedQ = 3;
constexpr uint32_t kSeedK = 4;
constexpr uint32_t kSeedV = 5;

struct AttentionCase {
  const char* name;
  int queries;
  int keys;
  int heads;
  int kv_heads;
  int head_dim;
  int layers;  // of keys and values, taken one after the other: a layer of a decoder is never in
               // the cache
  bool causal;
  // Small: the queries of a call are what the one before wrote, so that its time is its latency.
  bool chained = false;
  int sequences = 1;  // of so many queries and keys each
};

constexpr AttentionCase kCases[] = {
    {"tower4096", 4096, 4096, 16, 16, 64, 1, false},
    {"tower1024", 1024, 1024, 16, 16, 64, 1, false},
    {"tower512", 512, 512, 16, 16, 64, 1, false},
    {"tower272", 272, 272, 16, 16, 64, 1, false, true},
    {"prefill1056", 1056, 1056, 16, 8, 128, 1, true},
    {"prefill4096", 4096, 4096, 16, 8, 128, 1, true},
    {"batch8x4096", 4096, 4096, 16, 16, 128, 1, false, false, 8},
    {"batch8x4096causal", 4096, 4096, 16, 16, 128, 1, true, false, 8},
    {"prefill100", 100, 100, 16, 8, 128, 1, true, true},
    {"decode1100", 1, 1100, 16, 8, 128, 28, true},
};

AttentionCase sized(AttentionCase one) {
  if (kEmulated) {
    one.queries = std::min(one.queries, 20);
    one.keys = std::min(one.keys, one.queries == 1 ? 70 : 20);
    one.heads /= 8;
    one.kv_heads /= 8;
    one.layers = std::min(one.layers, 2);
    one.sequences = std::min(one.sequences, 2);
  }
  return one;
}

class AttentionBench {
 public:
  AttentionBench(CudaBench& bench, AttentionWorkspace& workspace, const AttentionCase& given)
      : bench_(bench), workspace_(workspace), case_(sized(given)), name_(given.name) {}

  void run() {
    if (!make()) return bench_.settle("attention/" + name_);
    const KernelChoice choice = bench_.device().kernels();
    const auto own = [&](int layer, const bf16* q, bf16* out) {
      attention_known_cuda(bench_.get(), shape(layer), sequences_, on_device_.data(), q, row(), out,
                           row(), workspace_, choice);
    };
    time(own, "attention/" + name_);
    if (choice != KernelChoice::kBest || !workspace_.tensor_cores()) return;
    const bool takes_long = attention_long_takes(shape(0), sequences_, row(), workspace_);
    if (case_.chained || takes_long) run_flash();
    if (case_.chained) run_short();
    if (takes_long) run_long();
  }

 private:
  AttentionCall call(int layer, const bf16* q, bf16* out) const {
    return attention_call(shape(layer), on_device_.data(), q, row(), out, row());
  }
  // The kernels between which is chosen by the number of rows and keys.
  void run_flash() {
    time(
        [&](int layer, const bf16* q, bf16* out) {
          attention_flash_cuda(bench_.get(), shape(layer), call(layer, q, out), workspace_);
        },
        "attention/" + name_ + "/flash");
  }
  void run_long() {
    time(
        [&](int layer, const bf16* q, bf16* out) {
          bench_.check(attention_long_cuda(bench_.get(), shape(layer), sequences_, q, row(), out,
                                           row(), workspace_));
        },
        "attention/" + name_ + "/long");
  }
  void run_short() {
    for (int warps = 1; warps <= 3; ++warps)
      time(
          [&](int layer, const bf16* q, bf16* out) {
            attention_short_cuda(bench_.get(), shape(layer), call(layer, q, out), warps);
          },
          "attention/" + name_ + "/short" + std::to_string(16 * warps));
  }

  int all_queries() const { return case_.sequences * case_.queries; }
  int64_t row() const { return int64_t{case_.heads} * case_.head_dim; }
  size_t layer_values() const {
    return static_cast<size_t>(case_.kv_heads) * static_cast<size_t>(case_.keys) *
           static_cast<size_t>(case_.head_dim);
  }

  bool make() {
    const size_t rows = static_cast<size_t>(all_queries()) * static_cast<size_t>(row());
    const size_t all =
        layer_values() * static_cast<size_t>(case_.layers) * static_cast<size_t>(case_.sequences);
    if (!bench_.make(q_, rows) || !bench_.make(out_, rows) || !bench_.make(keys_, all) ||
        !bench_.make(values_, all))
      return false;
    fill_random_cuda(bench_.get(), keys_.data(), static_cast<int64_t>(all), kSeedK, 1);
    fill_random_cuda(bench_.get(), values_.data(), static_cast<int64_t>(all), kSeedV, 1);
    for (int i = 0; i < case_.sequences; ++i) {
      const size_t first = layer_values() * static_cast<size_t>(case_.layers * i);
      AttentionSequence sequence;
      sequence.q_begin = i * case_.queries;
      sequence.q_count = case_.queries;
      sequence.keys = keys_.data() + first;
      sequence.values = values_.data() + first;
      sequence.capacity = case_.keys;
      sequence.key_count = case_.keys;
      sequence.first_query = case_.keys - case_.queries;
      sequences_.push_back(sequence);
    }
    return bench_.upload(on_device_, sequences_);
  }
  AttentionShape shape(int layer) const {
    AttentionShape shape;
    shape.sequences = case_.sequences;
    shape.max_q_count = case_.queries;
    shape.max_key_count = case_.keys;
    shape.heads = case_.heads;
    shape.kv_heads = case_.kv_heads;
    shape.head_dim = case_.head_dim;
    shape.scale = scale();
    shape.causal = case_.causal;
    shape.layer = layer;
    return shape;
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(case_.head_dim)); }

  // out = softmax(scale q k^T) v of one query of all sequences' and one head, in doubles.
  std::vector<double> expected(int query, int head, int layer) const {
    const int group = case_.heads / case_.kv_heads;
    const int64_t before = int64_t{query / case_.queries} * case_.layers + layer;
    const int64_t first = before * static_cast<int64_t>(layer_values()) +
                          static_cast<int64_t>(head / group) * case_.keys * case_.head_dim;
    const int seen =
        case_.causal ? case_.keys - case_.queries + query % case_.queries + 1 : case_.keys;
    std::vector<double> out(static_cast<size_t>(case_.head_dim));
    double total = 0;
    for (int key = 0; key < seen; ++key) {
      const int64_t at = first + int64_t{key} * case_.head_dim;
      double score = 0;
      for (int i = 0; i < case_.head_dim; ++i)
        score += double{random_value(kSeedQ, query * row() + int64_t{head} * case_.head_dim + i,
                                     kScaleQ)} *
                 random_value(kSeedK, at + i, 1);
      const double weight = std::exp(score * scale());
      total += weight;
      for (int i = 0; i < case_.head_dim; ++i)
        out[static_cast<size_t>(i)] += weight * random_value(kSeedV, at + i, 1);
    }
    for (double& value : out) value /= total;
    return out;
  }

  template <class Enqueue>
  bool verify(const Enqueue& enqueue) {
    fill_random_cuda(bench_.get(), q_.data(), static_cast<int64_t>(q_.size()), kSeedQ, kScaleQ);
    cudaMemsetAsync(out_.data(), 0xFF, out_.bytes(), bench_.get());
    const int layer = case_.layers - 1;
    enqueue(layer, q_.data(), out_.data());
    const auto out = bench_.on_host(out_.data(), out_.size());
    for (int i = 0; i < 16; ++i) {
      const int query = static_cast<int>(int64_t{i} * 12379 % all_queries());
      const int head = i % case_.heads;
      const auto wanted = expected(query, head, layer);
      for (int j = 0; j < case_.head_dim; ++j) {
        const double got =
            to_float(out[static_cast<size_t>(query * row() + int64_t{head} * case_.head_dim + j)]);
        // Weights and results are rounded to bf16, which has 8 bits.
        if (!(std::abs(got - wanted[static_cast<size_t>(j)]) <= 0.02)) return false;
      }
    }
    return true;
  }

  template <class Enqueue>
  void time(const Enqueue& enqueue, const std::string& name) {
    const bool verified = verify(enqueue);
    const double ms = bench_.ms_of(case_.layers, [&](int call) {
      const bool back = case_.chained && call % 2 != 0;
      enqueue(call % case_.layers, (back ? out_ : q_).data(), (back ? q_ : out_).data());
    });
    const double pairs = case_.causal ? 0.5 * case_.queries * (2.0 * case_.keys - case_.queries + 1)
                                      : static_cast<double>(case_.queries) * case_.keys;
    const double flop = 4.0 * pairs * case_.sequences * case_.heads * case_.head_dim;
    const double bytes = 2.0 * case_.sequences *
                         (2.0 * static_cast<double>(layer_values()) +
                          2.0 * case_.queries * static_cast<double>(row()));
    const auto by_memory = limit_of(bytes, bench_.ceilings.read_bytes_per_ms);
    const auto by_product = limit_of(flop, bench_.ceilings.product_flop_per_ms);
    bench_.add(verified, {name, ms, "ms",
                          by_memory && by_product ? std::max(by_memory, by_product) : by_memory,
                          text_of("%.1f TFLOP/s, %.0f GB/s%s", flop / ms / 1e9, bytes / ms / 1e6,
                                  case_.chained ? ", each call after the one before" : "")});
  }

  CudaBench& bench_;
  AttentionWorkspace& workspace_;
  AttentionCase case_;
  std::string name_;
  DeviceMemory<bf16> q_;
  DeviceMemory<bf16> out_;
  DeviceMemory<bf16> keys_;
  DeviceMemory<bf16> values_;
  DeviceMemory<AttentionSequence> on_device_;
  std::vector<AttentionSequence> sequences_;
};

void run_attention(CudaBench& bench) {
  AttentionWorkspace workspace;
  if (!bench.check(workspace.open(bench.get()))) return;
  for (const AttentionCase& one : kCases) AttentionBench(bench, workspace, one).run();
}

const CudaBenchRegistration kRegistered(kKernelPhase, "attention", run_attention);

}  // namespace
}  // namespace fovea
