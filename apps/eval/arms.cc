// SPDX-License-Identifier: Apache-2.0
#include "eval/arms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>
#include <string_view>

#include "base/check.h"
#include "eval/random.h"
#include "gaze/cell_tree.h"
#include "memory/forget/policies.h"
#include "relevance/coupling.h"

namespace fovea::eval {
namespace {

constexpr std::array kLookingArms = {
    ArmKind{"full", "every cell of level 0; has no budget"},
    ArmKind{"uniform", "the finest level that fits the budget, for the whole image"},
    ArmKind{"thresholds", "levels by fixed thresholds of relevance, within the budget"},
    ArmKind{"proportional", "64 to 400 tokens for each region, by its relevance"},
    ArmKind{"random", "glance, then cells drawn at random"},
    ArmKind{"centre", "glance, then the cells nearest to the centre"},
    ArmKind{"entropy", "glance, then where the information map is highest"},
    ArmKind{"salience", "glance, then where the salience map is highest"},
    ArmKind{"coupling", "glance, then where the model's own reading of the question points"},
    ArmKind{"relook",
            "as coupling with half of the look, the rest only where the answer is unsure"},
    ArmKind{"balanced", "glance, then coupling balanced with information and salience"},
    ArmKind{"oracle", "glance, then the evidence itself: what no choice can beat"},
};

// Below it an answer is unsure; as AskOptions::sure has it.
constexpr double kRelookBelow = 0.9;

// Beside them, one arm for each policy of forgetting.
constexpr std::string_view kForget = "forget-";

// Arms that are a plan maker by its own name.
bool is_plan_maker(const std::string& arm) { return arm == "thresholds" || arm == "proportional"; }

struct AllArms {
  std::deque<std::string> texts;
  std::vector<ArmKind> kinds{kLookingArms.begin(), kLookingArms.end()};

