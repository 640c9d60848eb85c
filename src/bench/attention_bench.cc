// SPDX-License-Identifier: Apache-2.0
// What each kind of attention does to a model's tower: its time beside dense, and how far its
// tokens move. `fovea bench attention [--model DIR]`, on scenes of cards, every cell of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/closeness.h"
#include "cards/cards.h"
#include "engine/model.h"
#include "patches/patches.h"
#include "pyramid/pyramid.h"

namespace fovea {
namespace {

// What came out of each block, and the tokens.
struct Encoded {
  std::vector<std::vector<float>> blocks;
  VisualTokens tokens;
};

Plan every_cell(Size canvas) {
  Plan plan;
  const Grid grid = grid_at(canvas, 0);
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) plan.cells.push_back({0, row, col});
  return plan;
}

class TowerKinds {
 public:
  TowerKinds(Bench& bench, const Model& model, int side_px)
      : bench_(bench),
        model_(model),
        pyramid_(build_pyramid(*model.threads, make_scene(7, {.size = {side_px, side_px}}).image)),
        patches_(sample_patches(*model.threads, pyramid_, every_cell(pyramid_.canvas()))) {}

  // Dense attention stands beside every kind.
  void run() {
    const Encoded dense = encode({});
    const double dense_ms = time({});
    for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kTower)) {
      const bool is_dense = row.kind == AttentionKind::kDense;
      const std::string name = fmt::format("tower/{}/{}", patches_.count, row.name);
      if (!is_dense && !bench_.wants(name)) continue;
      const SparseSettings settings{.kind = row.kind};
      const double ms = is_dense ? dense_ms : time(settings);
      const Encoded sparse = encode(settings);
      double lowest = 1;
      for (size_t i = 0; i < dense.blocks.size(); ++i)
        lowest = std::min(lowest, cosine(sparse.blocks[i], dense.blocks[i]));
      const auto& features = sparse.tokens.features;
      const bool finite = std::all_of(features.begin(), features.end(),
                                      [](float value) { return std::isfinite(value); });
      bench_.add(
          finite && sparse.tokens.count == dense.tokens.count,
          {.name = name,
           .value = ms,
           .unit = "ms",
           .note = fmt::format("{:.2f}x dense; cosine with it: tokens {:.4f}, blocks {:.4f} "
                               "and more",
                               dense_ms / ms, cosine(features, dense.tokens.features), lowest)});
    }
  }

 private:
  VisualTokens pass(const EncodeOptions& options) const {
    TowerMemory memory;
    return *model_.tower.encode(*model_.threads, patches_, pyramid_.canvas(), memory, options);
  }

  double time(const SparseSettings& attention) const {
    return Bench::median_ms([&] { pass({.keep = false, .attention = attention}); }, 3, 0);
  }

  Encoded encode(const SparseSettings& attention) const {
    Encoded encoded;
    const auto values = static_cast<size_t>(patches_.count) * model_.tower.config().hidden_size;
    EncodeOptions options{.keep = false, .attention = attention};
    options.on_block = [&](int, const float* hidden) {
      encoded.blocks.emplace_back(hidden, hidden + values);
    };
    encoded.tokens = pass(options);
    return encoded;
  }

  template <class Values>
  static double cosine(const Values& a, const Values& b) {
    return closeness({a.data(), a.size()}, {b.data(), b.size()}).cosine;
  }

  Bench& bench_;
  const Model& model_;
  Pyramid pyramid_;
  Patches patches_;
};

void run_tower_kinds(Bench& bench) {
  std::vector<int> sides_px;
  for (const int side_px : {1024, 2048}) {
    const int side = side_px / kPatchPx;
    if (bench.wants(fmt::format("tower/{}", side * side))) sides_px.push_back(side_px);
  }
  if (sides_px.empty()) return;
  const auto folder = find_model(bench.model.empty() ? "tiny" : bench.model);
  LoadOptions load;
  load.weights = bench.weights;
  load.threads = bench.threads.size();
  const auto model =
      folder ? load_model(*folder, load) : Result<std::shared_ptr<const Model>>(folder.error());
  if (!model) {
    bench.error = model.error();
    return;
  }
  for (const int side_px : sides_px) TowerKinds(bench, **model, side_px).run();
}

const BenchRegistration kRegistered("attention", "tower", run_tower_kinds);

}  // namespace
}  // namespace fovea
