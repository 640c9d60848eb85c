// SPDX-License-Identifier: Apache-2.0
#include "relevance/balance.h"

#include <cmath>

#include "base/check.h"

namespace fovea {
namespace {

constexpr int64_t kChunkCells = 4096;

double to_unit(uint16_t score) { return score / 65535.0; }
uint16_t to_score(double unit) { return static_cast<uint16_t>(unit * 65535 + 0.5); }

// The map that alone is the relevance; null where the forms weigh all three.
const Map* one_map(Balance form, const Relevance& parts, const Map& asked) {
  switch (form) {
    case Balance::kCoupling:
      return &asked;
    case Balance::kSalience:
      return &parts.salience;
    case Balance::kInformation:
      return &parts.information;
    default:
      return nullptr;
  }
}

}  // namespace

double navigate(Balance form, double a, double b, double weight) {
  if (weight >= 1) return form == Balance::kProduct ? a * a : a;
  if (weight <= 0) return form == Balance::kProduct ? b * b : b;
  switch (form) {
    case Balance::kProduct:
      return std::pow(a, 2 * weight) * std::pow(b, 2 * (1 - weight));
    case Balance::kSum:
      return std::min(1.0, weight * a + (1 - weight) * b);
    default:
      break;
  }
  if (a <= 0 || b <= 0) return 0;
  return std::min(1.0, 1 / (weight / a + (1 - weight) / b));
}

void balance(Threads& threads, const RelevanceParams& params, Relevance& parts) {
  const Grid grid = parts.information.grid;
  const Map& asked = parts.coupling.empty() ? parts.salience : parts.coupling;
  FOVEA_CHECK(parts.salience.grid == grid && asked.grid == grid);
  for (Map* map : {&parts.compress_particularize, &parts.exploit_explore, &parts.focus_diversify,
                   &parts.relevance})
    *map = Map(grid);
  // The tensions of one map alone are those of the default form: they decide nothing.
  const Map* alone = one_map(params.balance, parts, asked);
  const Balance form = alone == nullptr ? params.balance : Balance::kMean;
  threads.for_each(grid.cells(), kChunkCells, [&](int64_t begin, int64_t end) {
    for (auto cell = static_cast<size_t>(begin); cell < static_cast<size_t>(end); ++cell) {
      const double information = to_unit(parts.information.score[cell]);
      const double salience = to_unit(parts.salience.score[cell]);
      const double coupling = to_unit(asked.score[cell]);
      const double compress = navigate(form, information, salience, params.compress_particularize);
      const double exploit = navigate(form, coupling, information, params.exploit_explore);
      const double focus = navigate(form, coupling, salience, params.focus_diversify);
      parts.compress_particularize.score[cell] = to_score(compress);
      parts.exploit_explore.score[cell] = to_score(exploit);
      parts.focus_diversify.score[cell] = to_score(focus);
      parts.relevance.score[cell] =
          to_score(form == Balance::kProduct ? std::cbrt(compress * exploit * focus)
                                             : (compress + exploit + focus) / 3);
    }
  });
  if (alone != nullptr) parts.relevance.score = alone->score;
}

}  // namespace fovea
