// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/activation.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "patches/patches.h"
#include "vision/layers.h"

namespace fovea {

// merger:           token = fc2(gelu(fc1(concat(norm(x0), norm(x1), norm(x2), norm(x3)))))
// deepstack merger: token = fc2(gelu(fc1(norm(concat(x0, x1, x2, x3)))))
// The four patches of a cell lie one after the other, so that concatenation moves nothing.
void run_merger(Threads& threads, const TowerMerger& merger, const VisionConfig& config,
                TowerWork& work, float* out) {
  const int64_t hidden = config.hidden_size;
  for (int64_t first = 0; first < work.patches; first += work.chunk) {
    const int64_t patches = std::min(work.chunk, work.patches - first);
    const int64_t cells = patches / kPatchesPerCell;
    layer_norm(threads, work.hidden.data() + first * hidden, patches * hidden / merger.norm.size(),
               merger.norm.size(), merger.norm.weight.data(), merger.norm.bias.data(),
               static_cast<float>(config.layer_norm_eps), work.narrow.data());
    matmul(threads, work.narrow.data(), cells,
           {.weights = &merger.fc1.weight, .bias = merger.fc1.bias.data(), .y = work.wide.data()});
    gelu(threads, work.wide.data(), cells * config.merged_size());
    matmul(threads, work.wide.data(), cells,
           {.weights = &merger.fc2.weight,
            .bias = merger.fc2.bias.data(),
            .y = out + first / kPatchesPerCell * config.out_hidden_size});
  }
}

}  // namespace fovea
