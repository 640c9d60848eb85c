// SPDX-License-Identifier: Apache-2.0
// Times attention in the shapes of a 2B model, counting the operations of the two products alone,
// against multiply-adds in registers; decode steps against the bytes that a copy moves.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "bench/bench.h"
#include "memory/key_values.h"
#include "ops/attention/attention.h"
#include "ops/fma_peak.h"

namespace fovea {
namespace {

struct Shape {
  const char* name;
  int64_t queries;
  int64_t keys;
  int heads;
  int kv_heads;
  int head_dim;
  bool causal;
};

constexpr Shape kShapes[] = {{"tower-4096", 4096, 4096, 16, 16, 64, false},
                             {"tower-272", 272, 272, 16, 16, 64, false},
                             {"tower-128-of-384", 128, 384, 16, 16, 64, false},
                             {"prefill-512-of-512", 512, 512, 16, 8, 128, true},
                             {"prefill-512-of-1056", 512, 1056, 16, 8, 128, true},
                             {"decode-of-1", 1, 1, 16, 8, 128, true},
                             {"decode-of-128", 1, 128, 16, 8, 128, true},
                             {"decode-of-1056", 1, 1056, 16, 8, 128, true},
                             {"decode-of-4096", 1, 4096, 16, 8, 128, true}};

std::vector<float> random_values(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Some queries against the reference: all would take minutes.
bool right(const Shape& shape, const float* q, const PagedKeys& kv, const AttentionParams& params,
           const float* got) {
  const int64_t stride = int64_t{shape.heads} * shape.head_dim;
  std::vector<float> expected(static_cast<size_t>(stride));
  for (const int64_t query : {int64_t{0}, shape.queries / 2, shape.queries - 1}) {
    AttentionParams one = params;
    one.first_query += query;
    attention_reference(q + query * stride, stride, 1, kv, one, expected.data(), stride);
    for (int64_t i = 0; i < stride; ++i)
      if (!(std::abs(got[query * stride + i] - expected[static_cast<size_t>(i)]) < 1e-5f))
        return false;
  }
  return true;
}

// Keys and values in pages of so many tokens.
KeyValues keys_of(const Shape& shape, int64_t page_tokens, std::mt19937& random,
                  KeyFormat format = KeyFormat::kF32) {
  const int64_t page_bytes = page_values(shape.kv_heads, shape.head_dim, page_tokens) *
                             static_cast<int64_t>(sizeof(float));
  const auto pool = std::make_shared<PagePool>(PagePool::Settings{
      .page_bytes = page_bytes, .capacity_bytes = std::numeric_limits<int64_t>::max()});
  KeyValues kv(std::make_shared<Reservation>(pool), shape.kv_heads, shape.head_dim, format);
  const int64_t stride = int64_t{shape.kv_heads} * shape.head_dim;
  constexpr int64_t kAtOnce = 1000;
  for (int64_t done = 0; done < shape.keys; done += kAtOnce) {
    const auto k = random_values(static_cast<size_t>(kAtOnce * stride), random);
    const auto v = random_values(static_cast<size_t>(kAtOnce * stride), random);
    kv.append(k.data(), stride, v.data(), stride, std::min(kAtOnce, shape.keys - done));
  }
  return kv;
}

AttentionParams params_of(const Shape& shape) {
  return {.heads = shape.heads,
          .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
          .causal = shape.causal,
          .first_query = shape.keys - shape.queries};
}

void time_shape(Bench& bench, const Shape& shape, double peak_gflops) {
  std::mt19937 random(3);
  const int64_t q_stride = int64_t{shape.heads} * shape.head_dim;
  const auto q = random_values(static_cast<size_t>(shape.queries * q_stride), random);
  const KeyValues kv = keys_of(shape, kPageTokens, random);
  const AttentionParams params = params_of(shape);
  std::vector<float> out(static_cast<size_t>(shape.queries * q_stride));
  const auto attend = [&] {
    attention(bench.threads, q.data(), q_stride, shape.queries, kv.view(), params, out.data(),
              q_stride);
  };
  attend();
  const bool verified = right(shape, q.data(), kv.view(), params, out.data());
  const double ms = Bench::median_ms(attend);
  const double seen =
      shape.causal ? static_cast<double>(shape.keys) - static_cast<double>(shape.queries - 1) / 2
                   : static_cast<double>(shape.keys);
  const double gflop = 4e-9 * static_cast<double>(shape.queries * q_stride) * seen;
  BenchRow row{.name = fmt::format("attention/{}/{}", shape.name,
                                   hwy::TargetName(*hwy::SupportedAndGeneratedTargets().begin())),
               .value = ms,
               .unit = "ms",
               .limit = gflop / peak_gflops * 1e3,
               .note = fmt::format("{:.1f} GFLOP/s", gflop / ms * 1e3)};
  if (shape.queries == 1) {
    row.limit = {};
    row.note = fmt::format(
        "{:.1f} GB/s read",
        4e-6 * static_cast<double>(page_values(shape.kv_heads, shape.head_dim, shape.keys)) / ms);
  }
  bench.add(verified, row);
}

// Pages against memory in one piece, which is a single page: measured alternately, the same bits
// expected.
void time_pages(Bench& bench, const Shape& shape, int page_tokens) {
  const int64_t q_stride = int64_t{shape.heads} * shape.head_dim;
  const int64_t one_page =
      (shape.keys + PagedKeys::kPageStep - 1) / PagedKeys::kPageStep * PagedKeys::kPageStep;
  std::mt19937 random(3);
  const auto q = random_values(static_cast<size_t>(shape.queries * q_stride), random);
  std::mt19937 again = random;
  const KeyValues pages = keys_of(shape, page_tokens, random);
  const KeyValues piece = keys_of(shape, one_page, again);
  const AttentionParams params = params_of(shape);
  std::vector<float> out(static_cast<size_t>(shape.queries * q_stride));
  std::vector<float> expected(out.size());
  const auto attend = [&](const KeyValues& kv, std::vector<float>& to) {
    attention(bench.threads, q.data(), q_stride, shape.queries, kv.view(), params, to.data(),
              q_stride);
  };
  std::vector<double> ratios;
  std::vector<double> times;
  constexpr int kRounds = 9;
  for (int i = 0; i < kRounds; ++i) {
    const double in_pages = Bench::median_ms([&] { attend(pages, out); }, 3, 40);
    const double in_one = Bench::median_ms([&] { attend(piece, expected); }, 3, 40);
    times.push_back(in_pages);
    ratios.push_back(in_one / in_pages);
  }
  std::sort(times.begin(), times.end());
  std::sort(ratios.begin(), ratios.end());
  bench.add(out == expected,
            {.name = fmt::format("attention/pages-of-{}/{}", page_tokens, shape.name),
             .value = times[kRounds / 2],
             .unit = "ms",
             .note = fmt::format("{:.2f}x the speed of memory in one piece", ratios[kRounds / 2])});
}

constexpr Shape kPagedShapes[] = {{"decode-of-1000", 1, 1000, 16, 8, 128, true},
                                  {"decode-of-8000", 1, 8000, 16, 8, 128, true},
                                  {"decode-of-32000", 1, 32000, 16, 8, 128, true},
                                  {"prefill-64-of-1000", 64, 1000, 16, 8, 128, true},
                                  {"prefill-64-of-8000", 64, 8000, 16, 8, 128, true},
                                  {"prefill-64-of-32000", 64, 32000, 16, 8, 128, true}};

void run_pages(Bench& bench) {
  for (const Shape& shape : kPagedShapes)
    for (const int tokens : {16, 32, kPageTokens})
      if (tokens == kPageTokens || shape.queries == 1) time_pages(bench, shape, tokens);
}

// Rows of another format against those of f32: measured alternately, the reference expected.
void time_format(Bench& bench, const Shape& shape, const KeyFormatRow& format) {
  const int64_t q_stride = int64_t{shape.heads} * shape.head_dim;
  std::mt19937 random(3);
  const auto q = random_values(static_cast<size_t>(shape.queries * q_stride), random);
  std::mt19937 again = random;
  const KeyValues stored = keys_of(shape, kPageTokens, random, format.format);
  const KeyValues whole = keys_of(shape, kPageTokens, again);
  const AttentionParams params = params_of(shape);
  std::vector<float> out(static_cast<size_t>(shape.queries * q_stride));
  const auto attend = [&](const KeyValues& kv) {
    attention(bench.threads, q.data(), q_stride, shape.queries, kv.view(), params, out.data(),
              q_stride);
  };
  attend(stored);
  const bool verified = right(shape, q.data(), stored.view(), params, out.data());
  std::vector<double> ratios;
  std::vector<double> times;
  constexpr int kRounds = 9;
  for (int i = 0; i < kRounds; ++i) {
    times.push_back(Bench::median_ms([&] { attend(stored); }, 3, 40));
    ratios.push_back(Bench::median_ms([&] { attend(whole); }, 3, 40) / times.back());
  }
  std::sort(times.begin(), times.end());
  std::sort(ratios.begin(), ratios.end());
  bench.add(verified, {.name = fmt::format("attention/kv-{}/{}", format.name, shape.name),
                       .value = times[kRounds / 2],
                       .unit = "ms",
                       .note = fmt::format(
                           "{:.2f}x the speed of f32, {:.3f} of its bytes", ratios[kRounds / 2],
                           static_cast<double>(row_bytes(format.format, shape.head_dim)) /
                               static_cast<double>(row_bytes(KeyFormat::kF32, shape.head_dim)))});
}

void run_formats(Bench& bench) {
  for (const Shape& shape : kPagedShapes)
    for (const KeyFormatRow& format : key_formats())
      if (format.format != KeyFormat::kF32 && shape.keys > 1000) time_format(bench, shape, format);
}

void run_attention(Bench& bench) {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  targets.resize(std::min<size_t>(targets.size(), 1));  // the best one
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (target == HWY_AVX2 && target != targets.front()) targets.push_back(target);
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    const double peak_gflops = fma_peak_gflops(bench.threads);
    for (const Shape& shape : kShapes) time_shape(bench, shape, peak_gflops);
  }
  hwy::SetSupportedTargetsForTest(0);
}

const BenchRegistration kRegistration("ops", "attention", run_attention);
const BenchRegistration kPages("ops", "attention-pages", run_pages);
const BenchRegistration kFormats("ops", "attention-kv", run_formats);

}  // namespace
}  // namespace fovea
