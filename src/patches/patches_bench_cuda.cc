// SPDX-License-Identifier: Apache-2.0
// Sampling patches on the device: in the order of the plan or mixed, the next cell's pixels read
// before or not, the cache warm from the plan before or cold.
#include <algorithm>
#include <numeric>
#include <random>

#include "patches/bench_patches_cuda.h"
#include "patches/patches_cuda.h"
#include "pyramid/bench_pyramids_cuda.h"

namespace fovea {
namespace {

constexpr Size kCanvas = kEmulated ? Size{128, 128} : Size{1024, 1024};
constexpr int kBatch = kEmulated ? 2 : 32;
constexpr int kSets = kEmulated ? 1 : 2;
constexpr int kFrames = 2;        // as the tower reads them
constexpr double kOverlap = 0.8;  // of a plan with the one before
constexpr size_t kFlushBytes = kEmulated ? 1 << 10 : size_t{256} << 20;  // more than any cache

Image noise(Size size, uint32_t seed) {
  Image image(size);
  std::mt19937 random(seed + 5);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random() >> 9);
  return image;
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  const Grid grid = grid_at(kCanvas, 0);
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) cells.push_back({0, row, col});
  return cells;
}

// A quarter of the cells of levels 0 to 2, in the order of a plan.
std::vector<Cell> random_cells(std::mt19937& random) {
  std::vector<Cell> cells;
  for (int level = 2; level >= 0; --level) {
    const Grid grid = grid_at(kCanvas, level);
    for (int row = 0; row < grid.rows; ++row)
      for (int col = 0; col < grid.cols; ++col)
        if (random() % 4 == 0) cells.push_back({level, row, col});
  }
  return cells;
}

// The same but for one cell in five, which another takes the place of.
std::vector<Cell> cells_before(const std::vector<Cell>& cells, std::mt19937& random) {
  std::vector<Cell> before = random_cells(random);
  before.resize(std::min(before.size(), cells.size() / 5));
  for (const Cell& cell : cells)
    if (random() % 1000 < static_cast<unsigned>(kOverlap * 1000)) before.push_back(cell);
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  return before;
}

// Plans of a batch, on both sides.
struct BenchPlans {
  std::vector<std::vector<Cell>> plans;
  DeviceMemory<Cell> cells;
  DeviceMemory<int> counts;
  DevicePlans device;

  bool make(CudaBench& bench, std::vector<std::vector<Cell>> its_plans) {
    plans = std::move(its_plans);
    size_t room = 1;
    for (const auto& plan : plans) room = std::max(room, plan.size());
    std::vector<Cell> all(room * plans.size());
    std::vector<int> sizes;
    for (size_t i = 0; i < plans.size(); ++i) {
      std::copy(plans[i].begin(), plans[i].end(),
                all.begin() + static_cast<std::ptrdiff_t>(i * room));
      sizes.push_back(static_cast<int>(plans[i].size()));
    }
    if (!bench.upload(cells, all) || !bench.upload(counts, sizes)) return false;
    device = {kCanvas, static_cast<int>(plans.size()), static_cast<int>(room), cells.data(),
              counts.data()};
    return true;
  }
  size_t count() const {
    size_t sum = 0;
    for (const auto& plan : plans) sum += plan.size();
    return sum;
  }
};

class PatchesBench {
 public:
  explicit PatchesBench(CudaBench& bench) : bench_(bench) {}

  void run() {
    if (!make()) return;
    const bool both = samples({}, 2);
    const double both_ms = sample_ms({}, 2);
    const bool grouped = samples({}) && both;
    const double grouped_ms = sample_ms({}, kFrames);
    add(grouped, "patches/grouped", grouped_ms,
        text_of("%zu cells of 3 levels; both frames of a patch %.4f ms", plans_.count(), both_ms));
    SamplingOrder order;
    order.mixed = mixed_.data();
    const bool mixed = samples(order);
    const double mixed_ms = sample_ms(order, kFrames);
    add(mixed, "patches/mixed", mixed_ms,
        text_of("%.2fx the time of grouped (claimed 2x)", mixed_ms / grouped_ms));
    order = {};
    order.prefetch = false;
    const bool plain = samples(order);
    const double plain_ms = sample_ms(order, kFrames);
    add(grouped && plain, "patches/prefetch", grouped_ms,
        text_of("%.2fx over %.4f ms without (claimed 1.5x)", plain_ms / grouped_ms, plain_ms));
    warm();
    uniform(1, "patches/uniform/1x1024x1024");
    uniform(kBatch, "patches/uniform/32x1024x1024");
  }

 private:
  bool make() {
    std::mt19937 random(11);
    std::vector<std::vector<Cell>> now;
    std::vector<std::vector<Cell>> before;
    for (int i = 0; i < kBatch; ++i) {
      now.push_back(random_cells(random));
      before.push_back(cells_before(now.back(), random));
    }
    if (!pyramids_.make(bench_, kCanvas, kBatch, 0, kSets, noise)) return false;
    if (!plans_.make(bench_, now) || !before_.make(bench_, before)) return false;
    const auto room = static_cast<size_t>(plans_.device.room);
    std::vector<int> mixed(room * kBatch);
    for (size_t i = 0; i < kBatch; ++i) {
      const auto first = mixed.begin() + static_cast<std::ptrdiff_t>(i * room);
      const auto last = first + static_cast<std::ptrdiff_t>(now[i].size());
      std::iota(first, last, 0);
      std::shuffle(first, last, random);
    }
    const size_t patches = room * kBatch * kPatchesPerCell;
    return bench_.upload(mixed_, mixed) && bench_.make(values_, kSets * patches * kPatchValues) &&
           bench_.make(places_, patches) && bench_.make(offsets_, kBatch + 1) &&
           bench_.make(flush_, kFlushBytes);
  }

