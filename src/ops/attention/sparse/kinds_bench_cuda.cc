// SPDX-License-Identifier: Apache-2.0
// Attention of the tower by its kinds, in the shape of Qwen3-VL-2B: each with its choice, then its
// parts, beside dense attention of the same run. Values are random: no place has to do with
// another, which is the hardest that a kind can meet.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "device/cuda/gpu_bench.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/sparse/kinds_cuda.h"

namespace fovea {
namespace {

constexpr float kScaleQ = 8;
constexpr uint32_t kSeedQ = 13;
constexpr uint32_t kSeedK = 14;
constexpr uint32_t kSeedV = 15;
constexpr int kHeads = kEmulated ? 2 : 16;
constexpr int kDim = kEmulated ? 16 : 64;
constexpr int64_t kRow = int64_t{kHeads} * kDim;

class KindsBench {
 public:
  // Emulated, a small picture has the name of a large one.
  KindsBench(CudaBench& bench, int side)
      : bench_(bench),
        name_("attention/kinds" + std::to_string(side * side) + "/"),
        side_(kEmulated ? std::min(side, 16) : side),
        rows_(block_rows(places(side_))) {}

  void run(AttentionWorkspace& workspace) {
    if (!make()) return bench_.settle(name("dense"));
    dense_ms_ = bench_.ms_of(1, [&](int) { dense(workspace); });
    for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower))
      if (row.kind != AttentionKind::kDense && has_cuda_form(row.kind)) time({.kind = row.kind});
  }

