// SPDX-License-Identifier: Apache-2.0
#include "relevance/relevance_cuda.h"

#include <cmath>
#include <random>

#include "device/cuda/test_device.h"
#include "relevance/coupling.h"
#include "relevance/test_images_cuda.h"

namespace fovea {
namespace {

class RelevanceCuda : public CudaTest {
 protected:
  std::vector<uint16_t> scores_of(const DeviceMaps& maps) {
    std::vector<uint16_t> scores(static_cast<size_t>(maps.grid.cells() * maps.images));
    stream_.download(scores.data(), maps.score, scores.size());
    const Status done = stream_.wait();
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return scores;
  }
  // Image `image` of the maps, against the CPU's; `steps` apart at most.
  void expect_near(const DeviceMaps& maps, int image, const Map& expected, int steps,
                   const char* name) {
    const std::vector<uint16_t> all = scores_of(maps);
    ASSERT_EQ(maps.grid, expected.grid) << name;
    const auto cells = static_cast<size_t>(expected.grid.cells());
    for (size_t i = 0; i < cells; ++i)
      ASSERT_LE(std::abs(all[static_cast<size_t>(image) * cells + i] - expected.score[i]), steps)
          << name << " of image " << image << ", cell " << i << " of a grid of "
          << expected.grid.rows << "x" << expected.grid.cols << ": "
          << all[static_cast<size_t>(image) * cells + i] << " against " << expected.score[i];
  }
  void expect_equal(const DeviceRelevance& parts, int image, const Relevance& expected,
                    int steps = 0) {
    expect_near(parts.information, image, expected.information, 0, "information");
    expect_near(parts.salience, image, expected.salience, 0, "salience");
    if (!expected.coupling.empty())
      expect_near(parts.coupling, image, expected.coupling, 0, "coupling");
    expect_near(parts.compress_particularize, image, expected.compress_particularize, steps,
                "compress_particularize");
    expect_near(parts.exploit_explore, image, expected.exploit_explore, steps, "exploit_explore");
    expect_near(parts.focus_diversify, image, expected.focus_diversify, steps, "focus_diversify");
    expect_near(parts.relevance, image, expected.relevance, steps, "relevance");
  }
  void expect_detail(const DeviceDetail& device, int image, const Detail& expected) {
    for (int k = 1; k < device.levels; ++k) {
      const auto level = static_cast<size_t>(k);
      ASSERT_EQ(device.grid[level], expected.grid[level]);
      std::vector<uint64_t> lost(expected.lost[level].size());
      stream_.download(lost.data(), device.lost[level] + static_cast<size_t>(image) * lost.size(),
                       lost.size());
      ASSERT_TRUE(stream_.wait());
      ASSERT_EQ(lost, expected.lost[level]) << "level " << k << " of image " << image;
    }
  }
  // A batch of every kind of picture against the CPU, with and without a question.
  void compare(Size size, int images, int level, bool in_shared = true) {
    SCOPED_TRACE(testing::Message() << size.width_px << "x" << size.height_px << " level " << level
                                    << (in_shared ? "" : ", not in shared memory"));
    TestPyramids batch(threads_, stream_, test_batch(size, images));
    RelevanceParams params;
    params.level = level;
    RelevanceWorkspace workspace;
    RelevanceMemory memory;
    DetailMemory lost;
    ASSERT_TRUE(workspace.make(size, images, in_shared));
    ASSERT_TRUE(memory.make(size, level, images));
    ASSERT_TRUE(lost.make(size, batch.device.levels, images));
    measure_relevance_cuda(stream(), batch.device, nullptr, params, workspace, memory.maps(),
                           &lost.detail());
    for (int i = 0; i < images; ++i) {
      const Pyramid& pyramid = batch.pyramids[static_cast<size_t>(i)];
      expect_equal(memory.maps(), i, measure_relevance(threads_, pyramid, nullptr, params));
      expect_detail(lost.detail(), i, measure_detail(threads_, pyramid));
    }
  }

