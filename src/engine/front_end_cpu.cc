// SPDX-License-Identifier: Apache-2.0
// The front end on the CPU: one call per room, done when it returns.
#include <cstring>
#include <utility>

#include "engine/device_front_end.h"
#include "patches/patches.h"

namespace fovea {
namespace {

struct PreparedOnCpu : OnDevice {
  std::shared_ptr<HostCanvas> canvas;
  Detail detail;

  size_t bytes() const override { return static_cast<size_t>(canvas->size().pixels()) * 4; }
};

// The pixels of a rectangle of level-0 cells.
Image cut_out(const Pyramid& pyramid, const CellBlock& block) {
  Image image(Size{(block.col_end - block.col_begin) * kCellPx,
                   (block.row_end - block.row_begin) * kCellPx});
  const LevelView level = pyramid.level(0);
  const auto row_bytes = static_cast<size_t>(image.size.width_px) * 3;
  for (int y = 0; y < image.size.height_px; ++y)
    std::memcpy(image.row(y),
                level.row(block.row_begin * kCellPx + y) + ptrdiff_t{block.col_begin} * kCellPx * 3,
                row_bytes);
  return image;
}

class CpuFrontEnd : public DeviceFrontEnd {
 public:
  CpuFrontEnd(Threads& threads, std::shared_ptr<DeviceTower> tower)
      : threads_(threads), tower_(std::move(tower)) {}

  Result<std::shared_ptr<OnDevice>> prepare(const std::shared_ptr<HostCanvas>& canvas,
                                            const CopyBytes& /*copy*/, Stopwatch& watch) override {
    auto prepared = std::make_shared<PreparedOnCpu>();
    prepared->canvas = canvas;
    const Pyramid& pyramid = canvas->pyramid(threads_);
    watch.lap("pyramid");
    prepared->detail = measure_detail(threads_, pyramid);
    watch.lap("detail");
    return std::shared_ptr<OnDevice>(std::move(prepared));
  }

  Result<PictureMeasures> measures(OnDevice& prepared) override {
    const auto& here = static_cast<PreparedOnCpu&>(prepared);
    return PictureMeasures{measure_picture(threads_, pyramid_of(prepared)), here.detail};
  }

  Result<PlanAnswer> choose(OnDevice& prepared, const PlanRequest& request,
                            Stopwatch& watch) override {
    const auto& here = static_cast<PreparedOnCpu&>(prepared);
    PlanAnswer answer;
    answer.relevance =
        measure_relevance(threads_, pyramid_of(prepared), request.coupling, request.relevance);
    watch.lap("relevance");
    Scene scene{.canvas = here.canvas->size(),
                .relevance = &answer.relevance.relevance,
                .detail = &here.detail,
                .fixations = request.fixations,
                .budget_tokens = request.budget_tokens,
                .params = request.gaze};
    if (scene.fixations.empty() && request.maker == MakerKind::kCortical)
      scene.fixations = find_fixations(*scene.relevance, scene.canvas, scene.params.fixation_count);
    auto plan = make_plan(request.maker, scene);
    if (!plan) return plan.error();
    answer.cells = std::move(plan->cells);
    answer.fixations = std::move(scene.fixations);
    return answer;
  }

  Result<int64_t> sample(OnDevice& prepared, std::span<const Cell> cells) override {
    return static_cast<int64_t>(patches_of(pyramid_of(prepared), cells).bytes());
  }

  Result<VisualTokens> encode(OnDevice& prepared, std::span<const Cell> cells,
                              const CellBlock* crop, TowerMemory& memory,
                              const EncodeOptions& options, Stopwatch& watch) override {
    const Pyramid& whole = pyramid_of(prepared);
    if (crop == nullptr) return encode(whole, cells, memory, options, watch);
    const Pyramid pyramid = build_pyramid(threads_, cut_out(whole, *crop), /*levels=*/1);
    std::vector<Cell> moved(cells.begin(), cells.end());
    for (Cell& cell : moved) {
      cell.row -= crop->row_begin;
      cell.col -= crop->col_begin;
    }
    return encode(pyramid, moved, memory, options, watch);
  }

  void start() override {}

 private:
  const Pyramid& pyramid_of(OnDevice& prepared) const {
    return static_cast<PreparedOnCpu&>(prepared).canvas->pyramid(threads_);
  }

  Patches patches_of(const Pyramid& pyramid, std::span<const Cell> cells) const {
    Plan plan;
    plan.cells.assign(cells.begin(), cells.end());
    return sample_patches(threads_, pyramid, plan);
  }

  Result<VisualTokens> encode(const Pyramid& pyramid, std::span<const Cell> cells,
                              TowerMemory& memory, const EncodeOptions& options,
                              Stopwatch& watch) const {
    const Patches patches = patches_of(pyramid, cells);
    watch.lap("patches");
    return tower_->encode(threads_, patches, pyramid.canvas(), memory, options);
  }

  Threads& threads_;
  const std::shared_ptr<DeviceTower> tower_;
};

}  // namespace

void make_cpu_front_end(const std::shared_ptr<Accelerator>& /*device*/,
                        const std::shared_ptr<DeviceTower>& tower, Threads& threads,
                        Result<std::shared_ptr<DeviceFrontEnd>>& result) {
  result = std::shared_ptr<DeviceFrontEnd>(std::make_shared<CpuFrontEnd>(threads, tower));
}

}  // namespace fovea