 private:
  static std::vector<GridPlace> places(int side) {
    std::vector<GridPlace> all;
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x) all.push_back({0, x, y});
    return all;
  }
  int count() const { return side_ * side_; }
  std::string name(const std::string& what) const { return name_ + what; }
  static float scale() { return 1 / std::sqrt(static_cast<float>(kDim)); }

  bool make() {
    const auto values = static_cast<size_t>(count() * kRow);
    std::vector<SparseSettings> kinds;
    for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower))
      kinds.push_back({.kind = row.kind});
    if (!bench_.make(q_, values) || !bench_.make(keys_, values) || !bench_.make(values_, values) ||
        !bench_.make(out_, values) || !bench_.check(attention_.open()) ||
        !bench_.check(attention_.place(bench_.stream(), staging_, rows_, {}, kHeads, kDim, kinds)))
      return false;
    const auto size = static_cast<int64_t>(values);
    fill_random_cuda(bench_.get(), q_.data(), size, kSeedQ, kScaleQ);
    fill_random_cuda(bench_.get(), keys_.data(), size, kSeedK, 1);
    fill_random_cuda(bench_.get(), values_.data(), size, kSeedV, 1);
    sequence_ = {.q_count = count(),
                 .keys = keys_.data(),
                 .values = values_.data(),
                 .capacity = count(),
                 .key_count = count()};
    return bench_.upload(on_device_, std::vector<AttentionSequence>{sequence_});
  }
  void dense(AttentionWorkspace& workspace) {
    const AttentionShape shape{.max_q_count = count(),
                               .max_key_count = count(),
                               .heads = kHeads,
                               .kv_heads = kHeads,
                               .head_dim = kDim,
                               .scale = scale()};
    attention_known_cuda(bench_.get(), shape, {&sequence_, 1}, on_device_.data(), q_.data(), kRow,
                         out_.data(), kRow, workspace, bench_.device().kernels());
  }
  SparseAttentionCuda::Job job() {
    return {.q = q_.data(),
            .q_stride = kRow,
            .keys = keys_.data(),
            .values = values_.data(),
            .capacity = count(),
            .scale = scale(),
            .out = out_.data(),
            .out_stride = kRow};
  }

  // What a query of a head gives by the keys that the device chose, and by all, in doubles.
  struct Expected {
    std::vector<double> chosen;
    std::vector<double> dense;
  };
  // Sums e^score v over some rows, or over the mean of them.
  struct Sum {
    double total = 0;
    std::vector<double> values = std::vector<double>(kDim);
  };
  void add(int query, int head, int first, int rows, bool mean, Sum& sum) const {
    const double share = mean ? 1.0 / rows : 1;
    const int64_t of_head = int64_t{head} * count() * kDim;
    std::vector<double> value(kDim);
    double score = 0;
    for (int key = first; key < first + rows; ++key) {
      if (!mean) {
        score = 0;
        value.assign(kDim, 0);
      }
      for (int i = 0; i < kDim; ++i) {
        const int64_t at = of_head + int64_t{key} * kDim + i;
        score += share * random_value(kSeedK, at, 1) *
                 random_value(kSeedQ, query * kRow + int64_t{head} * kDim + i, kScaleQ);
        value[static_cast<size_t>(i)] += share * random_value(kSeedV, at, 1);
      }
      if (mean && key + 1 < first + rows) continue;
      const double weight = (mean ? rows : 1) * std::exp(score * scale());
      sum.total += weight;
      for (int i = 0; i < kDim; ++i)
        sum.values[static_cast<size_t>(i)] += weight * value[static_cast<size_t>(i)];
    }
  }
  static std::vector<double> quotient(const Sum& sum) {
    std::vector<double> result = sum.values;
    for (double& value : result) value /= sum.total;
    return result;
  }

  int block_of(int query) const {
    int block = 0;
    while (rows_.end_row(block) <= query) ++block;
    return block;
  }
  bool is_left_out(const SparseCall& call, const std::vector<unsigned>& in_full, int64_t choice,
                   int block) const {
    if (call.full.in_full == nullptr) return false;
    const int words = (rows_.blocks() + kBlocksOfWord - 1) / kBlocksOfWord;
    return (in_full[static_cast<size_t>(choice * words + block / kBlocksOfWord)] >>
                block % kBlocksOfWord &
            1) != 0;
  }

  Expected expected(const SparseCall& call, int query, int head) {
    Sum all;
    add(query, head, 0, count(), false, all);
    Sum sum;
    const int own = block_of(query);
    const int64_t choice = (call.full.per_head ? int64_t{head} * rows_.blocks() : 0) + own;
    const auto room = static_cast<size_t>(call.full.room);
    const auto list = bench_.on_host(call.full.lists + choice * call.full.room, room);
    const size_t spans =
        call.full.counts == nullptr
            ? room
            : static_cast<size_t>(bench_.on_host(call.full.counts + choice, 1).front());
    for (size_t i = 0; i < spans; ++i)
      for (int key = list[i].first; key < list[i].first + list[i].count; ++key)
        if (call.window.radius == 0 || call.window.sees(rows_.places[static_cast<size_t>(query)],
                                                        rows_.places[static_cast<size_t>(key)]))
          add(query, head, key, 1, false, sum);
    add_coarse(call, query, head, choice, own, sum);
    return {quotient(sum), quotient(all)};
  }
  void add_coarse(const SparseCall& call, int query, int head, int64_t choice, int own, Sum& sum) {
    if (call.coarse.every > 0)
      for (int key = 0; key < count(); key += call.coarse.every)
        if (key < rows_.first_row(own) || key >= rows_.end_row(own))
          add(query, head, key, 1, false, sum);
    if (call.coarse.count == 0 || call.coarse.every > 0) return;
    const size_t words = (static_cast<size_t>(rows_.blocks()) + kBlocksOfWord - 1) / kBlocksOfWord;
    const auto in_full = call.full.in_full == nullptr
                             ? std::vector<unsigned>()
                             : bench_.on_host(call.full.in_full,
                                              words * static_cast<size_t>(kHeads * rows_.blocks()));
    for (int block = 0; block < rows_.blocks(); ++block) {
      if (is_left_out(call, in_full, choice, block)) continue;
      for (int g = rows_.block_begins[static_cast<size_t>(block)];
           g < rows_.block_begins[static_cast<size_t>(block) + 1]; ++g) {
        const int first = rows_.group_begins[static_cast<size_t>(g)];
        add(query, head, first, rows_.group_begins[static_cast<size_t>(g) + 1] - first, true, sum);
      }
    }
  }

  // Of some queries: whether all are right, and how close they are to dense attention.
  struct Checked {
    bool right = true;
    double cosine = 0;
    double rmse = 0;
  };
  Checked check(const SparseSettings& settings) {
    cudaMemsetAsync(out_.data(), 0xFF, out_.bytes(), bench_.get());
    attention_.attend(bench_.get(), job(), settings);
    const auto out = bench_.on_host(out_.data(), out_.size());
    const SparseCall call = attention_.parts_of(job(), settings).call;
    Checked result;
    double both = 0;
    double here = 0;
    double there = 0;
    double off = 0;
    constexpr int kQueries = 16;
    for (int i = 0; i < kQueries; ++i) {
      const int query = static_cast<int>(int64_t{i} * 1237 % count());
      const int head = i % kHeads;
      const Expected wanted = expected(call, query, head);
      for (int j = 0; j < kDim; ++j) {
        const auto at = static_cast<size_t>(j);
        const double got =
            to_float(out[static_cast<size_t>(query * kRow + int64_t{head} * kDim) + at]);
        // Means, weights and results are rounded to bf16, which has 8 bits.
        result.right = result.right && std::abs(got - wanted.chosen[at]) <= 0.03;
        both += got * wanted.dense[at];
        here += got * got;
        there += wanted.dense[at] * wanted.dense[at];
        off += (got - wanted.dense[at]) * (got - wanted.dense[at]);
      }
    }
    result.cosine = both / std::sqrt(here * there);
    result.rmse = std::sqrt(off / (kQueries * kDim));
    return result;
  }

  // The share of the keys that is multiplied.
  double share(const SparseCall& call) const {
    if (call.window.radius > 0) return -1;
    return (64.0 * call.full.room + call.coarse.count) / count();
  }

  void time(const SparseSettings& settings) {
    const Checked checked = check(settings);
    const SparseAttentionCuda::Parts parts = attention_.parts_of(job(), settings);
    const double ms =
        bench_.ms_of(1, [&](int) { attention_.attend(bench_.get(), job(), settings); });
    const double attend =
        bench_.ms_of(1, [&](int) { attention_.attend_to(bench_.get(), parts.call); });
    double means = 0;
    double choice = 0;
    if (parts.pools)
      means = bench_.ms_of(
          1, [&](int) { mean_groups_cuda(bench_.get(), parts.call.rows, parts.means); });
    if (parts.chooses)
      choice = bench_.ms_of(1, [&](int) {
        choose_blocks_cuda(bench_.get(), parts.call.rows, parts.means, parts.call.full,
                           attention_.shared_bytes());
      });
    const double keys = share(parts.call);
    std::string note =
        text_of("%.2fx dense (%.1f us); alone %.1f us, means %.1f, choice %.1f", dense_ms_ / ms,
                dense_ms_ * 1e3, attend * 1e3, means * 1e3, choice * 1e3);
    if (keys > 0)
      note += text_of("; %.1f %% of the keys, %.2f of dense for each", keys * 100,
                      keys * dense_ms_ / attend);
    note += text_of("; of dense in f64: cosine %.4f, RMSE %.4f", checked.cosine, checked.rmse);
    bench_.add(checked.right, {name(row_of(settings.kind).name), ms, "ms", std::nullopt, note});
  }

  CudaBench& bench_;
  std::string name_;
  int side_;
  RowBlocks rows_;
  double dense_ms_ = 0;
  Staging staging_;
  SparseAttentionCuda attention_;
  DeviceMemory<bf16> q_;
  DeviceMemory<bf16> keys_;
  DeviceMemory<bf16> values_;
  DeviceMemory<bf16> out_;
  DeviceMemory<AttentionSequence> on_device_;
  AttentionSequence sequence_;
};

void run_kinds(CudaBench& bench, int side) {
  AttentionWorkspace workspace;
  if (!bench.check(workspace.open(bench.get()))) return;
  if (!kEmulated && !workspace.tensor_cores()) return;
  KindsBench(bench, side).run(workspace);
}

// By the names of their rows, so that --only finds them.
const CudaBenchRegistration kShort(kKernelPhase, "attention/kinds4096",
                                   [](CudaBench& bench) { run_kinds(bench, 64); });
#if !defined(FOVEA_EMULATE)
const CudaBenchRegistration kLong(kKernelPhase, "attention/kinds16384",
                                  [](CudaBench& bench) { run_kinds(bench, 128); });
#endif

}  // namespace
}  // namespace fovea
