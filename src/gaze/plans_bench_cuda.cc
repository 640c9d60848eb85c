// SPDX-License-Identifier: Apache-2.0
// Every plan maker on the device, for a batch of canvases of 1024x1024 px.
#include <algorithm>
#include <random>

#include "device/cuda/gpu_bench.h"
#include "gaze/plans_cuda.h"

namespace fovea {
namespace {

constexpr Size kCanvas = kEmulated ? Size{256, 256} : Size{1024, 1024};
constexpr int kBatch = kEmulated ? 2 : 32;
constexpr int kBudgetTokens = 68;

// Relevance as photographs have it: smooth hills with some noise between.
Map hills(std::mt19937& random) {
  Map map(grid_at(kCanvas, 0));
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<uint32_t>(limit));
  };
  for (int hill = 0; hill < 12; ++hill) {
    const int row = below(map.grid.rows);
    const int col = below(map.grid.cols);
    const int height = 10'000 + below(50'000);
    const int width = 1 + below(4);
    for (int r = 0; r < map.grid.rows; ++r)
      for (int c = 0; c < map.grid.cols; ++c) {
        const int distance = (r - row) * (r - row) + (c - col) * (c - col);
        const auto score =
            static_cast<int64_t>(height) * width * width / (width * width + distance);
        map.at(r, c) = std::max(map.at(r, c), static_cast<uint16_t>(score + below(2'000)));
      }
  }
  return map;
}

// A cell loses what the finer cells under it lose, and some more.
Detail random_detail(std::mt19937& random) {
  Detail detail;
  for (int level = 0; level < level_count(kCanvas); ++level) {
    const Grid grid = grid_at(kCanvas, level);
    detail.grid.push_back(grid);
    detail.lost.emplace_back(static_cast<size_t>(grid.cells()), 0);
    if (level == 0) continue;
    const auto& fine = detail.lost[static_cast<size_t>(level - 1)];
    const Grid under = detail.grid[static_cast<size_t>(level - 1)];
    for (size_t i = 0; i < fine.size(); ++i) {
      const auto row = static_cast<int>(i) / under.cols;
      const auto col = static_cast<int>(i) % under.cols;
      detail.lost.back()[static_cast<size_t>(row / 2 * grid.cols + col / 2)] += fine[i];
    }
    for (uint64_t& lost : detail.lost.back()) lost += random() % 100'000;
  }
  return detail;
}

class PlansBench {
 public:
  explicit PlansBench(CudaBench& bench) : bench_(bench) {}

  void run() {
    if (!make()) return;
    time_maker(MakerKind::kQuadtree, "plan/quadtree68/32x1024x1024");
    for (size_t i = 0; i < std::size(kMakerNames); ++i)
      time_maker(static_cast<MakerKind>(i), "plan/" + std::string(kMakerNames[i]));
  }

 private:
  bool make() {
    std::mt19937 random(7);
    std::vector<uint16_t> scores;
    std::vector<std::vector<uint64_t>> lost(static_cast<size_t>(level_count(kCanvas)));
    for (int i = 0; i < kBatch; ++i) {
      maps_.push_back(hills(random));
      details_.push_back(random_detail(random));
      scores.insert(scores.end(), maps_.back().score.begin(), maps_.back().score.end());
      for (size_t level = 1; level < lost.size(); ++level)
        lost[level].insert(lost[level].end(), details_.back().lost[level].begin(),
                           details_.back().lost[level].end());
    }
    if (!bench_.upload(scores_, scores)) return false;
    scene_.canvas = kCanvas;
    scene_.images = kBatch;
    scene_.relevance = {grid_at(kCanvas, 0), kBatch, scores_.data()};
    scene_.detail.levels = static_cast<int>(lost.size());
    scene_.detail.images = kBatch;
    lost_.resize(lost.size());
    for (size_t level = 0; level < lost.size(); ++level) {
      scene_.detail.grid[level] = grid_at(kCanvas, static_cast<int>(level));
      if (level > 0 && !bench_.upload(lost_[level], lost[level])) return false;
      scene_.detail.lost[level] = lost_[level].data();
    }
    scene_.budget_tokens = kBudgetTokens;
    return make_memory();
  }
  bool make_memory() {
    int device = 0;
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) return bench_.check(cuda_error("the device", error));
    const size_t shared = shared_limit_of_device(device);
    const size_t bytes = plan_workspace_bytes(scene_, shared);
    const int room = plan_room(kCanvas, kBudgetTokens);
    if (!bench_.make(memory_, bytes) || !bench_.make(counts_, kBatch) ||
        !bench_.make(cells_, static_cast<size_t>(room) * kBatch))
      return false;
    workspace_ = {memory_.data(), bytes, shared};
    plans_ = {kCanvas, kBatch, room, cells_.data(), counts_.data()};
    return true;
  }

  bool same_plan(MakerKind maker, int image) {
    const auto cpu = reinterpret_cast<decltype(&make_plan)>(bench_.report().of_cpu("make_plan"));
    if (cpu == nullptr) return false;
    Scene scene;
    scene.canvas = kCanvas;
    scene.relevance = &maps_[static_cast<size_t>(image)];
    scene.detail = &details_[static_cast<size_t>(image)];
    scene.budget_tokens = kBudgetTokens;
    const auto expected = cpu(maker, scene);
    const int count = bench_.on_host(counts_.data() + image, 1).front();
    if (!expected || count != expected->tokens()) return false;
    return bench_.on_host(cells_.data() + static_cast<int64_t>(image) * plans_.room,
                          static_cast<size_t>(count)) == expected->cells;
  }

  void time_maker(MakerKind maker, const std::string& name) {
    const auto plan = [&](int) {
      make_plans_cuda(bench_.get(), maker, scene_, workspace_, plans_);
    };
    cudaMemsetAsync(cells_.data(), 0xFF, cells_.bytes(), bench_.get());
    plan(0);
    const bool verified = same_plan(maker, 0) && same_plan(maker, kBatch - 1);
    const double ms = bench_.ms_of(1, plan);
    bench_.add(verified, {name,
                          ms,
                          "ms",
                          {},
                          text_of("budget %d; %.2f us an image of %d", kBudgetTokens,
                                  1000 * ms / kBatch, kBatch)});
  }

  CudaBench& bench_;
  std::vector<Map> maps_;
  std::vector<Detail> details_;
  DeviceMemory<uint16_t> scores_;
  std::vector<DeviceMemory<uint64_t>> lost_;
  DeviceMemory<unsigned char> memory_;
  DeviceMemory<Cell> cells_;
  DeviceMemory<int> counts_;
  DeviceScene scene_;
  PlanWorkspace workspace_;
  DevicePlans plans_;
};

const CudaBenchRegistration kRegistered(kKernelPhase, "plan",
                                        [](CudaBench& bench) { PlansBench(bench).run(); });

}  // namespace
}  // namespace fovea
