// SPDX-License-Identifier: Apache-2.0
#include "relevance/relevance.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "relevance/balance.h"
#include "relevance/coupling.h"
#include "relevance/information.h"
#include "relevance/salience.h"

namespace fovea {

Result<Balance> find_balance(std::string_view name) {
  constexpr std::string_view kNames[] = {"mean",     "product",  "sum",
                                         "coupling", "salience", "information"};  // by form
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames))
    return bad_input(fmt::format(
        "unknown balance '{}'; use mean, product, sum, coupling, salience or information", name));
  return static_cast<Balance>(found - std::begin(kNames));
}

Status check_relevance(const RelevanceParams& params, int levels) {
  if (params.level < 0 || params.level >= levels)
    return bad_input(fmt::format("relevance: level {}; this canvas has levels 0 to {}",
                                 params.level, levels - 1));
  for (const double weight :
       {params.compress_particularize, params.exploit_explore, params.focus_diversify})
    if (!(weight >= 0 && weight <= 1))
      return bad_input(fmt::format("relevance: a weight of {}; give one from 0 to 1", weight));
  return Done{};
}

Relevance measure_picture(Threads& threads, const Pyramid& pyramid, const RelevanceParams& params) {
  FOVEA_CHECK(check_relevance(params, pyramid.levels()));
  Relevance parts;
  const LevelView level = pyramid.level(params.level);
  parts.information = Map(grid_at(pyramid.canvas(), params.level));
  // Salience is one long task, information many short ones: side by side they keep all threads
  // busy.
  const int64_t blocks = information_blocks(parts.information.grid);
  threads.for_each(1 + blocks, 1, [&](int64_t begin, int64_t end) {
    if (begin == 0) {
      parts.salience = measure_salience(threads, pyramid, {params.level, params.centre_bias});
      begin = 1;
    }
    measure_information_blocks(level, begin - 1, end - 1, parts.information);
  });
  return parts;
}

void weave_coupling(Threads& threads, Size canvas, const Map* coupling,
                    const RelevanceParams& params, Relevance& parts) {
  parts.coupling = {};
  if (coupling != nullptr) {
    Result<Map> fitted = couple_map(*coupling, canvas, params.level);
    FOVEA_CHECK(fitted);
    parts.coupling = std::move(*fitted);
  }
  balance(threads, params, parts);
}

Relevance measure_relevance(Threads& threads, const Pyramid& pyramid, const Map* coupling,
                            const RelevanceParams& params) {
  Relevance parts = measure_picture(threads, pyramid, params);
  weave_coupling(threads, pyramid.canvas(), coupling, params, parts);
  return parts;
}

}  // namespace fovea
