// SPDX-License-Identifier: Apache-2.0
// Times every plan maker on a 1024x1024 canvas (budgets of 68 and 96) and on 13,000x13,000
// (16,384).
#include <fmt/format.h>

#include <algorithm>

#include "bench/bench.h"
#include "gaze/gaze.h"
#include "gaze/test_plan_checks.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

// Relevance and detail as photographs have them: smooth hills of things with some noise between.
void fill_photo_like(Random& random, Size canvas, int budget_tokens, OwnedScene& owned) {
  fill_scene(random, canvas, budget_tokens, owned);
  Map& map = owned.relevance;
  map = Map(map.grid);
  for (int hill = 0; hill < 12; ++hill) {
    const int row = random.range(0, map.grid.rows - 1);
    const int col = random.range(0, map.grid.cols - 1);
    const int height = random.range(10'000, 60'000);
    const int width = 1 + std::max(map.grid.rows, map.grid.cols) / random.range(8, 32);
    for (int r = 0; r < map.grid.rows; ++r) {
      for (int c = 0; c < map.grid.cols; ++c) {
        const int64_t distance_squared =
            int64_t{r - row} * (r - row) + int64_t{c - col} * (c - col);
        const auto score =
            height * int64_t{width} * width / (int64_t{width} * width + distance_squared);
        map.at(r, c) =
            std::max(map.at(r, c), static_cast<uint16_t>(score + random.range(0, 2'000)));
      }
    }
  }
}

void time_makers(Bench& bench, Size canvas, int budget_tokens, bool against_reference) {
  Random random(7);
  OwnedScene owned;
  fill_photo_like(random, canvas, budget_tokens, owned);
  for (const PlanMaker& maker : plan_makers()) {
    const Result<Plan> plan = make_plan(maker.kind, owned.scene);
    bool verified = plan && plan_fault(maker, owned.scene, *plan).empty();
    if (verified && against_reference) {
      std::vector<Cell> expected = maker.reference(owned.scene);
      std::sort(expected.begin(), expected.end());
      verified = expected == plan->cells;
    }
    const double ms = Bench::median_ms([&] { (void)make_plan(maker.kind, owned.scene); }, 5, 100);
    bench.add(verified, {.name = fmt::format("gaze/{}/{}x{}/{}", maker.name(), canvas.width_px,
                                             canvas.height_px, budget_tokens),
                         .value = ms,
                         .unit = "ms",
                         .limit = {},
                         .note = fmt::format("{} tokens", plan ? plan->tokens() : 0)});
  }
}

void run_gaze(Bench& bench) {
  time_makers(bench, {1024, 1024}, 68, true);
  time_makers(bench, {1024, 1024}, 96, true);
  // Too large for the references, whose time grows with the square of the budget.
  time_makers(bench, {12'992, 12'992}, 16'384, false);
}

const BenchRegistration kRegistration("front-end", "gaze", run_gaze);

}  // namespace
}  // namespace fovea
