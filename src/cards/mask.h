// SPDX-License-Identifier: Apache-2.0
// Anti-aliased areas in whole numbers: places are in sixteenths of a pixel, rows are sampled eight
// times, and within a row the covered length is exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cards/cards.h"

namespace fovea {

inline constexpr int kSixteenths = 16;

struct MaskPoint {
  int x = 0;
  int y = 0;
};

// Intervals of one row that do not overlap.
class MaskSpans {
 public:
  void add(int x0, int x1);
  void cut(int x0, int x1);  // takes the interval away

  struct Span {
    int x0;
    int x1;
  };
  const Span* begin() const { return spans_; }
  const Span* end() const { return spans_ + count_; }

 private:
  static constexpr int kMost = 8;
  Span spans_[kMost] = {};
  int count_ = 0;
};

// How much of each pixel is covered: 0..kFull.
class CardMask {
 public:
  static constexpr int kFull = 128;

  CardMask(int width_px, int height_px)
      : width_px_(width_px),
        height_px_(height_px),
        coverage_(static_cast<size_t>(width_px) * height_px) {}

  int width_px() const { return width_px_; }
  int height_px() const { return height_px_; }
  const uint8_t* row(int y) const {
    return coverage_.data() + static_cast<size_t>(y) * static_cast<size_t>(width_px_);
  }

  // Areas that are added must not overlap. `spans_at` gives the spans at a height.
  template <class SpansAt>
  void add(const SpansAt& spans_at) {
    for (int y = 1; y < height_px_ * kSixteenths; y += kSixteenths / kSamples)
      for (const MaskSpans::Span& span : spans_at(y)) add_span(y / kSixteenths, span.x0, span.x1);
  }
  void add_rectangle(int x0, int y0, int x1, int y1);
  void add_polygon(std::span<const MaskPoint> points);
  void intersect(const CardMask& other);  // of the same size

 private:
  static constexpr int kSamples = 8;
  void add_span(int row, int x0, int x1);

  int width_px_;
  int height_px_;
  std::vector<uint8_t> coverage_;
};

// The spans of a disc around (x, y); none where the row misses it.
void add_disc(MaskSpans& spans, MaskPoint centre, int radius, int y);
void cut_disc(MaskSpans& spans, MaskPoint centre, int radius, int y);

// Where cards are painted.
struct CardCanvas {
  Size size;
  uint8_t* rgb = nullptr;  // [height][width][3]

  uint8_t* at(int x, int y) const {
    return rgb +
           (static_cast<size_t>(y) * static_cast<size_t>(size.width_px) + static_cast<size_t>(x)) *
               3;
  }
};

struct CardInk {
  uint8_t rgb[3] = {0, 0, 0};
};

// Paints the mask, which must lie inside the canvas, with its corner at (x, y).
void blend(const CardCanvas& canvas, int x_px, int y_px, const CardMask& mask, CardInk ink);

}  // namespace fovea
