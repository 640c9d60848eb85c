// SPDX-License-Identifier: Apache-2.0
// Images, plans and maps the tests of this room draw.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "fovea/words.h"
#include "picture/paint.h"
#include "picture/picture.h"

namespace fovea::testing_scenery {

// Smooth shapes with noise, so that every level differs from its neighbours.
inline Image noisy_image(Size size, unsigned seed) {
  std::mt19937 random(seed);
  Image image(size);
  for (int y = 0; y < size.height_px; ++y)
    for (int x = 0; x < size.width_px; ++x) {
      const unsigned noise = random();
      for (int c = 0; c < 3; ++c) {
        const int wave = std::abs((x * (c + 1) + y * 2) % 240 - 120);  // 0..120
        image.row(y)[3 * x + c] = static_cast<uint8_t>(60 + wave + (noise >> (8 * c)) % 64);
      }
    }
  return image;
}

inline Image flat_image(Size size, Rgb colour) {
  Image image(size);
  fill(image, bounds(image), colour);
  return image;
}

inline Plan uniform_plan(Size canvas, int level) {
  Plan plan;
  plan.maker = "uniform";
  const Grid grid = grid_at(canvas, level);
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) plan.cells.push_back({level, row, col});
  plan.budget_tokens = plan.tokens();
  return plan;
}

// Covers the canvas exactly once: every cell from the top is split with probability 3/4.
inline Plan random_quadtree(Size canvas, unsigned seed) {
  std::mt19937 random(seed);
  Plan plan;
  plan.maker = "quadtree";
  std::vector<Cell> open{{level_count(canvas) - 1, 0, 0}};
  while (!open.empty()) {
    const Cell cell = open.back();
    open.pop_back();
    if (cell.level == 0 || random() % 4 == 0) {
      plan.cells.push_back(cell);
      continue;
    }
    const Grid grid = grid_at(canvas, cell.level - 1);
    for (int i = 0; i < 4; ++i) {
      const Cell child{cell.level - 1, 2 * cell.row + i / 2, 2 * cell.col + i % 2};
      if (child.row < grid.rows && child.col < grid.cols) open.push_back(child);
    }
  }
  std::sort(plan.cells.begin(), plan.cells.end());
  plan.budget_tokens = plan.tokens();
  return plan;
}

// Cells of any level, some over others, much left out.
inline Plan random_cells(Size canvas, int count, unsigned seed) {
  std::mt19937 random(seed);
  Plan plan;
  plan.maker = "top-k";
  for (int i = 0; i < count; ++i) {
    const int level = static_cast<int>(random() % std::max(level_count(canvas) - 1, 1));
    const Grid grid = grid_at(canvas, level);
    plan.cells.push_back(
        {level, static_cast<int>(random() % grid.rows), static_cast<int>(random() % grid.cols)});
  }
  std::sort(plan.cells.begin(), plan.cells.end());
  plan.cells.erase(std::unique(plan.cells.begin(), plan.cells.end()), plan.cells.end());
  plan.budget_tokens = count;
  return plan;
}

inline Map random_map(Grid grid, unsigned seed) {
  std::mt19937 random(seed);
  Map map(grid);
  for (uint16_t& score : map.score) score = static_cast<uint16_t>(random());
  return map;
}

inline Relevance random_relevance(Size canvas, bool with_coupling, unsigned seed) {
  const Grid grid = grid_at(canvas, 0);
  Relevance relevance;
  relevance.information = random_map(grid, seed);
  relevance.salience = random_map(grid, seed + 1);
  if (with_coupling) relevance.coupling = random_map(grid, seed + 2);
  relevance.relevance = random_map(grid, seed + 3);
  return relevance;
}

}  // namespace fovea::testing_scenery
