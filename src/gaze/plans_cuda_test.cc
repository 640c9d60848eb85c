// SPDX-License-Identifier: Apache-2.0
// Plans made on the GPU are those of the CPU, cell by cell.
#include "gaze/plans_cuda.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "device/cuda/test_device.h"
#include "gaze/test_random_scene.h"

namespace fovea {
namespace {

constexpr int kImages = 3;

// Scenes of one canvas and what they share, on both sides.
struct Batch {
  std::vector<std::unique_ptr<OwnedScene>> scenes;
  DeviceMemory<uint16_t> scores;
  std::vector<DeviceMemory<uint64_t>> lost;
  DeviceMemory<Point> points;
  DeviceMemory<int> point_counts;
  DeviceMemory<unsigned char> memory;
  DeviceScene scene;
  PlanWorkspace workspace;

  const Scene& of(int image) const { return scenes[static_cast<size_t>(image)]->scene; }
  // Also in a scene of its own: `change` is told every one.
  template <class Change>
  void change(const Change& change) {
    for (const auto& owned : scenes) change(owned->scene);
    scene.budget_tokens = of(0).budget_tokens;
    scene.params = of(0).params;
  }
};

// Says which cell differs first.
testing::AssertionResult same_cells(const std::vector<Cell>& made,
                                    const std::vector<Cell>& of_cpu) {
  if (made == of_cpu) return testing::AssertionSuccess();
  size_t at = 0;
  while (at < made.size() && at < of_cpu.size() && made[at] == of_cpu[at]) ++at;
  const auto text = [at](const std::vector<Cell>& cells) {
    return at >= cells.size()
               ? std::string("none")
               : fmt::format("[{}, {}, {}]", cells[at].level, cells[at].row, cells[at].col);
  };
  return testing::AssertionFailure()
         << made.size() << " cells instead of " << of_cpu.size() << "; cell " << at << " is "
         << text(made) << " instead of " << text(of_cpu);
}

class PlansCuda : public CudaTest {
 protected:
  // Different maps and fixations (0 to 4, none for one image in two) of one canvas.
  void fill(Random& random, Size canvas, Batch& batch) {
    const int levels = level_count(canvas);
    std::vector<uint16_t> scores;
    std::vector<std::vector<uint64_t>> lost(static_cast<size_t>(levels));
    for (int image = 0; image < kImages; ++image) {
      batch.scenes.push_back(std::make_unique<OwnedScene>());
      OwnedScene& owned = *batch.scenes.back();
      fill_scene(random, canvas, 96, owned);
      const auto& score = owned.relevance.score;
      scores.insert(scores.end(), score.begin(), score.end());
      for (size_t level = 1; level < lost.size(); ++level)
        lost[level].insert(lost[level].end(), owned.detail.lost[level].begin(),
                           owned.detail.lost[level].end());
    }
    batch.scores = on_device(scores);
    batch.scene.canvas = canvas;
    batch.scene.images = kImages;
    batch.scene.relevance = {grid_at(canvas, 0), kImages, batch.scores.data()};
    batch.scene.detail.levels = levels;
    batch.scene.detail.images = kImages;
    for (int level = 0; level < levels; ++level) {
      batch.lost.push_back(on_device(lost[static_cast<size_t>(level)]));
      batch.scene.detail.grid[level] = grid_at(canvas, level);
      batch.scene.detail.lost[level] = batch.lost.back().data();
    }
    give_fixations(random, batch);
  }

  void give_fixations(Random& random, Batch& batch) {
    constexpr int kRoom = 4;
    const Size canvas = batch.scene.canvas;
    std::vector<Point> points(kImages * kRoom);
    std::vector<int> counts(kImages);
    for (size_t image = 0; image < kImages; ++image) {
      counts[image] = random.one_in(2) ? 0 : random.range(1, kRoom);
      for (size_t i = 0; i < static_cast<size_t>(counts[image]); ++i) {
        points[image * kRoom + i] = {random.unit() * canvas.width_px,
                                     random.unit() * canvas.height_px};
        batch.scenes[image]->scene.fixations.push_back(points[image * kRoom + i]);
      }
    }
    batch.points = on_device(points);
    batch.point_counts = on_device(counts);
    batch.scene.fixations = batch.points.data();
    batch.scene.fixation_counts = batch.point_counts.data();
    batch.scene.fixation_room = kRoom;
  }

