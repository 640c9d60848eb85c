// SPDX-License-Identifier: Apache-2.0
// What the decoder's tests share: a golden model with its prompt, ready to be decoded.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "language/decoder.h"
#include "language/positions.h"
#include "model_goldens.h"
#include "weights/loader.h"
#include "weights/tensor_source.h"

namespace fovea::test {

// The largest difference, as a part of the largest expected value.
inline double difference(std::span<const float> expected, std::span<const float> actual) {
  EXPECT_EQ(expected.size(), actual.size());
  if (expected.size() != actual.size()) return 1;
  double most = 0;
  double scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(actual[i])) return 1;
    most = std::max(most, std::abs(double{expected[i]} - actual[i]));
    scale = std::max(scale, std::abs(double{expected[i]}));
  }
  return most / scale;
}

inline double cosine(std::span<const float> a, std::span<const float> b) {
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
    ab += double{a[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

inline std::span<const float> all_of(const Buffer<float>& buffer) {
  return {buffer.data(), buffer.size()};
}

class DecoderCase {
 public:
  explicit DecoderCase(int index, std::optional<WeightFormat> format = std::nullopt,
                       int thread_count = 2)
      : golden(index), threads(thread_count), decoder(build(format)) {
    ids = golden.ints("input_ids");
    for (size_t i = 0; i < golden.images().size(); ++i) {
      visual_.push_back(golden.visual(i));
      const Grid grid = golden.images()[i].grid;
      auto& cells = cells_.emplace_back();
      for (int r = 0; r < grid.rows; ++r)
        for (int c = 0; c < grid.cols; ++c) cells.push_back({0, r, c});
    }
    std::vector<ImageSpan> images;
    for (size_t i = 0; i < visual_.size(); ++i) {
      const GoldenImage& image = golden.images()[i];
      images.push_back({image.at, cells_[i], image.grid});
      spans.push_back({image.at, &visual_[i], 0, visual_[i].count});
    }
    positions = prompt_positions(ids.size(), images);
  }

  TokenRun run() const { return {ids, positions.tokens, spans}; }
  // Tokens [begin, end) of the prompt; `kept` holds the parts of the images in it.
  TokenRun part(size_t begin, size_t end, std::vector<VisualSpan>& kept) const {
    kept.clear();
    for (const VisualSpan& span : spans) {
      const size_t from = std::max(begin, span.at);
      const size_t to = std::min(end, span.at + span.count);
      if (from < to)
        kept.push_back({from - begin, span.tokens, static_cast<int>(from - span.at),
                        static_cast<int>(to - from)});
    }
    return {std::span(ids).subspan(begin, end - begin),
            std::span(positions.tokens).subspan(begin, end - begin), kept};
  }
  Buffer<float> forward(DecoderMemory& memory, const ForwardOptions& options = {}) {
    return *decoder.forward(threads, run(), memory, options);
  }
  Buffer<float> decode_one(int id, float position, DecoderMemory& memory) {
    const TokenPosition at = text_position(position);
    return *decoder.forward(threads, {{&id, 1}, {&at, 1}, {}}, memory);
  }

  GoldenModel golden;
  Threads threads;
  Decoder decoder;
  std::vector<int> ids;
  PromptPositions positions;
  std::vector<VisualSpan> spans;

 private:
  Decoder build(std::optional<WeightFormat> format) {
    Loader loader(threads, golden.checkpoint());
    const TensorSource source = text_source(golden.checkpoint(), loader, format);
    return *Decoder::build(golden.checkpoint().config(), source);
  }

  std::vector<VisualTokens> visual_;
  std::vector<std::vector<Cell>> cells_;
};

}  // namespace fovea::test
