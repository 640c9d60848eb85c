// SPDX-License-Identifier: Apache-2.0
// Attention of a block of Qwen3-VL-2B's tower that keeps nothing: rotating and attending in two
// kernels, and in one, in its forms.
#include <algorithm>
#include <cmath>

#include "device/cuda/gpu_bench.h"
#include "ops/attention/attention_rotary_cuda.h"
#include "ops/rows_cuda.h"

namespace fovea {
namespace {

constexpr int kTowerHeads = kEmulated ? 2 : 16;
constexpr int kTowerHeadDim = 64;
constexpr float kTowerScale = 0.125f;  // 1 / sqrt(head_dim)

constexpr RotaryForm kForms[] = {{3, 1}, {2, 1}, {4, 1}, {3, 2}, {3, 3}, {3, 6}, {2, 3}, {2, 5}};

class RotaryBench {
 public:
  RotaryBench(CudaBench& bench, AttentionWorkspace& workspace, int images, int rows)
      : bench_(bench),
        workspace_(workspace),
        images_(images),
        rows_(kEmulated ? std::min(rows, 40) : rows),
        name_("attention/rotary" + (images > 1 ? std::to_string(images) + "x" : std::string()) +
              std::to_string(rows)) {}

  void run() {
    if (!make()) return bench_.settle(name_);
    const auto two = [&] {
      rotate_heads_cuda(bench_.get(), rotary());
      attention_cuda(bench_.get(), shape(), sequences_.data(), q_.data(), kRow, out_.data(), kRow,
                     workspace_, bench_.device().kernels());
    };
    wanted_ = result_of(two);
    time(two, name_ + "/two-kernels");
    if (!workspace_.tensor_cores()) return;
    for (const RotaryForm& form : kForms) {
      if (form.cluster > 1 && !workspace_.clusters()) continue;
      time(
          [&] {
            attention_rotary_cuda(bench_.get(), shape(),
                                  {.qkv = qkv_.data(),
                                   .cos = cos_.data(),
                                   .sin = sin_.data(),
                                   .sequences = images_ > 1 ? sequences_.data() : nullptr},
                                  out_.data(), kRow, form);
          },
          name_ + text_of("/%dx%d", 16 * form.row_warps, form.cluster));
    }
  }

 private:
  static constexpr int64_t kRow = int64_t{kTowerHeads} * kTowerHeadDim;

  int64_t all_rows() const { return int64_t{images_} * rows_; }
  bool make() {
    const auto values = static_cast<size_t>(all_rows() * kRow);
    if (!bench_.make(qkv_, 3 * values) || !bench_.make(q_, values) || !bench_.make(out_, values) ||
        !bench_.make(keys_, values) || !bench_.make(values_, values))
      return false;
    fill_random_cuda(bench_.get(), qkv_.data(), static_cast<int64_t>(qkv_.size()), 3, 4);
    std::vector<RowPlace> places;
    std::vector<AttentionSequence> sequences;
    for (int image = 0; image < images_; ++image) {
      bf16* keys = keys_.data() + image * rows_ * kRow;
      bf16* of_keys = values_.data() + image * rows_ * kRow;
      for (int row = 0; row < rows_; ++row) places.push_back({keys, of_keys, rows_, row});
      AttentionSequence sequence;
      sequence.q_begin = image * rows_;
      sequence.q_count = sequence.capacity = sequence.key_count = rows_;
      sequence.keys = keys;
      sequence.values = of_keys;
      sequences.push_back(sequence);
    }
    std::vector<float> cos;
    std::vector<float> sin;
    for (int64_t i = 0; i < all_rows() * kTowerHeadDim / 2; ++i) {
      cos.push_back(std::cos(static_cast<float>(i % 1000)));
      sin.push_back(std::sin(static_cast<float>(i % 1000)));
    }
    return bench_.upload(places_, places) && bench_.upload(sequences_, sequences) &&
           bench_.upload(cos_, cos) && bench_.upload(sin_, sin);
  }
  RotaryJob rotary() {
    RotaryJob job;
    job.qkv = qkv_.data();
    job.rows = static_cast<int>(all_rows());
    job.heads = job.kv_heads = kTowerHeads;
    job.head_dim = kTowerHeadDim;
    job.cos = cos_.data();
    job.sin = sin_.data();
    job.q = q_.data();
    job.places = places_.data();
    return job;
  }
  AttentionShape shape() const {
    AttentionShape shape;
    shape.sequences = images_;
    shape.max_q_count = shape.max_key_count = rows_;
    shape.heads = shape.kv_heads = kTowerHeads;
    shape.head_dim = kTowerHeadDim;
    shape.scale = kTowerScale;
    return shape;
  }

  template <class Enqueue>
  std::vector<bf16> result_of(const Enqueue& enqueue) {
    cudaMemsetAsync(out_.data(), 0xFF, out_.bytes(), bench_.get());
    enqueue();
    return bench_.on_host(out_.data(), out_.size());
  }
  template <class Enqueue>
  bool verify(const Enqueue& enqueue) {
    const auto got = result_of(enqueue);
    // Weights are rounded to bf16 in another order: a step is 2^-8 of a value, values are up to 4.
    for (size_t i = 0; i < got.size(); ++i)
      if (!(std::abs(to_float(got[i]) - to_float(wanted_[i])) <= 0.03f)) return false;
    return true;
  }
  template <class Enqueue>
  void time(const Enqueue& enqueue, const std::string& name) {
    const bool verified = verify(enqueue);
    const double ms = bench_.ms_of(1, [&](int) { enqueue(); });
    const double flop = 4.0 * rows_ * static_cast<double>(all_rows()) * kTowerHeads * kTowerHeadDim;
    const double bytes = 2.0 * 4.0 * static_cast<double>(all_rows() * kRow);
    bench_.add(verified, {name, ms, "ms", limit_of(flop, bench_.ceilings.product_flop_per_ms),
                          text_of("%.1f TFLOP/s, %.0f GB/s, each call after the one before",
                                  flop / ms / 1e9, bytes / ms / 1e6)});
  }

  CudaBench& bench_;
  AttentionWorkspace& workspace_;
  int images_;
  int rows_;
  std::string name_;
  std::vector<bf16> wanted_;
  DeviceMemory<bf16> qkv_;
  DeviceMemory<bf16> q_;
  DeviceMemory<bf16> out_;
  DeviceMemory<bf16> keys_;
  DeviceMemory<bf16> values_;
  DeviceMemory<float> cos_;
  DeviceMemory<float> sin_;
  DeviceMemory<RowPlace> places_;
  DeviceMemory<AttentionSequence> sequences_;
};

void run_rotary(CudaBench& bench) {
  AttentionWorkspace workspace;
  if (!bench.check(workspace.open(bench.get()))) return;
  for (const int rows : {100, 272, 320, 512}) RotaryBench(bench, workspace, 1, rows).run();
  RotaryBench(bench, workspace, 4, 272).run();
}

const CudaBenchRegistration kRotaryRegistered(kKernelPhase, "attention/rotary", run_rotary);

}  // namespace
}  // namespace fovea
