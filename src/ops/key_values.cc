// SPDX-License-Identifier: Apache-2.0
#include "ops/key_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fovea {

void KeyValues::reserve(int64_t keys) {
  if (keys <= capacity_) return;
  const auto head_values = static_cast<size_t>(keys) * head_dim_;
  const size_t used = static_cast<size_t>(size_) * head_dim_ * sizeof(float);
  for (Buffer<float>* buffer : {&keys_, &values_}) {
    Buffer<float> larger(head_values * kv_heads_);
    for (int head = 0; head < kv_heads_ && used > 0; ++head)
      std::memcpy(larger.data() + head * head_values, buffer->data() + at(head, 0), used);
    *buffer = std::move(larger);
  }
  capacity_ = keys;
}

void KeyValues::append(const float* keys, int64_t key_stride, const float* values,
                       int64_t value_stride, int64_t count) {
  if (size_ + count > capacity_) reserve(std::max(size_ + count, capacity_ + capacity_ / 2));
  const size_t head_bytes = static_cast<size_t>(head_dim_) * sizeof(float);
  for (int head = 0; head < kv_heads_; ++head) {
    const int64_t from = int64_t{head} * head_dim_;
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(keys_.data() + at(head, size_ + i), keys + i * key_stride + from, head_bytes);
      std::memcpy(values_.data() + at(head, size_ + i), values + i * value_stride + from,
                  head_bytes);
    }
  }
  size_ += count;
}

void KeyValues::truncate(int64_t keys) {
  FOVEA_CHECK(keys >= 0 && keys <= size_);
  size_ = keys;
}

}  // namespace fovea
