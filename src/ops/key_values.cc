// SPDX-License-Identifier: Apache-2.0
#include "ops/key_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

// Growth by a part, so that adding keys one by one copies each a few times and little memory lies
// idle; whoever knows the need reserves it.
constexpr int64_t kLeastGrowth = 64;
constexpr int64_t kGrowthPart = 8;
constexpr int64_t kChunkKeys = 512;

}  // namespace

void KeyValues::reserve(int64_t keys) {
  if (keys <= capacity_) return;
  const auto head_values = static_cast<size_t>(keys) * head_dim_;
  const size_t used = static_cast<size_t>(size_) * head_dim_ * sizeof(float);
  // One after the other, so that no more than half exists twice.
  for (Buffer<float>* buffer : {&keys_, &values_}) {
    Buffer<float> larger(head_values * kv_heads_);
    for (int head = 0; head < kv_heads_ && used > 0; ++head)
      std::memcpy(larger.data() + head * head_values, buffer->data() + at(head, 0), used);
    *buffer = std::move(larger);
  }
  capacity_ = keys;
}

void KeyValues::make_room(int64_t count) {
  if (size_ + count <= capacity_) return;
  const int64_t grown =
      capacity_ == 0 ? 0 : capacity_ + std::max(kLeastGrowth, capacity_ / kGrowthPart);
  reserve(std::max(size_ + count, grown));
}

void KeyValues::copy_in(const float* keys, int64_t key_stride, const float* values,
                        int64_t value_stride, int head, int64_t begin, int64_t end) {
  const size_t head_bytes = static_cast<size_t>(head_dim_) * sizeof(float);
  const int64_t from = int64_t{head} * head_dim_;
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(keys_.data() + at(head, size_ + i), keys + i * key_stride + from, head_bytes);
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(values_.data() + at(head, size_ + i), values + i * value_stride + from, head_bytes);
}

void KeyValues::append(const float* keys, int64_t key_stride, const float* values,
                       int64_t value_stride, int64_t count) {
  make_room(count);
  for (int head = 0; head < kv_heads_; ++head)
    copy_in(keys, key_stride, values, value_stride, head, 0, count);
  size_ += count;
}

void KeyValues::append(Threads& threads, const float* keys, int64_t key_stride, const float* values,
                       int64_t value_stride, int64_t count) {
  make_room(count);
  const int64_t chunks = (count + kChunkKeys - 1) / kChunkKeys;
  const int64_t tasks = chunks * kv_heads_;
  threads.for_each(
      tasks, chunks > 1 ? 1 : std::max<int64_t>(1, tasks), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t first = task % chunks * kChunkKeys;
          copy_in(keys, key_stride, values, value_stride, static_cast<int>(task / chunks), first,
                  std::min(first + kChunkKeys, count));
        }
      });
  size_ += count;
}

void KeyValues::truncate(int64_t keys) {
  FOVEA_CHECK(keys >= 0 && keys <= size_);
  size_ = keys;
}

}  // namespace fovea
