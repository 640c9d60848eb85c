// SPDX-License-Identifier: Apache-2.0
#include "language/decoder_angles.h"

#include <cmath>

namespace fovea {
namespace {

float along(const TokenPosition& position, const TextConfig& config, int i) {
  if (i % 3 == 1 && i < 3 * config.mrope_section[1]) return position.row;
  if (i % 3 == 2 && i < 3 * config.mrope_section[2]) return position.col;
  return position.time;
}

}  // namespace

void rotary_angles(Threads& threads, const TextConfig& config,
                   std::span<const TokenPosition> positions, float* cos, float* sin) {
  constexpr int64_t kTokens = 32;
  const int64_t half = config.head_dim / 2;
  const auto count = static_cast<int64_t>(positions.size());
  const std::vector<float> frequencies = text_frequencies(config);
  threads.for_each(count, kTokens, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < half; ++i) {
      const float frequency = frequencies[static_cast<size_t>(i)];
      for (int64_t t = begin; t < end; ++t) {
        const TokenPosition& position = positions[static_cast<size_t>(t)];
        const float angle = along(position, config, static_cast<int>(i)) * frequency;
        cos[t * half + i] = std::cos(angle);
        sin[t * half + i] = std::sin(angle);
      }
    }
  });
}

}  // namespace fovea
