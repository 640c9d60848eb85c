// SPDX-License-Identifier: Apache-2.0
// Whether a model fits into memory, asked before it is loaded.
#pragma once

#include <cstdint>

#include "fovea/result.h"
#include "ops/matrix.h"
#include "weights/config.h"

namespace fovea {

struct MemoryNeed {
  WeightFormat format = WeightFormat::kF32;
  int64_t context_tokens = 0;
  int64_t weights_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t work_bytes = int64_t{300} << 20;  // everything else a run needs at its peak

  int64_t total() const { return weights_bytes + kv_bytes + work_bytes; }
};

// `kv_value_bytes`: 4 where keys and values are kept as f32, 2 as bf16.
MemoryNeed memory_need(const ModelConfig& config, WeightFormat format, int64_t context_tokens,
                       int kv_value_bytes);

// What this process may still take: the machine's MemAvailable, or less where a control group
// limits it. A huge value where neither can be read.
int64_t available_memory_bytes();

// An error with both figures, and what to try, when the need is larger.
Status check_memory(const MemoryNeed& need, int64_t available_bytes);

}  // namespace fovea
