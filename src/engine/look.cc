// SPDX-License-Identifier: Apache-2.0
#include "engine/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "engine/look_again.h"
#include "engine/see_parts.h"
#include "gaze/gaze.h"
#include "relevance/coupling.h"

namespace fovea {
namespace {

constexpr int kMostClusters = 4;  // of a look, in the scan path

// A form that takes no part of coupling needs no question.
bool follows_coupling(Balance balance) {
  return balance != Balance::kSalience && balance != Balance::kInformation;
}

Map fit_coupling(const Looked& looked, Size canvas, const Map& model_map) {
  const Map& given = looked.settings.options.coupling;
  if (!given.empty()) return given;
  if (!looked.choice.fixations.empty()) return couple_points(looked.choice.fixations, canvas);
  return model_map;
}

// The share of the budget of one of the looks; the last one takes all that is left.
int tokens_of(const Looked& looked, int round) {
  const int used = looked.choice.plan.tokens() - looked.glance_tokens;
  const int left = looked.look_tokens - used;
  return round == looked.rounds ? left : std::min(left, looked.look_tokens / looked.rounds);
}

Scene scene_of(const ImageView& view, const Looked& looked, const Relevance& relevance) {
  Scene scene{.canvas = view.prepared->canvas(),
              .relevance = &relevance.relevance,
              .detail = &view.measured->detail,
              .fixations = looked.choice.fixations,
              .budget_tokens = looked.choice.plan.budget_tokens};
  scene.params = gaze_params_of(looked.settings);
  return scene;
}

// Encodes the cells of one look and adds them to the plan. False where it was stopped.
Result<bool> show_look(const Model& model, ImageView& view, const Scene& scene, int tokens,
                       const std::function<bool()>& keep_going, Looked& looked, Saccade& saccade) {
  std::vector<Cell>& plan = looked.choice.plan.cells;
  if (looked.look == LookForm::kMixed) {
    const std::vector<Cell> cells = make_look(scene, tokens, plan);
    looked.watch.lap("plan");
    auto shown = show_cells(model, view, cells, true, keep_going, looked);
    if (!shown || !*shown) return shown;
    plan.insert(plan.end(), cells.begin(), cells.end());
    return true;
  }
  const std::vector<CellBlock> crops = make_crops(scene, tokens, plan);
  looked.watch.lap("plan");
  for (const CellBlock& crop : crops) {
    auto shown = show_crop(model, view, crop, keep_going, looked);
    if (!shown || !*shown) return shown;
    const std::vector<Cell>& cells = view.parts[view.shown - 1].cells;
    plan.insert(plan.end(), cells.begin(), cells.end());
    saccade.crops.push_back(
        {crop.col_begin * kCellPx,
         crop.row_begin * kCellPx,
         {(crop.col_end - crop.col_begin) * kCellPx, (crop.row_end - crop.row_begin) * kCellPx}});
  }
  return true;
}

Result<bool> take_look(const Model& model, ImageView& view, const Map& coupling, int round,
                       const std::function<bool()>& keep_going, Looked& looked) {
  const auto start = std::chrono::steady_clock::now();
  const Size canvas = view.prepared->canvas();
  Relevance relevance = view.measured->relevance;
  weave_coupling(*model.threads, canvas, coupling.empty() ? nullptr : &coupling,
                 relevance_params_of(looked.settings), relevance);
  looked.watch.lap("relevance");

  Saccade saccade;
  saccade.begin = looked.choice.plan.tokens();
  auto shown = show_look(model, view, scene_of(view, looked, relevance), tokens_of(looked, round),
                         keep_going, looked, saccade);
  if (!shown || !*shown) return shown;
  saccade.end = looked.choice.plan.tokens();
  const std::span cells = std::span(looked.choice.plan.cells).subspan(saccade.begin);
  saccade.fixations = find_clusters(cells, relevance.relevance, canvas, kMostClusters);
  saccade.coupling = relevance.coupling.empty() ? Map(relevance.salience.grid) : relevance.coupling;
  saccade.relevance = relevance.relevance;
  saccade.look_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  looked.saccades.push_back(std::move(saccade));
  if (round == 1) looked.choice.relevance = std::move(relevance);
  return true;
}

// Information, salience and detail, once for each image.
Status measure_view(const Model& model, ImageView& view) {
  if (view.measured) return Done{};
  auto measures = model.front_end->measures(*view.prepared->on_device);
  if (!measures) return measures.error();
  view.measured = std::move(*measures);
  return Done{};
}

}  // namespace

SeeSettings settings_of(const Model& model, const AskOptions& options, const ImageView& view,
                        size_t image) {
  SeeSettings settings;
  SeeOptions& see = settings.options;
  see.plan = options.plan;
  see.budget_tokens = options.budget_tokens;
  if (image < options.fixations.size()) see.fixations = options.fixations[image];
  if (image < options.coupling.size()) see.coupling = options.coupling[image];
  see.max_pixels = view.max_pixels;
  see.draw = options.draw;
  settings.maker = *find_maker(options.plan);
  const bool by_head =
      model.gaze && settings.maker == MakerKind::kGlanceLook && see.fixations.empty();
  settings.balance = !options.balance.empty() ? *find_balance(options.balance)
                     : by_head                ? kBalanceOfGazeHead
                                              : kBalanceOfStock;
  return settings;
}

Status plan_looks(const Model& model, ImageView& view, const AskOptions& options, Looked& looked) {
  const SeeOptions& see = looked.settings.options;
  if (auto checked = check_coupling(see.coupling); !checked) return checked;
  const Size canvas = view.prepared->canvas();
  auto fixations = fixations_on_canvas(see.fixations, view.prepared->image, canvas);
  if (!fixations) return fixations.error();
  auto plan = make_glance(
      {.canvas = canvas, .fixations = *fixations, .budget_tokens = budget_of(looked.settings)});
  if (!plan) return plan.error();
  looked.watch.lap("plan");
  const bool made_for_mixed = model.gaze || model.config().vision.levels > 0;
  looked.look = !options.look.empty() ? *find_look(options.look)
                : made_for_mixed      ? LookForm::kMixed
                                      : LookForm::kCrops;
  const bool can_look = looked.look != LookForm::kOff && plan->cells.front().level > 0;
  if (can_look)
    looked.look_tokens = static_cast<int>(
        std::min<int64_t>(plan->budget_tokens - plan->tokens(), grid_at(canvas, 0).cells()));
  if (may_look_again(options) && looked.look == LookForm::kCrops)
    return bad_input(fmt::format(
        "relook {}: a crop cannot be added to an answer; leave it out, or let looks be mixed",
        options.relook));
  looked.rounds = std::min(options.looks + (may_look_again(options) ? 1 : 0), looked.look_tokens);
  looked.asks_model = looked.rounds > 0 && see.coupling.empty() && fixations->empty() &&
                      follows_coupling(looked.settings.balance);
  // What works ahead measures while the model reads the question over the glance.
  if (!model.device->works_ahead() || !looked.asks_model) {
    if (auto measured = measure_view(model, view); !measured) return measured;
    looked.choice.relevance = view.measured->relevance;
    weave_coupling(*model.threads, canvas, nullptr, relevance_params_of(looked.settings),
                   looked.choice.relevance);
    looked.watch.lap("relevance");
  }
  looked.choice.plan = std::move(*plan);
  looked.choice.fixations = std::move(*fixations);
  return Done{};
}

int rounds_of(std::span<const Looked> looks) {
  int rounds = 0;
  for (const Looked& looked : looks) rounds = std::max(rounds, looked.rounds);
  return rounds;
}

bool any_asks_model(std::span<const Looked> looks) {
  return std::any_of(looks.begin(), looks.end(),
                     [](const Looked& looked) { return looked.asks_model; });
}

bool looks_are_crops(std::span<const Looked> looks) {
  return std::any_of(looks.begin(), looks.end(),
                     [](const Looked& looked) { return looked.look == LookForm::kCrops; });
}

bool is_append_only(std::span<const Looked> looks, std::span<const ImageView> views,
                    const AskOptions& options) {
  if (!options.keep_looks) return false;
  const bool mixed = std::any_of(looks.begin(), looks.end(), [](const Looked& looked) {
    return looked.look == LookForm::kMixed;
  });
  const bool past = std::any_of(views.begin(), views.end(),
                                [](const ImageView& view) { return !view.past.empty(); });
  return looks_are_crops(looks) || (past && !mixed);
}

Result<bool> take_looks(SessionState& state, std::span<const int> images, std::span<Looked> looks,
                        int round, const std::optional<TokenPrompt>& prompt, const Reading& reading,
                        const std::function<bool()>& keep_going) {
  for (size_t i = 0; i < looks.size(); ++i) {
    if (round > looks[i].rounds) continue;
    ImageView& view = state.views[static_cast<size_t>(images[i])];
    Map asked;
    looks[i].watch.skip();
    if (looks[i].asks_model) {
      auto coupled = couple(state, *prompt, reading, images[i]);
      if (!coupled) return coupled.error();
      asked = std::move(*coupled);
    }
    looks[i].watch.lap("coupling");
    if (auto measured = measure_view(*state.model, view); !measured) return measured.error();
    const Map coupling = fit_coupling(looks[i], view.prepared->canvas(), asked);
    auto taken = take_look(*state.model, view, coupling, round, keep_going, looks[i]);
    if (!taken || !*taken) return taken;
  }
  return true;
}

}  // namespace fovea
