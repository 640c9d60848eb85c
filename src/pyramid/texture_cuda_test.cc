// SPDX-License-Identifier: Apache-2.0
#include "pyramid/texture_cuda.h"

#include <algorithm>
#include <cmath>

#include "device/cuda/test_device.h"
#include "pyramid/pyramid_cuda.h"
#include "pyramid/test_device_pyramids.h"

namespace fovea {
namespace {

#if defined(FOVEA_EMULATE)

TEST(TextureCuda, NeedsADevice) { GTEST_SKIP() << "textures are not emulated"; }

#else

constexpr Size kSizes[] = {{32, 32}, {96, 64}, {224, 160}, {1056, 96}, {32, 352}};

double pixel_of(const LevelView& level, int x, int y, int channel) {
  const int row = std::clamp(y, 0, level.size.height_px - 1);
  const int col = std::clamp(x, 0, level.size.width_px - 1);
  return level.row(row)[3 * col + channel];
}

// Between the four pixels around a place of one level, whose pixel i has its centre at i + 0.5.
double sample_level(const Pyramid& pyramid, int index, const SamplePoint& point, int channel) {
  const LevelView level = pyramid.level(index);
  const double x = static_cast<double>(point.x_px) / (1 << index) - 0.5;
  const double y = static_cast<double>(point.y_px) / (1 << index) - 0.5;
  const auto left = static_cast<int>(std::floor(x));
  const auto top = static_cast<int>(std::floor(y));
  const double right_share = x - left;
  const double lower_share = y - top;
  const auto row = [&](int at) {
    return (1 - right_share) * pixel_of(level, left, at, channel) +
           right_share * pixel_of(level, left + 1, at, channel);
  };
  return (1 - lower_share) * row(top) + lower_share * row(top + 1);
}

double sample_reference(const Pyramid& pyramid, const SamplePoint& point, int channel) {
  const auto fine = static_cast<int>(point.level);
  const int coarse = std::min(fine + 1, pyramid.levels() - 1);
  const double share = static_cast<double>(point.level) - fine;
  return (1 - share) * sample_level(pyramid, fine, point, channel) +
         share * sample_level(pyramid, coarse, point, channel);
}

class TextureCuda : public CudaTest {
 protected:
  void make(Size canvas, int images) {
    hosts_.clear();
    ASSERT_TRUE(pyramids_.make(canvas, images));
    for (int i = 0; i < images; ++i) {
      Image image = random_canvas(canvas, static_cast<uint32_t>(i + 1));
      upload_canvas_cuda(stream(), pyramids_.view(), i, image.rgb.data());
      ASSERT_TRUE(stream_.wait());
      hosts_.push_back(build_pyramid(threads_, std::move(image)));
    }
    build_pyramids_cuda(stream(), pyramids_.view(), pyramids_.done());
    const Status made = texture_.make(canvas, images);
    ASSERT_TRUE(made) << made.error().message;
  }

  std::vector<float> sampled(const std::vector<SamplePoint>& points) {
    const auto where = on_device(points);
    auto rgb = poisoned<float>(3 * points.size());
    texture_.sample(stream(), where.data(), static_cast<int>(points.size()), rgb.data());
    return on_host(rgb);
  }
  // The pixels of a level, since between none there is nothing to filter.
  std::vector<float> pixels_of(int image, int level) {
    const Size size = hosts_[static_cast<size_t>(image)].level(level).size;
    std::vector<SamplePoint> centres;
    for (int y = 0; y < size.height_px; ++y)
      for (int x = 0; x < size.width_px; ++x)
        centres.push_back({image, (static_cast<float>(x) + 0.5f) * static_cast<float>(1 << level),
                           (static_cast<float>(y) + 0.5f) * static_cast<float>(1 << level),
                           static_cast<float>(level)});
    return sampled(centres);
  }

  Threads threads_{2};
  PyramidsOnDevice pyramids_;
  PyramidTexture texture_;
  std::vector<Pyramid> hosts_;
};

TEST_F(TextureCuda, FractionalLevelsAreFilteredAsTheReferenceFilters) {
  // Three weights of 8 bits, each off by a 256th of what two pixels may differ by, 255.
  constexpr double kTolerance = 3.0;
  std::mt19937 random(9);
  std::uniform_real_distribution<float> draw(0, 1);
  for (const Size size : kSizes) {
    make(size, 3);
    texture_.fill(stream(), pyramids_.view(), texture_.levels());
    std::vector<SamplePoint> points;
    for (int i = 0; i < 4000; ++i)
      points.push_back({i % 3, draw(random) * static_cast<float>(size.width_px),
                        draw(random) * static_cast<float>(size.height_px),
                        draw(random) * static_cast<float>(texture_.levels() - 1)});
    const auto rgb = sampled(points);
    for (size_t i = 0; i < points.size(); ++i)
      for (int c = 0; c < 3; ++c)
        ASSERT_NEAR(rgb[3 * i + static_cast<size_t>(c)],
                    sample_reference(hosts_[static_cast<size_t>(points[i].image)], points[i], c),
                    kTolerance)
            << size.width_px << "x" << size.height_px << ", point " << i << ": " << points[i].x_px
            << ", " << points[i].y_px << " of level " << points[i].level;
  }
}

TEST_F(TextureCuda, FilledLevelsAreThePyramids) {
  constexpr double kTolerance = 1.0;  // a weight of 8 bits at the centre of a pixel
  for (const Size size : kSizes) {
    make(size, 2);
    texture_.fill(stream(), pyramids_.view(), texture_.levels());
    for (int level = 0; level < texture_.levels(); ++level) {
      const auto rgb = pixels_of(1, level);
      const LevelView expected = hosts_[1].level(level);
      const auto row_values = static_cast<size_t>(3 * expected.size.width_px);
      for (size_t i = 0; i < rgb.size(); ++i)
        ASSERT_NEAR(rgb[i], expected.row(static_cast<int>(i / row_values))[i % row_values],
                    kTolerance)
            << "level " << level << ", value " << i;
    }
  }
}

TEST_F(TextureCuda, BuiltLevelsHalveTheOnesBefore) {
  constexpr double kTolerance = 2.0;  // the rounding of a mean, and the weights it is read with
  for (const Size size : kSizes) {
    make(size, 2);
    texture_.fill(stream(), pyramids_.view(), 1);
    texture_.build(stream());
    for (int level = 1; level < texture_.levels(); ++level) {
      const auto fine = pixels_of(1, level - 1);
      const auto coarse = pixels_of(1, level);
      const Size from = hosts_[1].level(level - 1).size;
      const Size to = hosts_[1].level(level).size;
      const auto at = [&](int x, int y, int c) {
        return fine[static_cast<size_t>(
            3 * (std::min(y, from.height_px - 1) * from.width_px + std::min(x, from.width_px - 1)) +
            c)];
      };
      for (int y = 0; y < to.height_px; ++y)
        for (int x = 0; x < to.width_px; ++x)
          for (int c = 0; c < 3; ++c)
            ASSERT_NEAR(coarse[static_cast<size_t>(3 * (y * to.width_px + x) + c)],
                        (at(2 * x, 2 * y, c) + at(2 * x + 1, 2 * y, c) + at(2 * x, 2 * y + 1, c) +
                         at(2 * x + 1, 2 * y + 1, c)) /
                            4,
                        kTolerance)
                << size.width_px << "x" << size.height_px << ", level " << level << ": " << x
                << ", " << y;
    }
  }
}

#endif

}  // namespace
}  // namespace fovea
