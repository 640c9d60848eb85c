// SPDX-License-Identifier: Apache-2.0
// What the two resamplers share: weights and how they are read, and keys and values of many rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/threads.h"
#include "fovea/result.h"
#include "memory/key_values.h"
#include "ops/matrix.h"
#include "weights/tensor_source.h"

namespace fovea {

struct ResampleOptions {
  // For tests and traces: sees the output of each layer, [tokens][hidden_size].
  std::function<void(int layer, const float* hidden)> on_layer;
};

// Rows of some width: states, or queries.
struct StateRows {
  const float* values = nullptr;
  int64_t count = 0;
};

// y = x W^T + b
struct CrossLinear {
  Matrix weight;       // [out][in]
  Buffer<float> bias;  // [out], or empty

  int64_t out() const { return weight.rows(); }
  size_t bytes() const { return weight.bytes() + bias.size() * sizeof(float); }
};

// A layer norm, or without a bias an RMS norm.
struct CrossNorm {
  Buffer<float> weight;  // [size]
  Buffer<float> bias;    // [size], or empty

  size_t bytes() const { return (weight.size() + bias.size()) * sizeof(float); }
};

// Asks a source for tensors; after the first error it asks for nothing more. Shapes were checked
// when the checkpoint was opened.
class WeightReader {
 public:
  explicit WeightReader(const TensorSource& source) : source_(source) {}

  Matrix matrix(const std::string& name);
  Buffer<float> values(const std::string& name);
  CrossLinear linear(const std::string& name, bool bias);
  CrossNorm norm(const std::string& name, bool bias);

  const std::optional<Error>& error() const { return error_; }

 private:
  const TensorSource& source_;
  std::optional<Error> error_;
};

// y = x W^T + b for some rows; `add`: y += that.
void apply(Threads& threads, const CrossLinear& linear, StateRows x, float* y, bool add = false);

// Rows are worked on so many at a time, so that what is wide about them never exists all at once.
inline constexpr int64_t kStateChunk = 1024;

// Calls body(rows, index of the first) for chunks of the rows, which are `width` values wide.
template <class Body>
void each_chunk(StateRows rows, int64_t width, const Body& body) {
  for (int64_t first = 0; first < rows.count; first += kStateChunk)
    body(StateRows{rows.values + first * width, std::min(kStateChunk, rows.count - first)}, first);
}

// Appends key(x) and value(x) of the rows, at most kStateChunk of them. `wide` has place for the
// widths of both, for each row.
void append_keys(Threads& threads, const CrossLinear& key, const CrossLinear& value, StateRows x,
                 Buffer<float>& wide, KeyValues& kv);

}  // namespace fovea
