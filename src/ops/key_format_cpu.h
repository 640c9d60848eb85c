// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/key_format.h"

namespace fovea {

void narrow_rows_cpu(KeyFormat format, const float* rows, int64_t stride, int64_t count,
                     int head_dim, std::byte* values, uint16_t* scales);
void widen_rows_cpu(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim,
                    float* out);

}  // namespace fovea