  DevicePatches target(int call, int frames) {
    const auto set = static_cast<size_t>(call % kSets);
    return {frames, values_.data() + set * values_.size() / kSets, places_.data(), offsets_.data()};
  }
  void sample(int call, const SamplingOrder& order, int frames) {
    sample_patches_cuda(bench_.get(), pyramids_.of_call(call).view(), plans_.device,
                        target(call, frames), order);
  }
  double sample_ms(const SamplingOrder& order, int frames) {
    return bench_.ms_of(kSets, [&](int call) { sample(call, order, frames); });
  }

  bool samples(const SamplingOrder& order, int frames = kFrames) {
    cudaMemsetAsync(values_.data(), 0xFF, values_.bytes(), bench_.get());
    sample(0, order, frames);
    return right(0, frames) && right(kBatch - 1, frames);
  }
  bool right(int image, int frames) {
    const auto pyramid = pyramid_of_cpu(bench_, pyramids_.of(image), 0);
    Plan plan;
    plan.cells = plans_.plans[static_cast<size_t>(image)];
    return pyramid && same_patches(bench_, target(0, frames), image, *pyramid, plan);
  }

  // The plan before told where to look; four in five of its cells are in this one too.
  void warm() {
    const auto flush = [&] { cudaMemsetAsync(flush_.data(), 0, flush_.bytes(), bench_.get()); };
    const double cold_ms = bench_.ms_after(flush, [&] { sample(0, {}, kFrames); });
    const auto flush_and_warm = [&] {
      flush();
      warm_cache_cuda(bench_.get(), pyramids_.of_call(0).view(), before_.device);
    };
    const double ms = bench_.ms_after(flush_and_warm, [&] { sample(0, {}, kFrames); });
    const bool verified = right(0, kFrames) && right(kBatch - 1, kFrames);
    size_t kept = 0;
    for (size_t i = 0; i < kBatch; ++i)
      for (const Cell& cell : plans_.plans[i])
        kept += std::binary_search(before_.plans[i].begin(), before_.plans[i].end(), cell) ? 1 : 0;
    add(verified, "patches/warm", ms,
        text_of("%.0f %% of the cells were in the plan before; cold %.4f ms, %.2fx",
                100.0 * static_cast<double>(kept) / static_cast<double>(plans_.count()), cold_ms,
                cold_ms / ms));
  }

  // Every cell of level 0, one frame, as the engine reads still images.
  void uniform(int images, const char* name) {
    BenchPlans plans;
    DeviceMemory<uint16_t> values;
    DeviceMemory<PatchPlace> places;
    const std::vector<std::vector<Cell>> cells(static_cast<size_t>(images), all_cells());
    if (!plans.make(bench_, cells)) return;
    const size_t patches = plans.count() * kPatchesPerCell;
    if (!bench_.make(values, patches * patch_values(1)) || !bench_.make(places, patches)) return;
    const DevicePatches to{1, values.data(), places.data(), offsets_.data()};
    const auto sample_all = [&](int call) {
      DevicePyramids pyramids = pyramids_.of_call(call).view();
      pyramids.images = images;
      sample_patches_cuda(bench_.get(), pyramids, plans.device, to, {});
    };
    cudaMemsetAsync(values.data(), 0xFF, values.bytes(), bench_.get());
    sample_all(0);
    const auto pyramid = pyramid_of_cpu(bench_, pyramids_.of(images - 1), 0);
    Plan plan;
    plan.cells = cells.back();
    const bool verified = pyramid && same_patches(bench_, to, images - 1, *pyramid, plan);
    add(verified, name, bench_.ms_of(kSets, sample_all), "one frame", plans.count(), 1);
  }

  void add(bool verified, const char* name, double ms, const std::string& note) {
    add(verified, name, ms, note, plans_.count(), kFrames);
  }
  void add(bool verified, const char* name, double ms, const std::string& note, size_t cells,
           int frames) {
    const double bytes = static_cast<double>(cells) *
                         (3.0 * kCellPx * kCellPx + sizeof(uint16_t) * kPatchesPerCell *
                                                        static_cast<double>(patch_values(frames)));
    const auto limit = limit_of(bytes, bench_.ceilings.copy_bytes_per_ms);
    bench_.add(
        verified,
        {name, ms, "ms", limit,
         text_of("%.0f GB/s, %.0f %% of copy; ", bytes / ms / 1e6, percent_of(limit, ms)) + note});
  }

  CudaBench& bench_;
  BenchPyramids pyramids_;
  BenchPlans plans_;
  BenchPlans before_;
  DeviceMemory<int> mixed_;
  DeviceMemory<uint16_t> values_;
  DeviceMemory<PatchPlace> places_;
  DeviceMemory<int> offsets_;
  DeviceMemory<unsigned char> flush_;
};

const CudaBenchRegistration kRegistered(kKernelPhase, "patches",
                                        [](CudaBench& bench) { PatchesBench(bench).run(); });

}  // namespace
}  // namespace fovea
