// SPDX-License-Identifier: Apache-2.0
// The keys and values of one attention layer, kept so that later queries attend to them.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/threads.h"

namespace fovea {

// Grows at its end, and can be cut back: a cached beginning stays valid while what follows it
// changes. Each head's rows lie together.
class KeyValues {
 public:
  KeyValues() = default;
  KeyValues(int kv_heads, int head_dim) : kv_heads_(kv_heads), head_dim_(head_dim) {}

  int kv_heads() const { return kv_heads_; }
  int head_dim() const { return head_dim_; }
  int64_t size() const { return size_; }          // keys
  int64_t capacity() const { return capacity_; }  // keys there is memory for
  size_t bytes() const { return (keys_.size() + values_.size()) * sizeof(float); }

  // Makes room for this many keys in all; what is there stays.
  void reserve(int64_t keys);
  // Adds `count` keys and values: [count][kv_heads * head_dim], rows so many values apart.
  void append(const float* keys, int64_t key_stride, const float* values, int64_t value_stride,
              int64_t count);
  // The same by several threads, which pays for some hundred keys and more.
  void append(Threads& threads, const float* keys, int64_t key_stride, const float* values,
              int64_t value_stride, int64_t count);
  // Forgets all but the first `keys`.
  void truncate(int64_t keys);

  const float* key(int head, int64_t index) const { return keys_.data() + at(head, index); }
  const float* value(int head, int64_t index) const { return values_.data() + at(head, index); }

 private:
  size_t at(int head, int64_t index) const {
    return static_cast<size_t>((head * capacity_ + index) * head_dim_);
  }

  void make_room(int64_t count);
  // Rows [begin, end) of what is added, of one head.
  void copy_in(const float* keys, int64_t key_stride, const float* values, int64_t value_stride,
               int head, int64_t begin, int64_t end);

  int kv_heads_ = 0;
  int head_dim_ = 0;
  int64_t size_ = 0;
  int64_t capacity_ = 0;
  Buffer<float> keys_;    // [kv_heads][capacity][head_dim]
  Buffer<float> values_;  // likewise
};

}  // namespace fovea