  void make_space(size_t shared_limit_bytes, Batch& batch) {
    const size_t bytes = plan_workspace_bytes(batch.scene, shared_limit_bytes);
    batch.memory = poisoned<unsigned char>(bytes);
    batch.workspace = {batch.memory.data(), bytes, shared_limit_bytes};
  }

  // `plan` fills plans of `room` cells on the device.
  template <class MakePlans>
  std::vector<std::vector<Cell>> cells_of(Size canvas, int room, const MakePlans& plan) {
    auto cells = poisoned<Cell>(static_cast<size_t>(kImages) * static_cast<size_t>(room));
    auto counts = poisoned<int>(kImages);
    plan(DevicePlans{canvas, kImages, room, cells.data(), counts.data()});
    const std::vector<Cell> all = on_host(cells);
    std::vector<std::vector<Cell>> plans;
    for (const int count : on_host(counts)) {
      EXPECT_TRUE(count >= 0 && count <= room) << count;
      const auto begin = all.begin() + static_cast<ptrdiff_t>(plans.size()) * room;
      plans.emplace_back(begin, begin + std::clamp(count, 0, room));
    }
    return plans;
  }

  void expect_same_plans(size_t maker, const Batch& batch) {
    const DeviceScene& scene = batch.scene;
    const auto plans = cells_of(
        scene.canvas, plan_room(scene.canvas, scene.budget_tokens), [&](const DevicePlans& out) {
          make_plans_cuda(stream(), static_cast<MakerKind>(maker), scene, batch.workspace, out);
        });
    for (int image = 0; image < kImages; ++image) {
      const auto plan = make_plan(static_cast<MakerKind>(maker), batch.of(image));
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_TRUE(same_cells(plans[static_cast<size_t>(image)], plan->cells))
          << plan->maker << " of " << scene.budget_tokens << " tokens, canvas "
          << scene.canvas.width_px << "x" << scene.canvas.height_px << ", image " << image;
    }
  }
};

GazeParams random_params(Random& random) {
  Random apart(random.next());
  OwnedScene owned;
  fill_random_scene(apart, {2, 2}, owned);
  return owned.scene.params;
}

class MakerCuda : public PlansCuda, public testing::WithParamInterface<size_t> {
 protected:
  const PlanMaker& maker() const { return plan_makers()[GetParam()]; }

  void expect_same(uint64_t seed, Size canvas, std::initializer_list<int> budgets,
                   size_t shared_limit_bytes) {
    Random random(seed);
    Batch batch;
    fill(random, canvas, batch);
    for (const int budget : budgets) {
      if (budget == 0 && !maker().without_budget) continue;
      const GazeParams params = random_params(random);
      batch.change([&](Scene& scene) {
        scene.budget_tokens = budget;
        scene.params = params;
      });
      make_space(shared_limit_bytes, batch);
      expect_same_plans(GetParam(), batch);
    }
  }
};

constexpr size_t kSharedEverywhere = size_t{48} << 10;

TEST_P(MakerCuda, MakesTheCpusPlansOfSmallCanvases) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const Grid grid = random_grid(random, 24);
    const int ragged_px = random.one_in(4) ? random.range(1, kCellPx - 1) : 0;
    const auto cells = static_cast<int>(grid.cells());
    expect_same(seed, canvas_of(grid, ragged_px),
                {0, 1, random.range(1, 2 * cells), random.range(1, 64)}, kSharedEverywhere);
  }
}

TEST_P(MakerCuda, MakesTheCpusPlansOfPhotographs) {
  expect_same(1, {32, 32}, {0, 1, 2, 1024}, kSharedEverywhere);
  expect_same(2, {2048, 64}, {3, 17, 68, 300}, kSharedEverywhere);
  expect_same(3, {1024, 1024}, {0, 1, 68, 96, 400, 1024}, kSharedEverywhere);
  for (uint64_t seed = 4; seed < 8; ++seed)
    expect_same(seed, {1024, 1024}, {68, 200}, kSharedEverywhere);
  expect_same(8, {1504, 992}, {0, 68, INT32_MAX}, kSharedEverywhere);
}

