// SPDX-License-Identifier: Apache-2.0
#include "picture/resample.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"

namespace fovea {
namespace {

double cubic(double x) {  // Catmull-Rom
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return 0;
}

// The kernels of one view for one level.
struct Kernels {
  Taps x;
  Taps y;
};

Kernels make_kernels(const View& view, int level) {
  const double scale = std::ldexp(1.0, -level);
  return {make_taps(view.canvas.x_px * scale, view.step_x() * scale, view.picture.width_px),
          make_taps(view.canvas.y_px * scale, view.step_y() * scale, view.picture.height_px)};
}

// True when the plan reads pixel (x, y) of `level` at that level or finer.
bool is_known(const Finest& finest, int x, int y, int level) {
  const auto first_cell = [level](int v) { return (v << level) / kCellPx; };
  const auto last_cell = [level](int v) { return (((v + 1) << level) - 1) / kCellPx; };
  const int row_end = std::min(last_cell(y), finest.grid.rows - 1);
  const int col_end = std::min(last_cell(x), finest.grid.cols - 1);
  for (int row = first_cell(y); row <= row_end; ++row)
    for (int col = first_cell(x); col <= col_end; ++col)
      if (finest.at(row, col) < 0 || finest.at(row, col) > level) return false;
  return true;
}

// A copy of the level's pixels a block needs: itself and an apron for the kernel.
struct Tile {
  Rect area;               // in pixels of the level; may reach over its edges
  std::vector<float> rgb;  // [height][width][3]
};

// `own` are the block's pixels; `finest` is null where everything is known.
void gather(const LevelView& level, int index, const Rect& own, const Finest* finest, Tile& tile) {
  tile.rgb.resize(static_cast<size_t>(tile.area.size().pixels()) * 3);
  float* to = tile.rgb.data();
  for (int y = tile.area.y_px; y < tile.area.bottom_px(); ++y) {
    const int level_y = std::clamp(y, 0, level.size.height_px - 1);
    const bool own_row = level_y >= own.y_px && level_y < own.bottom_px();
    for (int x = tile.area.x_px; x < tile.area.right_px(); ++x, to += 3) {
      int from_x = std::clamp(x, 0, level.size.width_px - 1);
      int from_y = level_y;
      const bool inside = own_row && from_x >= own.x_px && from_x < own.right_px();
      if (!inside && finest != nullptr && !is_known(*finest, from_x, from_y, index)) {
        from_x = std::clamp(from_x, own.x_px, own.right_px() - 1);
        from_y = std::clamp(from_y, own.y_px, own.bottom_px() - 1);
      }
      std::copy_n(level.row(from_y) + 3 * from_x, 3, to);
    }
  }
}

// One block of one level on its way into the picture. Buffers are kept from block to block.
class BlockPainter {
 public:
  BlockPainter(const LevelView& level, int index, const View& view, const Kernels& kernels,
               const Finest* finest, Image& image)
      : level_(level),
        index_(index),
        view_(view),
        kernels_(kernels),
        finest_(finest),
        image_(image) {}

  // `area` are the block's canvas pixels; only places whose finest level is `cell_level` are
  // written.
  void paint(const Rect& area, int cell_level) {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): a reference, which the constructor sets.
    const Rect to = intersect(view_.to_picture(area), view_.picture);
    if (to.empty()) return;
    const int left = to.x_px - view_.picture.x_px;
    const int top = to.y_px - view_.picture.y_px;
    const Rect own = own_pixels(area);
    const auto last = [](const Taps& taps, int i) {
      return taps.first[static_cast<size_t>(i)] + taps.taps;
    };
    tile_.area.x_px = kernels_.x.first[static_cast<size_t>(left)];
    tile_.area.y_px = kernels_.y.first[static_cast<size_t>(top)];
    tile_.area.width_px = last(kernels_.x, left + to.width_px - 1) - tile_.area.x_px;
    tile_.area.height_px = last(kernels_.y, top + to.height_px - 1) - tile_.area.y_px;
    gather(level_, index_, own, finest_, tile_);
    shrink_rows(left, to.width_px);
    for (int y = 0; y < to.height_px; ++y) write_row(to, top + y, to.y_px + y, cell_level);
  }

 private:
  Rect own_pixels(const Rect& area) const {
    const int x = area.x_px >> index_;
    const int y = area.y_px >> index_;
    const int right = std::min(std::max(area.right_px() >> index_, x + 1), level_.size.width_px);
    const int bottom = std::min(std::max(area.bottom_px() >> index_, y + 1), level_.size.height_px);
    return {x, y, right - x, bottom - y};
  }

