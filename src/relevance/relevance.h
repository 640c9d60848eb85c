// SPDX-License-Identifier: Apache-2.0
// relevance: Pyramid (+ question) -> Relevance. What each cell is worth looking at, and why.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "fovea/result.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// kCoupling, kSalience and kInformation take that one map alone.
enum class Balance { kMean, kProduct, kSum, kCoupling, kSalience, kInformation };

// The form that people call so; an error lists those there are.
Result<Balance> find_balance(std::string_view name);

struct RelevanceParams {
  int level = 0;  // the cell grid the maps are measured at
  Balance balance = Balance::kMean;
  bool centre_bias = true;
  // Weight of the first pole of each tension, in [0,1].
  double compress_particularize = 0.5;  // information against salience
  double exploit_explore = 0.6;         // coupling against information
  double focus_diversify = 0.5;         // coupling against salience
};

// Every part is kept for the trace. All maps share one grid.
struct Relevance {
  Map information;
  Map salience;
  Map coupling;  // empty where no question was asked
  Map compress_particularize;
  Map exploit_explore;
  Map focus_diversify;
  Map relevance;
};

// What is lost when a cell is read coarser than level 0, in squared 8-bit RGB steps summed over the
// level-0 pixels it covers. lost[l] has one value a cell of level l; lost[0] is all zero.
struct Detail {
  std::vector<Grid> grid;                   // [levels]
  std::vector<std::vector<uint64_t>> lost;  // [levels][rows * cols]

  uint64_t at(const Cell& cell) const {
    const auto level = static_cast<size_t>(cell.level);
    return lost[level][static_cast<size_t>(cell.row) * grid[level].cols + cell.col];
  }
};

// Says what is wrong with parameters a person gave for a pyramid of so many levels.
Status check_relevance(const RelevanceParams& params, int levels);

// `coupling` is null where no question was asked, or a map at the grid of any level (or of any grid
// stretched over the canvas; see coupling.h).
Relevance measure_relevance(Threads& threads, const Pyramid& pyramid, const Map* coupling,
                            const RelevanceParams& params = {});

// Information and salience, which no question changes; what weave_coupling needs.
Relevance measure_picture(Threads& threads, const Pyramid& pyramid,
                          const RelevanceParams& params = {});
// Fills in the rest, again for each question or look.
void weave_coupling(Threads& threads, Size canvas, const Map* coupling,
                    const RelevanceParams& params, Relevance& parts);

Detail measure_detail(Threads& threads, const Pyramid& pyramid);

}  // namespace fovea
