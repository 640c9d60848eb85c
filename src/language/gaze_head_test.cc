// SPDX-License-Identifier: Apache-2.0
#include "language/gaze_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "ops/matmul.h"
#include "ops/norm.h"

namespace fovea {
namespace {

std::vector<float> random_values(size_t count, std::mt19937& random, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Case {
  GazeConfig config;
  Size canvas;
  int level;
  int queries;
};

TEST(GazeHead, SharesAreThoseOfTheReferenceForAnyShape) {
  std::mt19937 random(1);
  for (const Case& c : {Case{{2, 8, 4}, {1024, 1024}, 2, 30},
                        {{1, 3, 1}, {32, 32}, 0, 1},
                        {{1, 5, 4}, {288, 160}, 2, 7},   // places hang over two edges
                        {{1, 16, 4}, {288, 160}, 1, 2},  // places smaller than level-0 cells
                        {{1, 4, 2}, {352, 96}, 3, 5},
                        {{3, 64, 8}, {640, 480}, 3, 11}}) {
    const Grid glance = grid_at(c.canvas, c.level);
    const auto size = static_cast<size_t>(c.config.size);
    const auto keys =
        random_values(static_cast<size_t>(glance.cells()) * c.config.places() * size, random, 1.5f);
    const auto queries = random_values(static_cast<size_t>(c.queries) * size, random, 1.5f);
    const GazeShares expected = gaze_shares_reference(c.config, queries, keys, c.canvas, c.level);
    for (const int count : {1, 3}) {
      Threads threads(count);
      const GazeShares shares = gaze_shares(threads, c.config, queries, keys, c.canvas, c.level);
      ASSERT_EQ(shares.grid, expected.grid);
      ASSERT_EQ(shares.share.size(), static_cast<size_t>(shares.grid.cells()));
      double sum = 0;
      for (size_t i = 0; i < shares.share.size(); ++i) {
        // Dots of up to 64 values in f32, then an exponential.
        ASSERT_NEAR(shares.share[i] / expected.share[i], 1, 2e-5) << "place " << i;
        sum += shares.share[i];
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

TEST(GazeHead, PlacesOffTheCanvasTakeNothing) {
  // One level-2 cell over a canvas of 3 x 2 cells: of 4 x 4 places six are on it.
  const GazeConfig config{1, 1, 4};
  std::vector<float> keys(16, 0.0f);
  keys[3] = keys[12] = 1e4f;  // row 0, column 3; row 3, column 0
  keys[4] = 1;
  Threads threads(1);
  const GazeShares shares =
      gaze_shares(threads, config, std::vector<float>{1}, keys, Size{96, 64}, 2);
  ASSERT_EQ(shares.grid, (Grid{2, 3}));
  const double e = std::exp(1.0);
  for (size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(shares.share[i], i == 3 ? e / (5 + e) : 1 / (5 + e), 1e-6) << i;
}

TEST(GazeHead, AMapIsHalfWhereTheGazeIsEvenAndNearOneAtAPeak) {
  const Map even = *gaze_map({{2, 5}, std::vector<float>(10, 0.1f)});
  for (const uint16_t score : even.score) EXPECT_NEAR(score, 32768, 1);
  std::vector<float> peak(1000, 0.0f);
  peak[17] = 1;
  const Map map = *gaze_map({{10, 100}, peak});
  EXPECT_EQ(map.score[17], static_cast<uint16_t>(1000.0 / 1001 * 65535 + 0.5));
  EXPECT_EQ(map.score[18], 0);
}

TEST(GazeHead, ScoresThatOverflowAreAnError) {
  Threads threads(1);
  for (const float huge : {3e38f, -3e38f}) {
    const std::vector<float> queries = {huge, huge};
    const std::vector<float> keys = {huge, huge, -huge, huge, 1, 2, 3, 4};
    const auto map =
        gaze_map(gaze_shares(threads, GazeConfig{1, 2, 2}, queries, keys, Size{64, 64}, 1));
    ASSERT_FALSE(map);
    EXPECT_NE(map.error().message.find("overflow"), std::string::npos) << map.error().message;
  }
}

class HeadTest : public testing::Test {
 protected:
  HeadTest() {
    std::mt19937 random(3);
    config_.text.hidden_size = 24;
    config_.text.rms_norm_eps = 1e-5;
    config_.gaze = {2, 6, 2};
    tensors_["gaze.norm.weight"] = random_values(24, random);
    tensors_["gaze.query.weight"] = random_values(6 * 24, random);
    tensors_["gaze.key.weight"] = random_values(4 * 6 * 24, random);
  }
  TensorSource source() const {
    return {[](std::string_view) -> Result<Matrix> { return failed("no matrix"); },
            [this](std::string_view name) -> Result<Buffer<float>> {
              const auto found = tensors_.find(std::string(name));
              if (found == tensors_.end()) return failed("no tensor " + std::string(name));
              Buffer<float> values(found->second.size());
              std::copy(found->second.begin(), found->second.end(), values.begin());
              return values;
            }};
  }

  ModelConfig config_;
  std::map<std::string, std::vector<float>> tensors_;
};

TEST_F(HeadTest, QueriesAndKeysAreProductsWithTheNormedState) {
  const auto head = GazeHead::build(config_, source());
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->bytes(), (24u + 6 * 24 + 24 * 24) * sizeof(float));
  std::mt19937 random(4);
  const auto hidden = random_values(5 * 24, random, 3);
  Threads threads(2);
  const auto expect = [&](const Buffer<float>& values, const std::string& name, int64_t rows) {
    std::vector<float> normed(hidden.size());
    rms_norm_reference(hidden.data(), 24, 5, 1, 24, tensors_["gaze.norm.weight"].data(), 1e-5f,
                       normed.data(), 24);
    const Matrix weights =
        Matrix::in_place(rows, 24, {WeightSource::Type::kF32, tensors_[name].data()});
    std::vector<float> y(static_cast<size_t>(5 * rows));
    const Product product{.weights = &weights, .y = y.data()};
    matmul_reference(normed.data(), 0, 5, {&product, 1});
    ASSERT_EQ(values.size(), y.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(values[i], y[i], 1e-4) << name << " " << i;
  };
  expect(head->queries(threads, hidden.data(), 5), "gaze.query.weight", 6);
  expect(head->keys(threads, hidden.data(), 5), "gaze.key.weight", 24);
  EXPECT_TRUE(head->queries(threads, nullptr, 0).empty());
}

TEST_F(HeadTest, AnErrorOfTheSourceIsHandedOn) {
  for (const std::string missing : {"gaze.norm.weight", "gaze.query.weight", "gaze.key.weight"}) {
    auto kept = tensors_.extract(missing);
    const auto head = GazeHead::build(config_, source());
    ASSERT_FALSE(head);
    EXPECT_EQ(head.error().message, "no tensor " + missing);
    tensors_.insert(std::move(kept));
  }
}

}  // namespace
}  // namespace fovea
