// SPDX-License-Identifier: Apache-2.0
// Relevance and detail of a batch on the device.
#include "pyramid/bench_pyramids_cuda.h"
#include "relevance/relevance_cuda.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

constexpr Size kCanvas = kEmulated ? Size{64, 32} : Size{1024, 1024};
constexpr int kBatch = kEmulated ? 2 : 32;
constexpr int kSets = kEmulated ? 1 : 2;

// As many edges as photographs have.
Image busy_picture(Size size, uint32_t seed) { return scene_image(size, seed + 1, 300); }

// One image's map within a step of the CPU's.
bool same_map(CudaBench& bench, const DeviceMaps& maps, int image, const Map& expected) {
  const auto cells = static_cast<size_t>(expected.grid.cells());
  if (maps.grid != expected.grid) return false;
  const auto got = bench.on_host(maps.score + static_cast<size_t>(image) * cells, cells);
  for (size_t i = 0; i < cells; ++i)
    if (std::abs(got[i] - expected.score[i]) > 1) return false;
  return true;
}

bool same_detail(CudaBench& bench, const DeviceDetail& detail, int image, const Detail& expected) {
  for (int level = 1; level < detail.levels; ++level) {
    const auto& lost = expected.lost[static_cast<size_t>(level)];
    const size_t first = static_cast<size_t>(image) * lost.size();
    if (bench.on_host(detail.lost[level] + first, lost.size()) != lost) return false;
  }
  return true;
}

bool same_as_cpu(CudaBench& bench, const BenchPyramids& pyramids, const DeviceRelevance& maps,
                 const DeviceDetail& detail, int image) {
  const auto relevance =
      reinterpret_cast<decltype(&measure_relevance)>(bench.report().of_cpu("measure_relevance"));
  const auto lost =
      reinterpret_cast<decltype(&measure_detail)>(bench.report().of_cpu("measure_detail"));
  const auto pyramid = pyramid_of_cpu(bench, pyramids.of(image), 0);
  if (relevance == nullptr || lost == nullptr || !pyramid) return false;
  const Relevance parts = relevance(bench.report().threads(), *pyramid, nullptr, {});
  return same_map(bench, maps.information, image, parts.information) &&
         same_map(bench, maps.salience, image, parts.salience) &&
         same_map(bench, maps.relevance, image, parts.relevance) &&
         same_detail(bench, detail, image, lost(bench.report().threads(), *pyramid));
}

void run_relevance(CudaBench& bench) {
  BenchPyramids pyramids;
  RelevanceWorkspace workspace;
  RelevanceMemory maps;
  DetailMemory detail;
  if (!pyramids.make(bench, kCanvas, kBatch, 0, kSets, busy_picture) ||
      !bench.check(workspace.make(kCanvas, kBatch)) ||
      !bench.check(maps.make(kCanvas, 0, kBatch)) ||
      !bench.check(detail.make(kCanvas, level_count(kCanvas), kBatch)))
    return;
  const auto measure = [&](int call) {
    measure_relevance_cuda(bench.get(), pyramids.of_call(call).view(), nullptr, {}, workspace,
                           maps.maps(), &detail.detail());
  };
  measure(0);
  const bool verified = same_as_cpu(bench, pyramids, maps.maps(), detail.detail(), 0) &&
                        same_as_cpu(bench, pyramids, maps.maps(), detail.detail(), kBatch - 1);
  const double ms = bench.ms_of(kSets, measure);
  const auto limit = limit_of(pyramids.bytes(), bench.ceilings.read_bytes_per_ms);
  bench.add(verified, {"relevance/32x1024x1024", ms, "ms", limit,
                       text_of("with detail; %.2f us an image; limit: every level read once",
                               1000 * ms / kBatch)});
}

const CudaBenchRegistration kRegistered(kKernelPhase, "relevance", run_relevance);

}  // namespace
}  // namespace fovea
