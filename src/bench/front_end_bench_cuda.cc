// SPDX-License-Identifier: Apache-2.0
// The front end of a batch without a word to the host: pyramids, detail, relevance, quadtree plans
// and patches; from canvases on the device, and with their way there.
#include <algorithm>
#include <chrono>

#include "bench/bench_front_end_cuda.h"
#include "patches/bench_patches_cuda.h"
#include "pyramid/bench_pyramids_cuda.h"
#include "pyramid/upload_cuda.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

constexpr Size kCanvas = kEmulated ? Size{64, 64} : Size{1024, 1024};
constexpr int kBatch = kEmulated ? 2 : 32;
constexpr int kFrames = 1;  // of a still image, as the tower reads them
constexpr int kSets = 2;    // uploads fill one while the other is read
constexpr int kBudgetTokens = kEmulated ? 3 : 68;
constexpr int kUploads = kEmulated ? 1 : 40;  // batches of a round

Image busy_picture(Size size, uint32_t seed) { return scene_image(size, seed + 1, 300); }

class FrontEndBench {
 public:
  explicit FrontEndBench(CudaBench& bench) : bench_(bench) {}

  void run() {
    if (!make()) return;
    enqueue(0);
    const bool verified = same_as_cpu(0) && same_as_cpu(kBatch - 1);
    const double ms = bench_.ms_of(kSets, [&](int call) { enqueue(call); });
    const auto limit = limit_of(bytes(), bench_.ceilings.copy_bytes_per_ms);
    bench_.add(verified,
               {"front-end/32x1024x1024", 1000 * ms / kBatch, "us an image",
                limit ? std::optional(1000 * *limit / kBatch) : std::nullopt,
                text_of("%.4f ms for %d images, one graph; wanted <= 10 us", ms, kBatch)});
    with_upload(verified);
  }

 private:
  bool make() {
    if (!pyramids_.make(bench_, kCanvas, kBatch, 0, kSets, busy_picture) ||
        !front_end_.make(bench_, kCanvas, kBatch, MakerKind::kQuadtree, kBudgetTokens))
      return false;
    const size_t patches = front_end_.room_cells() * kPatchesPerCell;
    return bench_.make(offsets_, kBatch + 1) && bench_.make(places_, patches) &&
           bench_.make(values_, patches * patch_values(kFrames));
  }

  void enqueue(int call) { front_end_.enqueue(bench_.get(), pyramids_.of_call(call), patches()); }
  DevicePatches patches() { return {kFrames, values_.data(), places_.data(), offsets_.data()}; }

  // The canvas read, the levels made and read, the patches written.
  double bytes() const {
    const double patches = static_cast<double>(values_.bytes()) +
                           3.0 * kCellPx * kCellPx * static_cast<double>(front_end_.room_cells());
    return pyramids_.bytes() + patches;
  }

  // The CPU's plan from its own maps, and its patches.
  bool same_as_cpu(int image) {
    GpuBench& report = bench_.report();
    const auto relevance =
        reinterpret_cast<decltype(&measure_relevance)>(report.of_cpu("measure_relevance"));
    const auto lost = reinterpret_cast<decltype(&measure_detail)>(report.of_cpu("measure_detail"));
    const auto plan_of = reinterpret_cast<decltype(&make_plan)>(report.of_cpu("make_plan"));
    const auto pyramid = pyramid_of_cpu(bench_, pyramids_.of(image), 0);
    if (relevance == nullptr || lost == nullptr || plan_of == nullptr || !pyramid) return false;
    const Relevance parts = relevance(report.threads(), *pyramid, nullptr, {});
    const Detail detail = lost(report.threads(), *pyramid);
    Scene scene;
    scene.canvas = kCanvas;
    scene.relevance = &parts.relevance;
    scene.detail = &detail;
    scene.budget_tokens = kBudgetTokens;
    const auto plan = plan_of(MakerKind::kQuadtree, scene);
    const int count = bench_.on_host(front_end_.plans().counts + image, 1).front();
    if (!plan || count != plan->tokens()) return false;
    const DevicePlans& plans = front_end_.plans();
    const auto cells = bench_.on_host(plans.cells + static_cast<int64_t>(image) * plans.room,
                                      static_cast<size_t>(count));
    if (cells != plan->cells) return false;
    return same_patches(bench_, patches(), image, *pyramid, *plan);
  }

  // Batches from pinned memory, the next one on its way while one is computed.
  void upload_batches(CanvasUploads& uploads, int batches) {
    for (int batch = 0; batch < batches && bench_.good(); ++batch) {
      uploads.begin(pyramids_.of_call(batch).view());
      for (int i = 0; i < kBatch; ++i) {
        const auto canvas = uploads.next_canvas();
        if (!canvas) {
          bench_.check(canvas.error());
          return;
        }
        if (fill_) std::copy_n(pyramids_.of(i).rgb.data(), pyramids_.of(i).rgb.size(), *canvas);
        uploads.send();
      }
      uploads.hand_over(bench_.get());
      enqueue(batch);
      uploads.release(bench_.get());
    }
    bench_.check(bench_.stream().wait());
  }

  void with_upload(bool verified) {
    CanvasUploads uploads;
    if (!bench_.check(uploads.open(kCanvas))) return;
    fill_ = true;
    upload_batches(uploads, kSets);
    verified = verified && bench_.good() && same_as_cpu(0) && same_as_cpu(kBatch - 1);
    fill_ = false;  // decoders write into pinned memory; that is no part of the way to the device
    double best_ms = 0;
    for (int round = 0; round < (kEmulated ? 1 : 5) && bench_.good(); ++round) {
      const auto start = std::chrono::steady_clock::now();
      upload_batches(uploads, kUploads);
      const double ms =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count();
      best_ms = round == 0 ? ms : std::min(best_ms, ms);
    }
    const double us = 1000 * best_ms / (kUploads * kBatch);
    const double canvas_bytes = 3.0 * static_cast<double>(kCanvas.pixels());
    const auto limit = limit_of(1000 * canvas_bytes, bench_.ceilings.upload_bytes_per_ms);
    bench_.add(verified, {"front-end/upload/32x1024x1024", us, "us an image", limit,
                          text_of("%.1f GB/s, %.0f %% of the pinned copy rate; wanted >= 90 %%",
                                  canvas_bytes / us / 1e3, percent_of(limit, us))});
  }

  CudaBench& bench_;
  BenchPyramids pyramids_;
  BenchFrontEnd front_end_;
  DeviceMemory<int> offsets_;
  DeviceMemory<PatchPlace> places_;
  DeviceMemory<uint16_t> values_;
  bool fill_ = false;
};

const CudaBenchRegistration kRegistered(kKernelPhase, "front-end",
                                        [](CudaBench& bench) { FrontEndBench(bench).run(); });

}  // namespace
}  // namespace fovea