// Where shared memory is too small for them, the arrays lie in the workspace.
TEST_P(MakerCuda, MakesTheCpusPlansOfLargeCanvases) {
  expect_same(10, {4096, 3072}, {300}, kSharedEverywhere);
  expect_same(11, {1024, 1024}, {68, 300}, size_t{20} << 10);
  expect_same(12, {2048, 1536}, {96}, size_t{200} << 10);
}

INSTANTIATE_TEST_SUITE_P(All, MakerCuda, testing::Range<size_t>(0, std::size(kMakerNames)),
                         [](const auto& tested) {
                           std::string name;
                           for (const char letter : kMakerNames[tested.param])
                             if (std::isalpha(letter) != 0) name += letter;
                           return name;
                         });

TEST_F(PlansCuda, GlancesAndLooksAreThoseOfTheCpu) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed);
    const Size canvas = seed < 6 ? canvas_of(random_grid(random, 32)) : Size{1024, 1024};
    Batch batch;
    fill(random, canvas, batch);
    const GazeParams params = random_params(random);
    const int budget = random.range(1, 200);
    batch.change([&](Scene& scene) {
      scene.budget_tokens = budget;
      scene.params = params;
    });
    make_space(kSharedEverywhere, batch);
    const int room = plan_room(canvas, 0) * 2;
    const auto glances = cells_of(canvas, room, [&](const DevicePlans& out) {
      make_glances_cuda(stream(), batch.scene, out);
    });
    for (int image = 0; image < kImages; ++image)
      EXPECT_TRUE(
          same_cells(glances[static_cast<size_t>(image)], make_glance(batch.of(image))->cells));

    // Looks of different pasts: an image has seen its glance and some cells, or all of them.
    std::vector<std::vector<Cell>> seen = glances;
    std::vector<Cell> list(static_cast<size_t>(kImages * room));
    std::vector<int> counts;
    for (size_t image = 0; image < kImages; ++image) {
      for (const Cell& cell : CellTree(canvas).cells_of(0))
        if (glances[image][0].level > 0 && random.range(0, 2) < static_cast<int>(image))
          seen[image].push_back(cell);
      std::copy(seen[image].begin(), seen[image].end(),
                list.begin() + static_cast<ptrdiff_t>(image) * room);
      counts.push_back(static_cast<int>(seen[image].size()));
    }
    auto seen_cells = on_device(list);
    auto seen_counts = on_device(counts);
    const DevicePlans past{canvas, kImages, room, seen_cells.data(), seen_counts.data()};
    for (const int tokens : {0, 1, 20, 90}) {
      const auto looks = cells_of(canvas, room, [&](const DevicePlans& out) {
        make_looks_cuda(stream(), batch.scene, tokens, &past, batch.workspace, out);
      });
      for (int image = 0; image < kImages; ++image)
        EXPECT_TRUE(
            same_cells(looks[static_cast<size_t>(image)],
                       make_look(batch.of(image), tokens, seen[static_cast<size_t>(image)])));
    }
  }
}

TEST_F(PlansCuda, FixationsAreThoseOfTheCpu) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    Batch batch;
    fill(random, canvas_of(random_grid(random, 60), random.one_in(3) ? 7 : 0), batch);
    const int count = random.range(1, 40);
    batch.change([&](Scene& scene) { scene.params.fixation_count = count; });
    make_space(kSharedEverywhere, batch);
    const int room = most_fixations(batch.scene);
    auto points = poisoned<Point>(static_cast<size_t>(kImages * room));
    auto counts = poisoned<int>(kImages);
    find_fixations_cuda(stream(), batch.scene, batch.workspace,
                        {room, points.data(), counts.data()});
    const auto found = on_host(points);
    const auto found_counts = on_host(counts);
    for (int image = 0; image < kImages; ++image) {
      const Scene& scene = batch.of(image);
      const auto expected = scene.fixations.empty()
                                ? find_fixations(*scene.relevance, scene.canvas, count)
                                : scene.fixations;
      const auto begin = found.begin() + static_cast<ptrdiff_t>(image) * room;
      ASSERT_LE(found_counts[static_cast<size_t>(image)], room);
      EXPECT_EQ(std::vector<Point>(begin, begin + found_counts[static_cast<size_t>(image)]),
                expected);
    }
  }
}

}  // namespace
}  // namespace fovea
