// SPDX-License-Identifier: Apache-2.0
#include "picture/legend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace fovea {
namespace {

constexpr int kLegendTextPx = 16;
constexpr int kLegendLinePx = 30;
constexpr int kSwatchPx = 16;
constexpr int kEntryGapPx = 32;
constexpr int kTitleTextPx = 30;
constexpr int kSizesTextPx = 16;
constexpr int kQuestionTextPx = 23;
constexpr int kMostQuestionLines = 3;
constexpr int kCaptionTextPx = 22;
constexpr int kMostCaptionLines = 3;
constexpr int kBarPx = 12;
constexpr int kMostLevels = 32;

std::array<int, kMostLevels> cells_by_level(const Plan& plan) {
  std::array<int, kMostLevels> counts{};
  for (const Cell& cell : plan.cells) ++counts[static_cast<size_t>(cell.level)];
  return counts;
}

std::string size_text(Size size) {
  return fmt::format("{} × {} px", grouped(size.width_px), grouped(size.height_px));
}

}  // namespace

std::string grouped(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

Legend::Legend(const Plan& plan, const Finest& finest, Font& font) : font_(font) {
  const auto counts = cells_by_level(plan);
  for (int level = 0; level < kMostLevels; ++level) {
    const int count = counts[static_cast<size_t>(level)];
    if (count == 0) continue;
    entries_.push_back(
        {level, decode_utf8(fmt::format("level {} · {} px · {} {}", level,
                                        grouped(int64_t{kCellPx} << level), grouped(count),
                                        count == 1 ? "cell" : "cells"))});
  }
  const auto uncovered = std::count(finest.level.begin(), finest.level.end(), int8_t{-1});
  if (uncovered > 0) {
    const double share = 100.0 * static_cast<double>(uncovered) / finest.level.size();
    entries_.push_back({-1, decode_utf8(fmt::format("not covered · {:.{}f} %", share,
                                                    share < 10 || share > 99 ? 1 : 0))});
  }
  for (Entry& entry : entries_)
    entry.width_px = kSwatchPx + 9 + font_.width_px(entry.text, kLegendTextPx);
}

std::vector<Rect> Legend::flow(int width_px) const {
  std::vector<Rect> places;
  int x = 0;
  int y = 0;
  for (const Entry& entry : entries_) {
    if (x > 0 && x + entry.width_px > width_px) {
      x = 0;
      y += kLegendLinePx;
    }
    places.push_back({x, y, entry.width_px, kLegendLinePx});
    x += entry.width_px + kEntryGapPx;
  }
  return places;
}

int Legend::height_px(int width_px) const {
  return entries_.empty() ? 0 : flow(width_px).back().bottom_px();
}

void Legend::draw(const Rect& rect, Image& image) const {
  const std::vector<Rect> places = flow(rect.width_px);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const int x = rect.x_px + places[i].x_px;
    const int y = rect.y_px + places[i].y_px;
    const Rect swatch{x, y + (kLegendLinePx - kSwatchPx) / 2, kSwatchPx, kSwatchPx};
    if (entries_[i].level < 0) {
      hatch(image, swatch);
    } else {
      const Rgb colour = level_colour(entries_[i].level);
      fill(image, swatch, colour, 90);
      outline(image, swatch, 2, colour, 255, swatch);
    }
    font_.draw(image, swatch.right_px() + 9, y + (kLegendLinePx - font_.line_px(kLegendTextPx)) / 2,
               entries_[i].text, kLegendTextPx, ink::kSoft);
  }
}

Header::Header(const Scenery& scenery, int width_px, Font& font)
    : font_(font), width_px_(width_px) {
  const Size canvas = scenery.pyramid->canvas();
  std::string sizes = size_text(scenery.image);
  if (canvas != scenery.image) sizes += " · canvas " + size_text(canvas);
  sizes_ = decode_utf8(sizes);
  const int room_px = width_px - font.width_px(sizes_, kSizesTextPx) - kEntryGapPx;
  title_ = font.fit(decode_utf8(scenery.title), kTitleTextPx, std::max(room_px, width_px / 3));
  question_ =
      font.wrap(decode_utf8(scenery.question), kQuestionTextPx, width_px, kMostQuestionLines);
}

int Header::height_px() const {
  const int lines = static_cast<int>(question_.size());
  return font_.line_px(kTitleTextPx) + (lines > 0 ? 6 + lines * font_.line_px(kQuestionTextPx) : 0);
}

void Header::draw(int x, int y, Image& image) const {
  const int after = font_.draw(image, x, y, title_, kTitleTextPx, ink::kText);
  const std::u32string sizes = font_.fit(sizes_, kSizesTextPx, x + width_px_ - after - kEntryGapPx);
  font_.draw(image, x + width_px_ - font_.width_px(sizes, kSizesTextPx),
             y + font_.ascent_px(kTitleTextPx) - font_.ascent_px(kSizesTextPx), sizes, kSizesTextPx,
             ink::kSoft);
  y += font_.line_px(kTitleTextPx) + 6;
  for (const std::u32string& line : question_) {
    font_.draw(image, x, y, line, kQuestionTextPx, ink::kQuestion);
    y += font_.line_px(kQuestionTextPx);
  }
}

Caption::Caption(const Scenery& scenery, int width_px, Font& font)
    : plan_(*scenery.plan),
      font_(font),
      width_px_(width_px),
      tokens_full_(grid_at(scenery.pyramid->canvas(), 0).cells()),
      lines_(font.wrap(decode_utf8(scenery.caption), kCaptionTextPx, width_px, kMostCaptionLines)) {
}

int Caption::height_px() const {
  return kBarPx + 14 + static_cast<int>(lines_.size()) * font_.line_px(kCaptionTextPx);
}

void Caption::draw(int x, int y, Image& image) const {
  const auto counts = cells_by_level(plan_);
  const double px_per_token =
      static_cast<double>(width_px_) / std::max<int64_t>({tokens_full_, plan_.tokens(), 1});
  fill(image, {x, y, width_px_, kBarPx}, ink::kRaised);
  int64_t sum = 0;
  int from = 0;
  for (int level = 0; level < kMostLevels; ++level) {
    const int count = counts[static_cast<size_t>(level)];
    sum += count;
    int to = static_cast<int>(std::lround(static_cast<double>(sum) * px_per_token));
    if (count > 0) to = std::min(std::max(to, from + 2), width_px_);  // never invisible
    fill(image, {x + from, y, to - from, kBarPx}, level_colour(level));
    from = std::max(to, from);
  }
  y += kBarPx + 14;
  bool first_part = true;
  for (const std::u32string& line : lines_) {
    // The first figure, the tokens, is what counts most.
    const size_t cut = first_part ? line.find(U" · ") : 0;
    const int after = font_.draw(image, x, y, line.substr(0, cut), kCaptionTextPx, ink::kText);
    if (cut != std::u32string::npos) {
      font_.draw(image, after, y, line.substr(cut), kCaptionTextPx, ink::kSoft);
      first_part = false;
    }
    y += font_.line_px(kCaptionTextPx);
  }
}

}  // namespace fovea
