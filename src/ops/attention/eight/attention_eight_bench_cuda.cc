// SPDX-License-Identifier: Apache-2.0
// Attention in eight bits of eight long sequences, and what rounding to them takes.
#include <bit>
#include <cmath>

#include "device/cuda/gpu_bench.h"
#include "ops/attention/eight/attention_eight_cuda.h"
#include "ops/attention/eight/eight_bits.h"

namespace fovea {
namespace {

constexpr int kDim = 128;
constexpr int kSequences = kEmulated ? 2 : 8;
constexpr int kRows = kEmulated ? 32 : 4096;  // of a sequence, queries and keys alike
constexpr int kHeads = kEmulated ? 2 : 16;
constexpr int64_t kWidth = int64_t{kHeads} * kDim;
constexpr float kScaleQ = 4;
constexpr uint32_t kSeedQ = 3;
constexpr uint32_t kSeedK = 4;
constexpr uint32_t kSeedV = 5;

class EightBench {
 public:
  EightBench(CudaBench& bench, AttentionWorkspace& workspace)
      : bench_(bench), workspace_(workspace) {}

  void run() {
    if (!make()) return bench_.settle("attention/eight");
    const double ms = bench_.ms_of(1, [&](int) { round(); });
    const double bytes = 3.0 * kSequences * kRows * static_cast<double>(kWidth) * (2 + 2 + 1);
    bench_.add(verify_rounding(), {"attention/batch8x4096/eight-round", ms, "ms",
                                   limit_of(bytes, bench_.ceilings.read_bytes_per_ms),
                                   text_of("%.0f GB/s", bytes / ms / 1e6)});
    for (const bool causal : {false, true}) time(causal);
  }

 private:
  bool make() {
    constexpr auto kAll = static_cast<size_t>(kSequences * kRows) * static_cast<size_t>(kWidth);
    if (!bench_.make(q_, kAll) || !bench_.make(keys_, kAll) || !bench_.make(values_, kAll) ||
        !bench_.make(out_, kAll) || !bench_.make(eight_q_, kAll) ||
        !bench_.make(eight_keys_, kAll) || !bench_.make(eight_values_, kAll) ||
        !bench_.make(scales_, size_t{3} * kSequences * kHeads))
      return false;
    const auto count = static_cast<int64_t>(kAll);
    fill_random_cuda(bench_.get(), q_.data(), count, kSeedQ, kScaleQ);
    fill_random_cuda(bench_.get(), keys_.data(), count, kSeedK, 1);
    fill_random_cuda(bench_.get(), values_.data(), count, kSeedV, 1);
    for (int i = 0; i < kSequences; ++i)
      sequences_.push_back({i * kRows, kRows, i * kRows, kRows, 0});
    round();
    return true;
  }
  void round() {
    for (int i = 0; i < kSequences; ++i) {
      EightRows rows;
      rows.stride = kWidth;
      rows.rows = kRows;
      rows.heads = kHeads;
      rows.to_rows = kSequences * kRows;
      rows.to_begin = int64_t{i} * kRows;
      const auto of = [&](const DeviceMemory<bf16>& from, DeviceMemory<uint8_t>& to, int which) {
        rows.from = from.data() + rows.to_begin * kWidth;
        rows.to = to.data();
        rows.scales = scales_.data() + (3 * i + which) * kHeads;
        rows.spread = which < 2;
        (which < 2 ? round_rows_cuda : round_values_cuda)(bench_.get(), rows);
      };
      of(q_, eight_q_, 0);
      of(keys_, eight_keys_, 1);
      of(values_, eight_values_, 2);
    }
  }
  // A few rows of queries: each value within half a step, which is a 16th of it.
  bool verify_rounding() {
    const auto bytes = bench_.on_host(eight_q_.data(), eight_q_.size());
    const auto scales = bench_.on_host(scales_.data(), scales_.size());
    for (int i = 0; i < 16; ++i) {
      const int row = static_cast<int>(int64_t{i} * 12379 % (kSequences * kRows));
      const int head = i % kHeads;
      for (unsigned d = 0; d < kDim; ++d) {
        double wanted = 0;
        for (unsigned j = 0; j < kDim; ++j) {
          const double x = random_value(kSeedQ, row * kWidth + head * kDim + j, kScaleQ);
          wanted += (std::popcount(d & j) % 2 == 0 ? x : -x) / std::sqrt(double{kDim});
        }
        const auto at =
            (static_cast<size_t>(head) * kSequences * kRows + static_cast<size_t>(row)) * kDim + d;
        const double scale = scales[static_cast<size_t>(3 * (row / kRows) * kHeads + head)];
        if (!(std::abs(of_eight(bytes[at]) * scale - wanted) <=
              std::abs(wanted) / 15 + scale / 256))
          return false;
      }
    }
    return true;
  }
  void attend(bool causal) {
    const AttentionShape shape{.sequences = kSequences,
                               .max_q_count = kRows,
                               .max_key_count = kRows,
                               .heads = kHeads,
                               .kv_heads = kHeads,
                               .head_dim = kDim,
                               .scale = 1 / std::sqrt(static_cast<float>(kDim)),
                               .causal = causal};
    bench_.check(attention_eight_cuda(bench_.get(), shape, sequences_,
                                      {.q = eight_q_.data(),
                                       .keys = eight_keys_.data(),
                                       .values = eight_values_.data(),
                                       .scales = scales_.data(),
                                       .q_rows = kSequences * kRows,
                                       .key_rows = kSequences * kRows},
                                      out_.data(), kWidth, workspace_));
  }

