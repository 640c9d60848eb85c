// SPDX-License-Identifier: Apache-2.0
#include "patches/patches_cuda.h"

#include <algorithm>
#include <numeric>

#include "device/cuda/test_device.h"
#include "pyramid/pyramid_cuda.h"
#include "pyramid/test_device_pyramids.h"

namespace fovea {
namespace {

constexpr uint16_t kPoison = 0xFFFF;

// Every cell of every level with the given chance, in the order of a plan.
Plan random_plan(Size canvas, double chance, std::mt19937& random) {
  Plan plan;
  std::uniform_real_distribution<double> draw(0, 1);
  for (int level = level_count(canvas) - 1; level >= 0; --level) {
    const Grid grid = grid_at(canvas, level);
    for (int row = 0; row < grid.rows; ++row)
      for (int col = 0; col < grid.cols; ++col)
        if (draw(random) < chance) plan.cells.push_back({level, row, col});
  }
  return plan;
}

// A batch of canvases with their plans, on the host and on the device.
class PatchesCuda : public CudaTest {
 protected:
  void make(const std::vector<Image>& canvases, const std::vector<Plan>& plans) {
    const auto images = static_cast<int>(canvases.size());
    plans_ = plans;
    hosts_.clear();
    ASSERT_TRUE(pyramids_.make(canvases[0].size, images));
    for (int i = 0; i < images; ++i) {
      upload_canvas_cuda(stream(), pyramids_.view(), i,
                         canvases[static_cast<size_t>(i)].rgb.data());
      hosts_.push_back(build_pyramid(threads_, canvases[static_cast<size_t>(i)]));
    }
    build_pyramids_cuda(stream(), pyramids_.view(), pyramids_.done());
    size_t room = 1;
    for (const Plan& plan : plans) room = std::max(room, plan.cells.size() + 2);
    std::vector<Cell> cells(room * plans.size(), Cell{-1, -1, -1});
    std::vector<int> counts;
    for (size_t i = 0; i < plans.size(); ++i) {
      std::copy(plans[i].cells.begin(), plans[i].cells.end(),
                cells.begin() + static_cast<std::ptrdiff_t>(i * room));
      counts.push_back(plans[i].tokens());
    }
    cells_ = on_device(cells);
    counts_ = on_device(counts);
    device_plans_ = {canvases[0].size, images, static_cast<int>(room), cells_.data(),
                     counts_.data()};
  }

  // Random canvases and plans.
  void make(Size canvas, const std::vector<double>& chances) {
    std::mt19937 random(11);
    std::vector<Image> canvases;
    std::vector<Plan> plans;
    for (const double chance : chances) {
      canvases.push_back(random_canvas(canvas, static_cast<uint32_t>(random())));
      plans.push_back(random_plan(canvas, chance, random));
    }
    make(canvases, plans);
  }

  void check(int frames, const SamplingOrder& order, const std::string& what) {
    const size_t room = static_cast<size_t>(device_plans_.room) * plans_.size() * kPatchesPerCell;
    const size_t values_each = static_cast<size_t>(kPatchValues / 2 * frames);
    auto values = poisoned<uint16_t>(room * values_each);
    auto places = poisoned<PatchPlace>(room);
    auto offsets = poisoned<int>(plans_.size() + 1);
    sample_patches_cuda(stream(), pyramids_.view(), device_plans_,
                        {frames, values.data(), places.data(), offsets.data()}, order);
    const auto got = on_host(values);
    const auto got_places = on_host(places);
    const auto got_offsets = on_host(offsets);
    size_t at = 0;
    for (size_t image = 0; image < plans_.size(); ++image) {
      ASSERT_EQ(got_offsets[image], static_cast<int>(at)) << what;
      const Patches expected =
          sample_patches(threads_, hosts_[image], plans_[image], PatchFormat::kBFloat16);
      for (size_t patch = 0; patch < expected.places.size(); ++patch, ++at) {
        ASSERT_EQ(got_places[at], expected.places[patch]) << what << ", patch " << at;
        for (size_t i = 0; i < values_each; ++i) {
          // Both frames of a patch are alike: [channel][frame][256].
          const size_t same = frames == 2 ? i : i / 256 * 512 + i % 256;
          ASSERT_EQ(got[at * values_each + i], expected.bf16[patch * kPatchValues + same])
              << what << ", image " << image << ", patch " << patch << ", value " << i;
        }
      }
    }
    ASSERT_EQ(got_offsets.back(), static_cast<int>(at)) << what;
    for (size_t i = at * values_each; i < got.size(); ++i)
      ASSERT_EQ(got[i], kPoison) << what << ": value " << i << " lies behind the last patch";
  }