  Threads threads_{2};
};

TEST_F(RelevanceCuda, EqualsTheCpuOnCanvasesOfManySizes) {
  compare({32, 32}, 4, 0);
  compare({64, 32}, 5, 0);
  compare({96, 160}, 2, 0);
  compare({256, 256}, 4, 0);
  compare({64, 2048}, 1, 0);
  compare({608, 800}, 1, 0);
  if (kEmulated) return;  // the rest takes minutes there
  compare({6400, 32}, 3, 0);
  compare({1504, 992}, 4, 0);
  compare({1024, 1024}, 32, 0);
  compare({4096, 4096}, 1, 0);
}

// Each cell of level 0 is less than a pixel of the level salience works at.
TEST_F(RelevanceCuda, EqualsTheCpuWhereCellsAreInterpolated) {
  compare(kEmulated ? Size{128 * 150, 64} : Size{64 * 150, 64 * 40}, 1, 0);
}

TEST_F(RelevanceCuda, EqualsTheCpuAtEveryLevel) {
  for (const Size size : {Size{32, 32}, Size{416, 288}, Size{1120, 736}})
    for (int level = 0; level < level_count(size); ++level)
      if (!kEmulated || size.width_px < 1000 || level == 3) compare(size, 1, level);
}

TEST_F(RelevanceCuda, EqualsTheCpuWhereSharedMemoryIsTooSmall) {
  compare({128, 128}, 2, 0, false);
  compare({2048, 32}, 1, 1, false);
}

// Nothing of an earlier batch is left in the workspace.
TEST_F(RelevanceCuda, MeasuresOneBatchAfterAnother) {
  const Size size{128, 96};
  RelevanceWorkspace workspace;
  RelevanceMemory memory;
  DetailMemory lost;
  ASSERT_TRUE(workspace.make(size, 4));
  ASSERT_TRUE(memory.make(size, 0, 2));
  const int levels = level_count(size);
  ASSERT_TRUE(lost.make(size, levels, 2));
  std::vector<Image> images = test_batch(size, 4);
  for (int turn = 0; turn < 2; ++turn) {
    std::swap(images[0], images[2]);
    std::swap(images[1], images[3]);
    TestPyramids batch(threads_, stream_, {images[0], images[1]});
    measure_relevance_cuda(stream(), batch.device, nullptr, {}, workspace, memory.maps(),
                           &lost.detail());
    for (int i = 0; i < 2; ++i) {
      const Pyramid& pyramid = batch.pyramids[static_cast<size_t>(i)];
      expect_equal(memory.maps(), i, measure_relevance(threads_, pyramid, nullptr));
      expect_detail(lost.detail(), i, measure_detail(threads_, pyramid));
    }
  }
}

TEST_F(RelevanceCuda, MeasuresDetailAlone) {
  const Size size{704, 416};
  TestPyramids batch(threads_, stream_, test_batch(size, 3));
  RelevanceWorkspace workspace;
  DetailMemory lost;
  ASSERT_TRUE(workspace.make(size, 3));
  ASSERT_TRUE(lost.make(size, batch.device.levels, 3));
  measure_detail_cuda(stream(), batch.device, workspace, lost.detail());
  for (int i = 0; i < 3; ++i)
    expect_detail(lost.detail(), i,
                  measure_detail(threads_, batch.pyramids[static_cast<size_t>(i)]));
}

// The workspace is larger than the batch.
TEST_F(RelevanceCuda, WeavesEveryFormWithEveryKindOfCoupling) {
  const Size size{288, 160};
  TestPyramids batch(threads_, stream_, test_batch(size, 2));
  RelevanceWorkspace workspace;
  ASSERT_TRUE(workspace.make(size, 5));
  std::mt19937 random(7);
  for (int level : {0, 1}) {
    RelevanceParams params;
    params.level = level;
    RelevanceMemory memory;
    ASSERT_TRUE(memory.make(size, level, 2));
    measure_picture_cuda(stream(), batch.device, params, workspace, memory.maps());
    for (const Grid grid : {grid_at(size, 0), grid_at(size, 1), grid_at(size, 2), Grid{24, 24},
                            Grid{3, 50}, Grid{7, 5}}) {
      std::vector<uint16_t> scores(static_cast<size_t>(2 * grid.cells()));
      for (uint16_t& score : scores)
        score = static_cast<uint16_t>(random() % 4 == 0 ? 0 : random());
      auto given = on_device(scores);
      const DeviceMaps asked{grid, 2, given.data()};
      for (const Balance form : {Balance::kMean, Balance::kProduct, Balance::kSum,
                                 Balance::kCoupling, Balance::kSalience, Balance::kInformation}) {
        params.balance = form;
        params.exploit_explore = static_cast<double>(random() % 5) / 4;
        params.focus_diversify = static_cast<double>(random() % 100) / 99;
        weave_coupling_cuda(stream(), size, &asked, params, memory.maps());
        for (int i = 0; i < 2; ++i) {
          Map map(grid);
          std::copy_n(scores.begin() + i * grid.cells(), grid.cells(), map.score.begin());
          expect_equal(
              memory.maps(), i,
              measure_relevance(threads_, batch.pyramids[static_cast<size_t>(i)], &map, params),
              form == Balance::kProduct ? 1 : 0);
        }
      }
    }
  }
}

TEST_F(RelevanceCuda, CouplesPoints) {
  const Size size{416, 288};
  const std::vector<Point> points = {{100, 100}, {10.5, 280}, {0, 0}, {416, 288}, {1, 1}, {2, 2}};
  const std::vector<int> counts = {2, 0, 1};
  const auto on_gpu = on_device(points);
  const auto counts_on_gpu = on_device(counts);
  const Grid grid = grid_at(size, 0);
  auto scores = poisoned<uint16_t>(static_cast<size_t>(3 * grid.cells()));
  const DeviceMaps coupling{grid, 3, scores.data()};
  couple_points_cuda(stream(), size, {3, 2, on_gpu.data(), counts_on_gpu.data()}, coupling);
  for (int i = 0; i < 3; ++i)
    expect_near(coupling, i,
                couple_points(
                    std::span(points).subspan(static_cast<size_t>(2 * i),
                                              static_cast<size_t>(counts[static_cast<size_t>(i)])),
                    size),
                1, "coupling");
}

}  // namespace
}  // namespace fovea