  // Every row of the tile becomes a row of picture width.
  void shrink_rows(int left, int width) {
    const Taps& taps = kernels_.x;
    rows_.resize(static_cast<size_t>(tile_.area.height_px) * width * 3);
    float* out = rows_.data();
    for (int y = 0; y < tile_.area.height_px; ++y) {
      const float* row = tile_.rgb.data() + static_cast<size_t>(y) * tile_.area.width_px * 3;
      for (int x = left; x < left + width; ++x, out += 3) {
        const auto at = static_cast<size_t>(x);
        const float* weight = taps.weight.data() + at * taps.taps;
        const float* from = row + ptrdiff_t{taps.first[at] - tile_.area.x_px} * 3;
        float sum[3] = {0, 0, 0};
        for (int k = 0; k < taps.taps; ++k)
          for (int c = 0; c < 3; ++c) sum[c] += weight[k] * from[3 * k + c];
        std::copy_n(sum, 3, out);
      }
    }
  }

  void write_row(const Rect& to, int line, int picture_y, int cell_level) {
    const Taps& taps = kernels_.y;
    const auto at = static_cast<size_t>(line);
    const size_t width = static_cast<size_t>(to.width_px) * 3;
    const float* from = rows_.data() + (taps.first[at] - tile_.area.y_px) * width;
    line_.assign(width, 0);
    for (int k = 0; k < taps.taps; ++k)
      for (size_t i = 0; i < width; ++i)
        line_[i] += taps.weight[at * taps.taps + k] * from[k * width + i];
    uint8_t* out = image_.row(picture_y) + 3 * to.x_px;
    const int canvas_y = view_.canvas_y(picture_y);
    for (int x = 0; x < to.width_px; ++x) {
      if (finest_ != nullptr &&
          finest_->at_canvas(view_.canvas_x(to.x_px + x), canvas_y) != cell_level)
        continue;
      for (int c = 0; c < 3; ++c)
        out[3 * x + c] = static_cast<uint8_t>(std::clamp(line_[3 * x + c] + 0.5f, 0.0f, 255.0f));
    }
  }

  const LevelView level_;
  const int index_;
  const View& view_;
  const Kernels& kernels_;
  const Finest* finest_;
  Image& image_;
  Tile tile_;
  std::vector<float> rows_;
  std::vector<float> line_;
};

}  // namespace

Taps make_taps(double origin, double step, int count) {
  const double widening = std::max(1.0, step);
  const double reach = 2 * widening;
  Taps out;
  out.taps = static_cast<int>(std::ceil(2 * reach));
  out.first.resize(static_cast<size_t>(count));
  out.weight.resize(static_cast<size_t>(count) * out.taps);
  for (int i = 0; i < count; ++i) {
    const double centre = origin + (i + 0.5) * step - 0.5;  // in sample indices
    const int first = static_cast<int>(std::floor(centre - reach)) + 1;
    out.first[static_cast<size_t>(i)] = first;
    float* weight = out.weight.data() + static_cast<size_t>(i) * out.taps;
    double sum = 0;
    for (int k = 0; k < out.taps; ++k) sum += cubic((first + k - centre) / widening);
    for (int k = 0; k < out.taps; ++k)
      weight[k] = static_cast<float>(cubic((first + k - centre) / widening) / sum);
  }
  return out;
}

int level_for(const View& view, int levels) {
  const double step = std::max(view.step_x(), view.step_y());
  int level = 0;
  while (level + 1 < levels && std::ldexp(1.0, level + 1) <= step) ++level;
  return level;
}

void draw_photo(Threads& threads, const Pyramid& pyramid, const View& view, int level,
                Image& image) {
  const Kernels kernels = make_kernels(view, level);
  const int side = kCellPx << level;
  const int first_row = view.canvas.y_px / side;
  const int first_col = view.canvas.x_px / side;
  const int rows = (view.canvas.bottom_px() - 1) / side - first_row + 1;
  const int cols = (view.canvas.right_px() - 1) / side - first_col + 1;
  threads.for_each(int64_t{rows} * cols, 8, [&](int64_t begin, int64_t end) {
    BlockPainter painter(pyramid.level(level), level, view, kernels, nullptr, image);
    for (int64_t i = begin; i < end; ++i) {
      const Cell block{level, first_row + static_cast<int>(i / cols),
                       first_col + static_cast<int>(i % cols)};
      painter.paint(area_of(block), 0);
    }
  });
}

void draw_cells(Threads& threads, const Pyramid& pyramid, const View& view,
                std::span<const Cell> cells, const Finest& finest, Image& image) {
  const int view_level = level_for(view, pyramid.levels());
  std::vector<Kernels> kernels(static_cast<size_t>(pyramid.levels()));
  for (int level = view_level; level < pyramid.levels(); ++level)
    kernels[static_cast<size_t>(level)] = make_kernels(view, level);
  threads.for_each(static_cast<int64_t>(cells.size()), 8, [&](int64_t begin, int64_t end) {
    std::optional<BlockPainter> painter;
    int painter_level = -1;
    for (int64_t i = begin; i < end; ++i) {
      const Cell& cell = cells[static_cast<size_t>(i)];
      const int level = std::max(cell.level, view_level);
      if (level != painter_level)
        painter.emplace(pyramid.level(level), level, view, kernels[static_cast<size_t>(level)],
                        &finest, image);
      painter_level = level;
      painter->paint(area_of(cell), cell.level);
    }
  });
}

}  // namespace fovea