  void check_orders(const std::string& what) {
    std::mt19937 random(3);
    std::vector<int> mixed(static_cast<size_t>(device_plans_.room) * plans_.size(), -1);
    for (size_t i = 0; i < plans_.size(); ++i) {
      const auto begin = mixed.begin() + static_cast<std::ptrdiff_t>(i * device_plans_.room);
      std::iota(begin, begin + plans_[i].tokens(), 0);
      std::shuffle(begin, begin + plans_[i].tokens(), random);
    }
    const auto shuffled = on_device(mixed);
    for (const int* permutation : {static_cast<const int*>(nullptr), shuffled.data()})
      for (const bool prefetch : {true, false})
        for (const int cells : {0, 1, 3, 32})
          check(1 + (cells + (prefetch ? 1 : 0)) % 2, {permutation, prefetch, cells},
                what + (permutation == nullptr ? ", plan's order" : ", mixed order") + ", " +
                    std::to_string(cells) + " cells a block");
  }

  Threads threads_{2};
  PyramidsOnDevice pyramids_;
  std::vector<Pyramid> hosts_;
  std::vector<Plan> plans_;
  DevicePlans device_plans_;
  DeviceMemory<Cell> cells_;
  DeviceMemory<int> counts_;
};

TEST_F(PatchesCuda, EqualTheHostsInEveryOrder) {
  make({224, 160}, {0.6, 0.0, 0.9});
  check_orders("224x160");
}

TEST_F(PatchesCuda, EqualTheHostsWhereCellsHangOverTheEdge) {
  for (const Size size : {Size{32, 32}, Size{96, 32}, Size{32, 352}, Size{1056, 96}}) {
    make(size, {1.0});
    for (const int frames : {1, 2})
      check(frames, {}, std::to_string(size.width_px) + "x" + std::to_string(size.height_px));
  }
}

TEST_F(PatchesCuda, EveryByteIsNormalisedAsOnTheHost) {
  Image canvas({64, 32});
  for (size_t i = 0; i < canvas.rgb.size(); ++i) canvas.rgb[i] = static_cast<uint8_t>(i);
  Plan plan;
  plan.cells = {{0, 0, 0}, {0, 0, 1}};
  make({canvas}, {plan});
  check(2, {}, "all bytes");
  check(1, {}, "all bytes, one frame");
}

TEST_F(PatchesCuda, ManyImagesArePacked) {
  std::vector<double> chances(70);
  for (size_t i = 0; i < chances.size(); ++i)
    chances[i] = i % 7 == 3 ? 0.0 : 0.05 * static_cast<double>(i % 20);
  make({64, 64}, chances);
  check(1, {}, "70 images");
}

TEST_F(PatchesCuda, NoCellsGiveNoPatches) {
  make({64, 64}, {0.0, 0.0});
  check(2, {}, "no cells");
}

TEST_F(PatchesCuda, PlacesAreOptional) {
  make({64, 64}, {1.0});
  const size_t values = static_cast<size_t>(device_plans_.room) * 4 * kPatchValues;
  auto memory = poisoned<uint16_t>(values);
  auto offsets = poisoned<int>(2);
  sample_patches_cuda(stream(), pyramids_.view(), device_plans_,
                      {2, memory.data(), nullptr, offsets.data()});
  EXPECT_EQ(on_host(offsets)[1], plans_[0].tokens() * kPatchesPerCell);
}

TEST_F(PatchesCuda, LargeBatchesEqualTheHosts) {
  if (kEmulated) GTEST_SKIP() << "large batches take too long when emulated";
  make({1024, 1024}, std::vector<double>(8, 0.7));
  check_orders("1024x1024");
}

// Nothing but the cache changes; an address out of bounds would show here.
TEST_F(PatchesCuda, TheCacheIsWarmedWithinTheLevels) {
  for (const Size size : {Size{32, 32}, Size{224, 160}, Size{1056, 96}}) {
    make(size, {1.0, 0.3});
    warm_cache_cuda(stream(), pyramids_.view(), device_plans_);
    EXPECT_TRUE(stream_.wait());
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(same_levels(stream_, pyramids_.view(), i, hosts_[static_cast<size_t>(i)]));
  }
}

}  // namespace
}  // namespace fovea