  AllArms() {
    for (const ForgetPolicyRow& row : forget_policies()) {
      const char* name = texts.emplace_back(std::string(kForget) + row.name).c_str();
      const char* words =
          texts
              .emplace_back(
                  "every cell of level 0; of their keys memory keeps as many as the "
                  "budget: " +
                  std::string(row.words))
              .c_str();
      kinds.push_back({name, words});
    }
  }
};

// The level-0 cells a box shares pixels with.
CellBlock cells_of_box(const Box& box) {
  const auto cell = [](double px) { return static_cast<int>(px / kCellPx); };
  const auto end = [](double px) { return static_cast<int>(std::ceil(px / kCellPx)); };
  return {cell(box.y0_px), end(box.y1_px), cell(box.x0_px), end(box.x1_px)};
}

double shared_px(const Box& box, int row, int col) {
  const double width = std::min(box.x1_px, (col + 1.0) * kCellPx) -
                       std::max(box.x0_px, static_cast<double>(col) * kCellPx);
  const double height = std::min(box.y1_px, (row + 1.0) * kCellPx) -
                        std::max(box.y0_px, static_cast<double>(row) * kCellPx);
  return std::max(0.0, width) * std::max(0.0, height);
}

// Steps, diagonal ones included, from a cell to the nearest of a block.
int steps_to(const CellBlock& block, int row, int col) {
  const int rows = std::max({block.row_begin - row, row - (block.row_end - 1), 0});
  const int cols = std::max({block.col_begin - col, col - (block.col_end - 1), 0});
  return std::max(rows, cols);
}

}  // namespace

std::span<const ArmKind> arm_kinds() {
  static const AllArms all;
  return all.kinds;
}

std::vector<Setting> settings_of(const std::vector<std::string>& arms,
                                 const std::vector<int>& budgets) {
  std::vector<Setting> settings;
  const auto add = [&](Setting setting) {
    if (std::find(settings.begin(), settings.end(), setting) == settings.end())
      settings.push_back(std::move(setting));
  };
  for (const std::string& arm : arms) {
    if (arm == "full")
      add({arm, 0});
    else
      for (const int budget : budgets) add({arm, budget});
  }
  return settings;
}

std::vector<Box> boxes_on_canvas(const std::vector<Box>& boxes, Size image, Size canvas) {
  const double across = static_cast<double>(canvas.width_px) / image.width_px;
  const double down = static_cast<double>(canvas.height_px) / image.height_px;
  std::vector<Box> placed;
  for (const Box& box : boxes) {
    const Box on{std::max(0.0, box.x0_px * across), std::max(0.0, box.y0_px * down),
                 std::min<double>(canvas.width_px, box.x1_px * across),
                 std::min<double>(canvas.height_px, box.y1_px * down)};
    if (on.x0_px < on.x1_px && on.y0_px < on.y1_px) placed.push_back(on);
  }
  return placed;
}

void choose_arm(const Setting& setting, const ArmScene& scene, AskOptions& options) {
  const std::string& arm = setting.arm;
  const auto follow = [&](Map map) {
    options.coupling = {std::move(map)};
    options.balance = "coupling";
  };
  const bool forgets = arm.starts_with(kForget);
  options.plan = arm == "full" || arm == "uniform" || forgets ? "uniform"
                 : is_plan_maker(arm)                         ? arm
                                                              : "glance+look";
  options.budget_tokens = arm == "full" || forgets ? -1 : setting.budget_tokens;
  const double keep = static_cast<double>(setting.budget_tokens) /
                      static_cast<double>(grid_at(scene.canvas, 0).cells());
  if (forgets && keep < 1) {
    options.keep = keep;
    options.forget = arm.substr(kForget.size());
    options.seed = scene.seed;
  }
  if (arm == "random") {
    follow(random_map(scene.canvas, scene.seed));
  } else if (arm == "oracle") {
    follow(oracle_map(scene.canvas, scene.evidence, scene.seed));
  } else if (arm == "centre") {
    const Point centre{scene.canvas.width_px / 2.0, scene.canvas.height_px / 2.0};
    follow(couple_points(std::span(&centre, 1), scene.canvas));
  } else if (arm == "entropy") {
    options.balance = "information";
  } else if (arm == "salience" || arm == "coupling") {
    options.balance = arm;
  } else if (arm == "relook") {
    options.balance = "coupling";
    options.relook = kRelookBelow;
  } else if (arm == "balanced") {
    options.balance = "mean";
  } else {
    FOVEA_CHECK(options.plan == "uniform" || is_plan_maker(arm));
  }
}

Map random_map(Size canvas, uint64_t seed) {
  Map map(grid_at(canvas, 0));
  std::vector<size_t> order(map.score.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Random(seed).shuffle(order);
  // 65,536 scores are enough for canvases of 67 megapixels; beyond, some cells share one.
  const size_t most = std::max<size_t>(order.size(), 65536);
  for (size_t rank = 0; rank < order.size(); ++rank)
    map.score[order[rank]] = static_cast<uint16_t>(65535 - rank * 65536 / most);
  return map;
}

Map oracle_map(Size canvas, const std::vector<Box>& evidence, uint64_t seed) {
  if (evidence.empty()) return random_map(canvas, seed);
  // A crop grows while what it takes in is worth half of it: evidence must stand out by more, so
  // that each box gets a crop.
  constexpr double kEvidence = 40000;
  constexpr int kNear = 16000;
  Map map(grid_at(canvas, 0));
  for (int row = 0; row < map.grid.rows; ++row) {
    for (int col = 0; col < map.grid.cols; ++col) {
      int steps = map.grid.rows + map.grid.cols;
      double shared = 0;
      for (const Box& box : evidence) {
        steps = std::min(steps, steps_to(cells_of_box(box), row, col));
        shared += shared_px(box, row, col);
      }
      const double share = std::min(1.0, shared / (kCellPx * kCellPx));
      map.at(row, col) = steps == 0 ? static_cast<uint16_t>(kEvidence + (65535 - kEvidence) * share)
                                    : static_cast<uint16_t>(kNear / steps);
    }
  }
  return map;
}

double share_covered(std::span<const Cell> cells, const std::vector<Box>& boxes) {
  std::set<std::pair<int, int>> fine;
  for (const Cell& cell : cells)
    if (cell.level == 0) fine.emplace(cell.row, cell.col);
  double covered = 0;
  double area = 0;
  bool all = true;
  for (const Box& box : boxes) {
    const CellBlock block = cells_of_box(box);
    area += (box.x1_px - box.x0_px) * (box.y1_px - box.y0_px);
    for (int row = block.row_begin; row < block.row_end; ++row)
      for (int col = block.col_begin; col < block.col_end; ++col) {
        const double shared = shared_px(box, row, col);
        const bool seen = fine.contains({row, col});
        if (seen) covered += shared;
        all = all && (seen || shared <= 0);
      }
  }
  if (area <= 0) return 0;
  // A sum may round up to 1 without being all of it.
  return all ? 1 : std::min(covered / area, 1 - 1e-9);
}

}  // namespace fovea::eval
