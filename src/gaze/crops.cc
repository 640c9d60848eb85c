// SPDX-License-Identifier: Apache-2.0
// A look as rectangles, for models that take images and no loose cells. Each begins at the most
// relevant cell that is left and grows by the row or column of cells whose mean relevance is the
// highest, while that is at least half of its own; what is left of the budget in the end goes to
// the best rows and columns around all of them. A rectangle with a little of everything around a
// thing is what such models were trained on, so small gaps are no loss.
#include <algorithm>
#include <optional>

#include "base/check.h"
#include "gaze/gaze.h"

namespace fovea {
namespace {

constexpr size_t kMostCrops = 4;
constexpr double kWorth = 0.5;

class Crops {
 public:
  Crops(const Scene& scene, int64_t tokens, std::span<const Cell> seen)
      : relevance_(*scene.relevance), left_(tokens), taken_(relevance_.grid) {
    for (const Cell& cell : seen)
      if (cell.level == 0) taken_.at(cell.row, cell.col) = 1;
  }

  std::vector<CellBlock> choose() {
    while (crops_.size() < kMostCrops && left_ > 0 && begin_crop())
      while (grow({&crops_.back(), 1}, kWorth)) continue;
    while (grow(crops_, 0)) continue;
    return std::move(crops_);
  }

 private:
  bool begin_crop() {
    std::optional<Cell> best;
    for (int row = 0; row < taken_.grid.rows; ++row)
      for (int col = 0; col < taken_.grid.cols; ++col)
        if (taken_.at(row, col) == 0 &&
            (!best || relevance_.at(row, col) > relevance_.at(best->row, best->col)))
          best = Cell{0, row, col};
    // A second look at nothing in particular is better spent around the first.
    if (!best || (!crops_.empty() && relevance_.at(best->row, best->col) == 0)) return false;
    crops_.push_back({best->row, best->row + 1, best->col, best->col + 1});
    take(crops_.back());
    return true;
  }

  // Adds the best strip around some crops; false where none fits or none is worth it.
  bool grow(std::span<CellBlock> crops, double worth) {
    CellBlock* grown = nullptr;
    CellBlock best;
    double best_mean = -1;
    for (CellBlock& crop : crops) {
      for (const CellBlock& strip : strips_around(crop)) {
        if (strip.cells() > left_ || !is_free(strip)) continue;
        const double mean = mean_of(strip);
        if (mean <= best_mean || mean < worth * mean_of(crop)) continue;
        best_mean = mean;
        best = strip;
        grown = &crop;
      }
    }
    if (grown == nullptr) return false;
    take(best);
    *grown = {std::min(grown->row_begin, best.row_begin), std::max(grown->row_end, best.row_end),
              std::min(grown->col_begin, best.col_begin), std::max(grown->col_end, best.col_end)};
    return true;
  }

  static std::array<CellBlock, 4> strips_around(const CellBlock& crop) {
    const auto [top, bottom, left, right] = crop;
    return {{{top - 1, top, left, right},
             {bottom, bottom + 1, left, right},
             {top, bottom, left - 1, left},
             {top, bottom, right, right + 1}}};
  }

  bool is_free(const CellBlock& block) const {
    if (block.row_begin < 0 || block.col_begin < 0 || block.row_end > taken_.grid.rows ||
        block.col_end > taken_.grid.cols)
      return false;
    for (int row = block.row_begin; row < block.row_end; ++row)
      for (int col = block.col_begin; col < block.col_end; ++col)
        if (taken_.at(row, col) != 0) return false;
    return true;
  }

  double mean_of(const CellBlock& block) const {
    int64_t sum = 0;
    for (int row = block.row_begin; row < block.row_end; ++row)
      for (int col = block.col_begin; col < block.col_end; ++col) sum += relevance_.at(row, col);
    return static_cast<double>(sum) / static_cast<double>(block.cells());
  }

  void take(const CellBlock& block) {
    for (int row = block.row_begin; row < block.row_end; ++row)
      for (int col = block.col_begin; col < block.col_end; ++col) taken_.at(row, col) = 1;
    left_ -= block.cells();
  }

  const Map& relevance_;
  int64_t left_;
  Map taken_;
  std::vector<CellBlock> crops_;
};

}  // namespace

std::vector<CellBlock> make_crops(const Scene& scene, int64_t tokens, std::span<const Cell> seen) {
  FOVEA_CHECK(scene.relevance != nullptr && scene.relevance->grid == grid_at(scene.canvas, 0));
  return Crops(scene, tokens, seen).choose();
}

}  // namespace fovea
