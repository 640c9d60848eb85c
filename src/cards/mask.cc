// SPDX-License-Identifier: Apache-2.0
#include "cards/mask.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace fovea {
namespace {

// The largest whole number whose square is at most `value`, by Newton's steps from above.
int root(int64_t value) {
  if (value < 2) return static_cast<int>(value);
  int64_t guess = int64_t{1} << ((std::bit_width(static_cast<uint64_t>(value)) + 1) / 2);
  for (int64_t next = (guess + value / guess) / 2; next < guess; next = (guess + value / guess) / 2)
    guess = next;
  return static_cast<int>(guess);
}

// Half the length of a disc's chord at a height; -1 where there is none.
int half_chord(MaskPoint centre, int radius, int y) {
  const int64_t dy = y - centre.y;
  const int64_t square = int64_t{radius} * radius - dy * dy;
  return square < 0 ? -1 : root(square);
}

}  // namespace

void MaskSpans::add(int x0, int x1) {
  if (x0 >= x1) return;
  FOVEA_CHECK(count_ < kMost);
  spans_[count_++] = {x0, x1};
}

void MaskSpans::cut(int x0, int x1) {
  const MaskSpans before = *this;
  count_ = 0;
  for (const Span& span : before) {
    add(span.x0, std::min(span.x1, x0));
    add(std::max(span.x0, x1), span.x1);
  }
}

void CardMask::add_span(int row, int x0, int x1) {
  x0 = std::max(x0, 0);
  x1 = std::min(x1, width_px_ * kSixteenths);
  if (x0 >= x1) return;
  uint8_t* out = coverage_.data() + static_cast<size_t>(row) * static_cast<size_t>(width_px_);
  const int first = x0 / kSixteenths;
  const int last = x1 / kSixteenths;
  if (first == last) {
    out[first] = static_cast<uint8_t>(out[first] + x1 - x0);
    return;
  }
  out[first] = static_cast<uint8_t>(out[first] + kSixteenths - x0 % kSixteenths);
  for (int x = first + 1; x < last; ++x) out[x] = static_cast<uint8_t>(out[x] + kSixteenths);
  if (x1 % kSixteenths != 0) out[last] = static_cast<uint8_t>(out[last] + x1 % kSixteenths);
}

void CardMask::add_rectangle(int x0, int y0, int x1, int y1) {
  add([&](int y) {
    MaskSpans spans;
    if (y >= y0 && y < y1) spans.add(x0, x1);
    return spans;
  });
}

void CardMask::add_polygon(std::span<const MaskPoint> points) {
  add([&](int y) {
    int crossings[16];
    int count = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const MaskPoint a = points[i];
      const MaskPoint b = points[(i + 1) % points.size()];
      if ((a.y <= y) == (b.y <= y)) continue;
      FOVEA_CHECK(count < 16);
      crossings[count++] = a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y);
    }
    std::sort(crossings, crossings + count);
    MaskSpans spans;
    for (int i = 0; i + 1 < count; i += 2) spans.add(crossings[i], crossings[i + 1]);
    return spans;
  });
}

void CardMask::intersect(const CardMask& other) {
  FOVEA_CHECK(other.width_px_ == width_px_ && other.height_px_ == height_px_);
  for (size_t i = 0; i < coverage_.size(); ++i)
    coverage_[i] = std::min(coverage_[i], other.coverage_[i]);
}

void add_disc(MaskSpans& spans, MaskPoint centre, int radius, int y) {
  const int half = half_chord(centre, radius, y);
  if (half >= 0) spans.add(centre.x - half, centre.x + half);
}

void cut_disc(MaskSpans& spans, MaskPoint centre, int radius, int y) {
  const int half = half_chord(centre, radius, y);
  if (half >= 0) spans.cut(centre.x - half, centre.x + half);
}

void blend(const CardCanvas& canvas, int x_px, int y_px, const CardMask& mask, CardInk ink) {
  FOVEA_CHECK(x_px >= 0 && y_px >= 0 && x_px + mask.width_px() <= canvas.size.width_px &&
              y_px + mask.height_px() <= canvas.size.height_px);
  constexpr int kFull = CardMask::kFull;
  for (int y = 0; y < mask.height_px(); ++y) {
    const uint8_t* cover = mask.row(y);
    uint8_t* out = canvas.at(x_px, y_px + y);
    for (int x = 0; x < mask.width_px(); ++x, out += 3) {
      if (cover[x] == 0) continue;
      for (int c = 0; c < 3; ++c)
        out[c] = static_cast<uint8_t>(
            (out[c] * (kFull - cover[x]) + ink.rgb[c] * cover[x] + kFull / 2) / kFull);
    }
  }
}

}  // namespace fovea
