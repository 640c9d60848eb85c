// SPDX-License-Identifier: Apache-2.0
#include "relevance/relevance.h"

#include <gtest/gtest.h>

#include <limits>

#include "relevance/information.h"
#include "relevance/salience.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

TEST(Relevance, HoldsEveryPartAtTheGridOfTheLevelAskedFor) {
  Threads threads(2);
  const Pyramid pyramid = build_pyramid(threads, scene_image({800, 608}, 1));
  const Map coupling(grid_at(pyramid.canvas(), 2), 30000);
  for (int level = 0; level < pyramid.levels(); ++level) {
    RelevanceParams params;
    params.level = level;
    const Relevance parts = measure_relevance(threads, pyramid, &coupling, params);
    const Grid grid = grid_at({800, 608}, level);
    for (const Map* map :
         {&parts.information, &parts.salience, &parts.coupling, &parts.compress_particularize,
          &parts.exploit_explore, &parts.focus_diversify, &parts.relevance}) {
      EXPECT_EQ(map->grid, grid);
      EXPECT_EQ(map->score.size(), static_cast<size_t>(grid.cells()));
    }
    EXPECT_EQ(parts.information.score, measure_information_reference(pyramid.level(level)).score);
    EXPECT_EQ(parts.salience.score, measure_salience(threads, pyramid, {level, true}).score);
    EXPECT_EQ(parts.coupling.score, std::vector<uint16_t>(parts.coupling.score.size(), 30000));
  }
}

TEST(Relevance, WithoutAQuestionCouplingIsEmpty) {
  Threads threads(1);
  const Pyramid pyramid = build_pyramid(threads, scene_image({256, 256}, 2));
  const Relevance parts = measure_relevance(threads, pyramid, nullptr);
  EXPECT_TRUE(parts.coupling.empty());
  EXPECT_FALSE(parts.relevance.empty());
  EXPECT_EQ(parts.focus_diversify.score, parts.salience.score);
}

TEST(Relevance, IsHighestWhereTheQuestionPointsAndSomethingIsThere) {
  Threads threads(2);
  Image image = flat_image({640, 640}, 60, 120, 60);
  fill_rectangle(image, 100, 100, 50, 50, 200, 30, 30);
  fill_rectangle(image, 480, 480, 50, 50, 200, 30, 30);
  const Pyramid pyramid = build_pyramid(threads, image);
  Map coupling(grid_at(pyramid.canvas(), 0));
  coupling.at(15, 15) = coupling.at(0, 19) = 65535;  // one square, one empty corner
  const Relevance parts = measure_relevance(threads, pyramid, &coupling);
  EXPECT_GT(parts.relevance.at(15, 15), parts.relevance.at(3, 3));
  EXPECT_GT(parts.relevance.at(15, 15), parts.relevance.at(0, 19));
}

TEST(Relevance, OfAFlatImageIsZeroWhateverIsAsked) {
  Threads threads(2);
  const Pyramid pyramid = build_pyramid(threads, flat_image({256, 320}, 9, 99, 199));
  const Map coupling(Grid{3, 3}, 65535);
  for (const Map* asked : {static_cast<const Map*>(nullptr), &coupling}) {
    const Relevance parts = measure_relevance(threads, pyramid, asked);
    EXPECT_EQ(parts.relevance.score, std::vector<uint16_t>(80, 0));
  }
}

TEST(Relevance, IsTheSameForAnyNumberOfThreads) {
  Threads one(1);
  const Pyramid pyramid = build_pyramid(one, scene_image({1500, 900}, 4));
  const Relevance expected = measure_relevance(one, pyramid, nullptr);
  for (const int count : {2, 3, 8}) {
    Threads threads(count);
    const Relevance parts = measure_relevance(threads, pyramid, nullptr);
    EXPECT_EQ(parts.information.score, expected.information.score) << count;
    EXPECT_EQ(parts.relevance.score, expected.relevance.score) << count;
  }
}

TEST(Relevance, NamesAWrongWeightOrLevel) {
  RelevanceParams params;
  EXPECT_TRUE(check_relevance(params, 1));
  params.level = 3;
  const Status level = check_relevance(params, 3);
  ASSERT_FALSE(level);
  EXPECT_EQ(level.error().message, "relevance: level 3; this canvas has levels 0 to 2");
  params.level = 0;
  for (const double weight : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    params.exploit_explore = weight;
    const Status status = check_relevance(params, 3);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, Error::Kind::kBadInput);
    EXPECT_NE(status.error().message.find("give one from 0 to 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace fovea
