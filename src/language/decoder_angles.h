// SPDX-License-Identifier: Apache-2.0
// Interleaved M-RoPE: which angle each pair of a head's values is turned by.
#pragma once

#include <span>

#include "base/threads.h"
#include "language/decoder.h"
#include "weights/config.h"

namespace fovea {

// cos and sin of position * theta^(-2i / head_dim), i < head_dim / 2, with the position in time,
// row or column as TextConfig::mrope_section says: [positions][head_dim / 2] each.
void turn_angles(Threads& threads, const TextConfig& config,
                 std::span<const TokenPosition> positions, float* cos, float* sin);

}  // namespace fovea
