// SPDX-License-Identifier: Apache-2.0
// Several requests at once, each with a picture and a question of its own.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "device/cuda/gpu_bench.h"
#include "language/decoder_cuda.h"
#include "vision/tower_cuda.h"
#include "weights/config.h"

namespace fovea {

// Tokens of a prompt, any.
struct PromptTokens {
  std::vector<int> ids;
  std::vector<TokenPosition> positions;

  PromptTokens(int count, int vocabulary, uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < count; ++i)
      add(static_cast<int>(random() % static_cast<uint32_t>(vocabulary)));
  }
  void add(int id) {
    const auto at = static_cast<float>(ids.size());
    ids.push_back(id);
    positions.push_back({at, at, at});
  }
  std::span<const int> ids_of(int begin, int end) const {
    return std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  std::span<const TokenPosition> positions_of(int begin, int end) const {
    return std::span(positions).subspan(static_cast<size_t>(begin),
                                        static_cast<size_t>(end - begin));
  }
};

// 32 requests from pictures in the host's memory to answers of 32 tokens.
void bench_in_flight_cuda(CudaBench& bench, const ModelConfig& config, CudaTower& tower,
                          CudaDecoder& decoder);

}  // namespace fovea