  // Of a few rows and heads, against f64 on what was not rounded: errors of a few percent are those
  // of eight bits, wrong results differ by all of themselves.
  bool verify(bool causal) {
    cudaMemsetAsync(out_.data(), 0xFF, out_.bytes(), bench_.get());
    attend(causal);
    const auto out = bench_.on_host(out_.data(), out_.size());
    double error = 0;
    double size = 0;
    for (int i = 0; i < 16; ++i) {
      const int row = static_cast<int>(int64_t{i} * 12379 % (kSequences * kRows));
      const int64_t at = row * kWidth + int64_t{i % kHeads} * kDim;
      const int first = row / kRows * kRows;
      const int seen = causal ? row % kRows + 1 : kRows;
      std::vector<double> sums(kDim);
      double total = 0;
      for (int key = first; key < first + seen; ++key) {
        const int64_t key_at = key * kWidth + int64_t{i % kHeads} * kDim;
        double score = 0;
        for (int d = 0; d < kDim; ++d)
          score +=
              double{random_value(kSeedQ, at + d, kScaleQ)} * random_value(kSeedK, key_at + d, 1);
        const double weight = std::exp(score / std::sqrt(double{kDim}));
        total += weight;
        for (int d = 0; d < kDim; ++d)
          sums[static_cast<size_t>(d)] += weight * random_value(kSeedV, key_at + d, 1);
      }
      for (int d = 0; d < kDim; ++d) {
        const double wanted = sums[static_cast<size_t>(d)] / total;
        const double got = to_float(out[static_cast<size_t>(at + d)]);
        error += (got - wanted) * (got - wanted);
        size += wanted * wanted;
      }
    }
    return error <= 0.15 * 0.15 * size;
  }

  void time(bool causal) {
    const AttentionShape shape{.heads = kHeads, .kv_heads = kHeads, .head_dim = kDim};
    if (!attention_eight_takes(shape, workspace_)) return;
    const bool verified = verify(causal);
    const double ms = bench_.ms_of(1, [&](int) { attend(causal); });
    const double pairs = causal ? 0.5 * kRows * (kRows + 1.0) : double{kRows} * kRows;
    const double flop = 4.0 * pairs * kSequences * static_cast<double>(kWidth);
    bench_.add(verified,
               {causal ? "attention/batch8x4096causal/eight" : "attention/batch8x4096/eight", ms,
                "ms", limit_of(flop, 2 * bench_.ceilings.product_flop_per_ms),
                text_of("%.1f TFLOP/s", flop / ms / 1e9)});
  }

  CudaBench& bench_;
  AttentionWorkspace& workspace_;
  DeviceMemory<bf16> q_;
  DeviceMemory<bf16> keys_;
  DeviceMemory<bf16> values_;
  DeviceMemory<bf16> out_;
  DeviceMemory<uint8_t> eight_q_;
  DeviceMemory<uint8_t> eight_keys_;
  DeviceMemory<uint8_t> eight_values_;
  DeviceMemory<float> scales_;
  std::vector<EightSequence> sequences_;
};

void run_eight(CudaBench& bench) {
  AttentionWorkspace workspace;
  if (bench.check(workspace.open(bench.get()))) EightBench(bench, workspace).run();
}

const CudaBenchRegistration kRegistered(kKernelPhase, "attention/eight", run_eight);

}  // namespace
}  // namespace fovea
