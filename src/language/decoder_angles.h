// SPDX-License-Identifier: Apache-2.0
// Interleaved M-RoPE: which angle each pair of a head's values is rotated by.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "base/threads.h"
#include "language/decoder.h"
#include "weights/config.h"

namespace fovea {

// How fast each pair of values rotates: [head_dim / 2]. As torch has it: every step is rounded to
// f32, so that large positions rotate as theirs do.
inline std::vector<float> text_frequencies(const TextConfig& config) {
  std::vector<float> frequencies(static_cast<size_t>(config.head_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    frequencies[i] = 1.0f / std::pow(static_cast<float>(config.rope_theta), exponent);
  }
  return frequencies;
}

// cos and sin of position * theta^(-2i / head_dim), i < head_dim / 2, with the position in time,
// row or column as TextConfig::mrope_section says: [positions][head_dim / 2] each.
void rotary_angles(Threads& threads, const TextConfig& config,
                   std::span<const TokenPosition> positions, float* cos, float* sin);

}  // namespace fovea
