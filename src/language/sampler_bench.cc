// SPDX-License-Identifier: Apache-2.0
// What choosing a token costs with Qwen's vocabulary, for logits as flat and as peaked as they get.
#include "language/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bench/bench.h"

namespace fovea {
namespace {

constexpr int kVocab = 151'936;

std::vector<float> logits_of(float scale) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

void bench_sampler(Bench& bench) {
  const std::pair<const char*, SamplingOptions> ways[] = {
      {"greedy", {}},
      {"greedy-logprobs20", {.most_likely = 20}},
      {"top-p0.95", {.temperature = 1, .top_p = 0.95}},
      {"top-k20-top-p0.8", {.temperature = 0.7, .top_k = 20, .top_p = 0.8}},
      {"all", {.temperature = 0.7, .top_p = 0.9, .min_p = 0.01, .repetition_penalty = 1.1}},
      {"penalties-mask",
       {.temperature = 0.7,
        .frequency_penalty = 0.5,
        .logit_bias = {{7, 1}, {9, kBanBias}},
        .mask = [](std::span<const int>, std::span<uint64_t> allowed) {
          std::fill_n(allowed.begin(), 2000, 0xFF);
        }}}};
  for (const float scale : {0.5f, 4.0f}) {
    const std::vector<float> logits = logits_of(scale);
    for (const auto& [name, options] : ways) {
      Sampler sampler = *Sampler::make(options, kVocab);
      const auto choices = *sampler.choices(logits);
      double sum = 0;
      for (const TokenChance& choice : choices) sum += std::exp(double{choice.logprob});
      const double ms = Bench::median_ms([&] { (void)sampler.sample(logits); });
      bench.add(std::abs(sum - 1) < 1e-3,
                {.name = fmt::format("sampler/{}/{}", name, scale < 1 ? "flat" : "peaked"),
                 .value = ms,
                 .unit = "ms",
                 .note = fmt::format("{} choices", choices.size())});
    }
  }
}

const BenchRegistration kSampler("language", "sampler", bench_sampler);

}  // namespace
}  // namespace fovea
