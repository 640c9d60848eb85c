// SPDX-License-Identifier: Apache-2.0
// Times the kinds of attention of tokens beside dense attention, in the shape of a 2B model's layer
// (16 heads of 128 that share 8), over a prompt that is an image but for its last 64 tokens: the
// last chunk of a prefill, and a decode step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/closeness.h"
#include "ops/attention/sparse/token_blocks.h"
#include "ops/test_plain_keys.h"

namespace fovea {
namespace {

constexpr int kHeads = 16;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 128;
constexpr int64_t kWidth = int64_t{kHeads} * kHeadDim;
constexpr int64_t kKvWidth = int64_t{kKvHeads} * kHeadDim;
constexpr int64_t kText = 64;

std::vector<float> random_values(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

struct Prompt {
  PlainKeys kv{kKvHeads, kHeadDim, kTokenBlock};
  PagedKeys view;
  std::vector<float> q;
  std::vector<TokenRange> images;
  AttentionParams params{
      .heads = kHeads, .scale = 1 / std::sqrt(static_cast<float>(kHeadDim)), .causal = true};

  Prompt(int64_t tokens, int64_t queries) : images{{0, tokens - kText}} {
    std::mt19937 random(5);
    q = random_values(queries * kWidth, random);
    kv.append(random_values(tokens * kKvWidth, random).data(), kKvWidth,
              random_values(tokens * kKvWidth, random).data(), kKvWidth, tokens);
    view = kv.view();
    params.first_query = tokens - queries;
  }

  int64_t queries() const { return static_cast<int64_t>(q.size()) / kWidth; }
  TokenAttention given() const { return {q.data(), kWidth, queries(), &view, &params, images}; }
};

// The last queries of a prompt by the references, which take a while.
struct Checked {
  int64_t count = 0;
  std::vector<float> values;
};

Checked check(const Prompt& prompt, const SparseSettings& settings) {
  constexpr int64_t kMost = 4;
  const int64_t count = std::min(kMost, prompt.queries());
  const int64_t first = prompt.queries() - count;
  AttentionParams params = prompt.params;
  params.first_query += first;
  TokenAttention given = prompt.given();
  given.q += first * kWidth;
  given.queries = count;
  given.params = &params;
  std::vector<float> values(static_cast<size_t>(count * kWidth));
  attend_to_tokens_reference(given, settings, values.data(), kWidth);
  return {count, values};
}

void time_prompt(Bench& bench, const char* what, int64_t tokens, int64_t queries) {
  const std::string prefix = fmt::format("attention/{}-{}", what, tokens);
  if (!bench.wants(prefix)) return;
  const Prompt prompt(tokens, queries);
  const Checked dense = check(prompt, {});
  std::vector<float> out(prompt.q.size());
  double dense_ms = 0;
  for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kText)) {
    const std::string name = fmt::format("{}/{}", prefix, row.name);
    if (row.kind != AttentionKind::kDense && !bench.wants(name)) continue;
    const SparseSettings settings{.kind = row.kind};
    const double ms = Bench::median_ms(
        [&] { attend_to_tokens(bench.threads, prompt.given(), settings, out.data(), kWidth); }, 5);
    if (row.kind == AttentionKind::kDense) dense_ms = ms;
    const Checked expected = check(prompt, settings);
    const auto got = std::span(out).last(expected.values.size());
    const bool right = std::equal(got.begin(), got.end(), expected.values.begin(),
                                  [](float a, float b) { return std::abs(a - b) < 1e-5f; });
    const Closeness close = closeness(got, dense.values);
    bench.add(right, {.name = name,
                      .value = ms,
                      .unit = "ms",
                      .note = fmt::format(
                          "{:.1f}x dense ({:.2f} ms), {:.1f} % of the keys; of dense in "
                          "f64: cosine {:.4f}, RMSE {:.4f}",
                          dense_ms / ms, dense_ms, share_of_keys(prompt.given(), settings) * 100,
                          close.cosine, close.rmse)});
  }
}

void run_tokens(Bench& bench) {
  for (const int64_t tokens : {4096, 16384}) {
    time_prompt(bench, "prefill", tokens, 512);
    time_prompt(bench, "step", tokens, 1);
  }
}

const BenchRegistration kRegistration("attention", "tokens", run_tokens);

}  // namespace
}  // namespace fovea
