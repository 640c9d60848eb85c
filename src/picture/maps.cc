// SPDX-License-Identifier: Apache-2.0
// The map panels: heat colours with the photo as a relief.
#include <algorithm>
#include <array>
#include <cmath>

#include "picture/panels.h"
#include "picture/resample.h"

namespace fovea {
namespace {

constexpr int kRowsAtOnce = 16;
constexpr size_t kScores = 256;
constexpr double kReliefHeight = 0.22;   // OKLab lightness at either end
constexpr double kReliefContrast = 1.6;  // of the difference to the blurred photo
constexpr int kBlurLevels = 4;           // the relief is taken against a level this much coarser

// heat() with the relief added to its lightness, for every score and step.
using Palette = std::array<std::array<Rgb, 2 * kReliefFlat + 1>, kScores>;

const Palette& palette() {
  static const Palette made = [] {
    Palette out;
    for (size_t score = 0; score < kScores; ++score) {
      const OkLab base = heat(static_cast<double>(score) / (kScores - 1));
      for (size_t step = 0; step < out[score].size(); ++step) {
        const double light = kReliefHeight * (static_cast<double>(step) / kReliefFlat - 1);
        out[score][step] = rgb_of({std::clamp(base.lightness + light, 0.08, 0.99), base.a, base.b});
      }
    }
    return out;
  }();
  return made;
}

// The canvas pixels one side of a map's cell covers, where the map belongs to a level; otherwise
// the map is spread over the canvas.
struct Pitch {
  double x_px;
  double y_px;
};

Pitch pitch_of(Grid grid, Size canvas) {
  for (int level = 0; level < level_count(canvas); ++level)
    if (grid_at(canvas, level) == grid)
      return {static_cast<double>(kCellPx << level), static_cast<double>(kCellPx << level)};
  return {static_cast<double>(canvas.width_px) / grid.cols,
          static_cast<double>(canvas.height_px) / grid.rows};
}

// One line of picture pixels from the map, before the palette: [width] in score steps.
void sample_line(const Map& map, const Taps& x_taps, const Taps& y_taps, int line,
                 std::vector<float>& column_sums, std::vector<float>& out) {
  const auto at_y = static_cast<size_t>(line);
  column_sums.assign(static_cast<size_t>(map.grid.cols), 0);
  for (int k = 0; k < y_taps.taps; ++k) {
    const int row = std::clamp(y_taps.first[at_y] + k, 0, map.grid.rows - 1);
    const float weight = y_taps.weight[at_y * y_taps.taps + k];
    if (weight == 0) continue;
    for (int col = 0; col < map.grid.cols; ++col)
      column_sums[static_cast<size_t>(col)] += weight * map.at(row, col);
  }
  for (size_t x = 0; x < out.size(); ++x) {
    float sum = 0;
    for (int k = 0; k < x_taps.taps; ++k) {
      const int col = std::clamp(x_taps.first[x] + k, 0, map.grid.cols - 1);
      sum += x_taps.weight[x * x_taps.taps + k] * column_sums[static_cast<size_t>(col)];
    }
    out[x] = std::clamp(sum, 0.0f, 65535.0f);
  }
}

}  // namespace

Relief make_relief(Threads& threads, const Pyramid& pyramid, std::span<const View> views,
                   const Rect& panel) {
  Image sharp(panel.size());
  Image blurred(panel.size());
  for (View view : views) {
    view.picture.x_px -= panel.x_px;
    view.picture.y_px -= panel.y_px;
    const int level = level_for(view, pyramid.levels());
    draw_photo(threads, pyramid, view, level, sharp);
    draw_photo(threads, pyramid, view, std::min(level + kBlurLevels, pyramid.levels() - 1),
               blurred);
  }
  Relief relief{panel.size(), std::vector<uint8_t>(static_cast<size_t>(panel.size().pixels()))};
  const auto gray = [](const uint8_t* rgb) {
    return (rgb[0] * 77 + rgb[1] * 150 + rgb[2] * 29) / 65280.0;
  };
  for (size_t i = 0; i < relief.light.size(); ++i) {
    const double difference = gray(&sharp.rgb[3 * i]) - gray(&blurred.rgb[3 * i]);
    const double step = std::clamp(kReliefContrast * difference, -1.0, 1.0) * kReliefFlat;
    relief.light[i] = static_cast<uint8_t>(std::lround(kReliefFlat + step));
  }
  return relief;
}

void draw_map_panel(Threads& threads, const Map& map, Size canvas, const Relief& relief,
                    std::span<const View> views, const Rect& panel, Image& image) {
  const Palette& colours = palette();
  const Pitch pitch = pitch_of(map.grid, canvas);
  for (const View& view : views) {
    const Rect& to = view.picture;
    const Taps x_taps =
        make_taps(view.canvas.x_px / pitch.x_px, view.step_x() / pitch.x_px, to.width_px);
    const Taps y_taps =
        make_taps(view.canvas.y_px / pitch.y_px, view.step_y() / pitch.y_px, to.height_px);
    threads.for_each(to.height_px, kRowsAtOnce, [&](int64_t begin, int64_t end) {
      std::vector<float> column_sums;
      std::vector<float> line(static_cast<size_t>(to.width_px));
      for (int y = static_cast<int>(begin); y < end; ++y) {
        sample_line(map, x_taps, y_taps, y, column_sums, line);
        const size_t light_row =
            static_cast<size_t>(to.y_px - panel.y_px + y) * relief.size.width_px;
        for (int x = 0; x < to.width_px; ++x) {
          const auto score = static_cast<size_t>(std::lround(line[static_cast<size_t>(x)] / 257));
          const uint8_t light = relief.light[light_row + (to.x_px - panel.x_px + x)];
          set_pixel(image, to.x_px + x, to.y_px + y, colours[score][light]);
        }
      }
    });
  }
}

void draw_scale(const Rect& bar, Font& font, Image& image) {
  constexpr int kFigurePx = 14;
  for (int y = 0; y < bar.height_px; ++y) {
    const double score = bar.height_px > 1 ? 1 - static_cast<double>(y) / (bar.height_px - 1) : 1;
    fill(image, {bar.x_px, bar.y_px + y, bar.width_px, 1}, rgb_of(heat(score)));
  }
  const int line_px = font.line_px(kFigurePx);
  const int x = bar.right_px() + 7;
  font.draw(image, x, bar.y_px - 2, U"1", kFigurePx, ink::kSoft);
  font.draw(image, x, bar.bottom_px() - line_px + 2, U"0", kFigurePx, ink::kSoft);
  if (bar.height_px > 5 * line_px)
    font.draw(image, x, bar.y_px + (bar.height_px - line_px) / 2, U"0.5", kFigurePx, ink::kSoft);
}

}  // namespace fovea
