// SPDX-License-Identifier: Apache-2.0
// Where looks go, what they cost, and what is said about them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "engine/read.h"
#include "engine/test_ask.h"

namespace fovea {
namespace {

using test::ask_path;
using test::expect_same_answer;
using test::gaze_path;
using test::load_engine;

// Soft noise of 16 x 12 cells.
Image picture(uint32_t seed = 1) {
  Image image(Size{512, 384});
  std::mt19937 random(seed);
  std::array<uint8_t, 16 * 12 * 4 * 3> coarse{};
  for (uint8_t& value : coarse) value = static_cast<uint8_t>(random());
  for (int y = 0; y < 384; ++y)
    for (int x = 0; x < 512; ++x)
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] = static_cast<uint8_t>(
            coarse[static_cast<size_t>((y / 16 * 32 + x / 16) * 3 + c) % coarse.size()] / 2 +
            (x * 3 + y) % 100);
  return image;
}

constexpr int kBudget = 40;  // a glance of 4 x 3 level-2 cells, 28 tokens to look with
constexpr int kGlance = 12;

AskOptions short_answer() {
  AskOptions options;
  options.budget_tokens = kBudget;
  options.max_tokens = 4;
  options.ignore_end = true;
  return options;
}

Answer ask_fresh(const Engine& engine, const AskOptions& options,
                 const std::string& question = "What is this?", int images = 1) {
  Session session = engine.session();
  for (int i = 0; i < images; ++i) EXPECT_TRUE(session.add(picture(static_cast<uint32_t>(i + 1))));
  auto answer = session.ask(question, options);
  EXPECT_TRUE(answer) << answer.error().message;
  return std::move(*answer);
}

Map map_with(std::initializer_list<std::pair<int, int>> high, uint16_t low = 100) {
  Map map(Grid{12, 16}, low);
  uint16_t score = 65535;
  for (const auto& [row, col] : high) map.at(row, col) = score--;
  return map;
}

bool holds(const std::vector<Cell>& cells, const Cell& cell) {
  return std::find(cells.begin(), cells.end(), cell) != cells.end();
}

class LookTest : public testing::Test {
 protected:
  Engine engine_ = load_engine({}, gaze_path());
  Engine stock_ = load_engine();
};

TEST_F(LookTest, TheBestCellsOfAGivenMapAreInTheLook) {
  AskOptions options = short_answer();
  options.look = "mixed";
  // Far apart, so that a bonus for neighbours would prefer others.
  options.coupling = {
      map_with({{0, 0}, {11, 15}, {5, 7}, {0, 15}, {11, 0}, {2, 2}, {9, 4}}, 60000)};
  options.balance = "coupling";
  for (const Engine* engine : {&engine_, &stock_}) {
    const Answer answer = ask_fresh(*engine, options);
    const Look& look = answer.trace.looks[0];
    ASSERT_EQ(look.saccades.size(), 1u);
    EXPECT_EQ(look.plan.tokens(), kBudget);
    for (const auto& [row, col] : std::vector<std::pair<int, int>>{
             {0, 0}, {11, 15}, {5, 7}, {0, 15}, {11, 0}, {2, 2}, {9, 4}})
      EXPECT_TRUE(holds(look.plan.cells, {0, row, col})) << row << "," << col;
    EXPECT_EQ(look.coupling.score, options.coupling[0].score);
    EXPECT_EQ(look.relevance.score, options.coupling[0].score);
  }
}

TEST_F(LookTest, TheModelPointsByDefaultAndTheMapSaysWhere) {
  const Answer answer = ask_fresh(engine_, short_answer());
  const Look& look = answer.trace.looks[0];
  EXPECT_EQ(look.look, "mixed");
  EXPECT_EQ(look.glance_tokens, kGlance);
  ASSERT_EQ(look.saccades.size(), 1u);
  const Saccade& saccade = look.saccades[0];
  EXPECT_EQ(saccade.coupling.score, look.coupling.score);
  EXPECT_EQ(saccade.relevance.score, saccade.coupling.score) << "a gaze head alone decides";
  // Every cell of the look scores at least what the best cell outside of it does.
  int least = 65536;
  for (int i = saccade.begin; i < saccade.end; ++i) {
    const Cell& cell = look.plan.cells[static_cast<size_t>(i)];
    least = std::min<int>(least, saccade.relevance.at(cell.row, cell.col));
  }
  for (int row = 0; row < 12; ++row)
    for (int col = 0; col < 16; ++col)
      if (!holds(look.plan.cells, {0, row, col})) {
        EXPECT_LE(saccade.relevance.at(row, col), least);
      }
  const Answer other = ask_fresh(engine_, short_answer(), "Who is on the left?");
  EXPECT_NE(other.trace.looks[0].coupling.score, look.coupling.score) << "the question decides";
}

TEST_F(LookTest, FurtherLooksShareTheBudgetAndNeverReturn) {
  for (const std::string look_kind : {"mixed", "crops"}) {
    for (const int looks : {2, 3, 5}) {
      AskOptions options = short_answer();
      options.look = look_kind;
      options.looks = looks;
      options.sure = 1;  // never
      const Answer answer = ask_fresh(engine_, options);
      const Look& look = answer.trace.looks[0];
      ASSERT_EQ(look.saccades.size(), static_cast<size_t>(looks)) << look_kind;
      EXPECT_LE(look.plan.tokens(), kBudget);
      const std::set<std::tuple<int, int, int>> distinct = [&] {
        std::set<std::tuple<int, int, int>> cells;
        for (const Cell& cell : look.plan.cells) cells.insert({cell.level, cell.row, cell.col});
        return cells;
      }();
      EXPECT_EQ(distinct.size(), look.plan.cells.size()) << "no cell twice";
      int at = kGlance;
      for (const Saccade& saccade : look.saccades) {
        EXPECT_EQ(saccade.begin, at);
        at = saccade.end;
        EXPECT_GT(saccade.confidence, 0);
        EXPECT_FALSE(saccade.fixations.empty());
        if (look_kind == "mixed") {
          const bool last = &saccade == &look.saccades.back();
          EXPECT_EQ(saccade.end - saccade.begin, last ? 28 - 28 / looks * (looks - 1) : 28 / looks);
          EXPECT_TRUE(std::is_sorted(look.plan.cells.begin() + saccade.begin,
                                     look.plan.cells.begin() + saccade.end));
        }
      }
      EXPECT_EQ(at, look.plan.tokens());
      EXPECT_EQ(answer.trace.usage.image_tokens, look.plan.tokens());
      EXPECT_NE(look.saccades[0].coupling.score, look.saccades[1].coupling.score)
          << "the second look knows the first";
      EXPECT_EQ(look.saccades.back().confidence, answer.trace.confidence);
    }
  }
}

TEST_F(LookTest, ASureModelLooksOnce) {
  AskOptions options = short_answer();
  options.looks = 4;
  options.sure = 0;
  const Answer answer = ask_fresh(engine_, options);
  EXPECT_EQ(answer.trace.looks[0].saccades.size(), 1u);
  EXPECT_EQ(answer.trace.looks[0].plan.tokens(), kGlance + 28 / 4) << "the rest is not spent";
}

// With one look of all tokens and with two, the same cells in one order or another are read.
TEST_F(LookTest, TheSecondLookAttendsToTheFirst) {
  AskOptions options = short_answer();
  options.looks = 2;
  options.sure = 1;
  options.coupling = {map_with({{1, 1}, {1, 2}, {7, 9}})};
  const Answer answer = ask_fresh(engine_, options);
  const Look& look = answer.trace.looks[0];
  ASSERT_EQ(look.saccades.size(), 2u);
  EXPECT_EQ(look.saccades[0].end - look.saccades[0].begin, 14);
  // The same cells, given as a glance and one look, are another encoding.
  AskOptions given = short_answer();
  given.plans = {look.plan};
  const Answer once = ask_fresh(engine_, given);
  EXPECT_EQ(once.trace.looks[0].plan.tokens(), look.plan.tokens());
  EXPECT_NE(once.tokens[0].logprob, answer.tokens[0].logprob);
}

TEST_F(LookTest, CropsEqualTheSamePicturesGivenAsImages) {
  AskOptions options = short_answer();
  options.budget_tokens = 60;  // level 2 again, with more to look with
  const Image whole = picture();
  const Answer answer = ask_fresh(stock_, options);
  const Look& look = answer.trace.looks[0];
  EXPECT_EQ(look.look, "crops");
  ASSERT_EQ(look.saccades.size(), 1u);
  const std::vector<Area>& crops = look.saccades[0].crops;
  ASSERT_FALSE(crops.empty());

  Session session = stock_.session();
  ASSERT_TRUE(session.add(whole));
  AskOptions given = options;
  given.plans.resize(1 + crops.size());
  given.plans[0] = Plan{
      "glance+look", 60, {look.plan.cells.begin(), look.plan.cells.begin() + look.glance_tokens}};
  for (size_t i = 0; i < crops.size(); ++i) {
    Image crop(crops[i].size);
    for (int y = 0; y < crop.size.height_px; ++y)
      std::copy_n(whole.row(crops[i].y_px + y) + 3 * crops[i].x_px, 3 * crop.size.width_px,
                  crop.row(y));
    const Grid grid = grid_at(crop.size, 0);
    for (int row = 0; row < grid.rows; ++row)
      for (int col = 0; col < grid.cols; ++col) given.plans[i + 1].cells.push_back({0, row, col});
    ASSERT_TRUE(session.add(std::move(crop)));
  }
  const auto same = session.ask("What is this?", given);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->trace.prompt, answer.trace.prompt);
  EXPECT_EQ(same->trace.usage.image_tokens, answer.trace.usage.image_tokens);
  // The prompt was read in one piece here: sums in another order.
  expect_same_answer(answer, *same, 2e-5);
}

TEST_F(LookTest, OffIsTheGlanceAlone) {
  AskOptions options = short_answer();
  options.look = "off";
  options.looks = 3;
  const Answer answer = ask_fresh(engine_, options);
  const Look& look = answer.trace.looks[0];
  EXPECT_EQ(look.look, "off");
  EXPECT_EQ(look.plan.tokens(), kGlance);
  EXPECT_TRUE(look.saccades.empty());
  EXPECT_GT(answer.trace.confidence, 0);
}

TEST_F(LookTest, FixationsAndMapsTakeThePlaceOfTheModel) {
  AskOptions options = short_answer();
  options.fixations = {{{16, 16}}};
  const Answer left = ask_fresh(engine_, options);
  EXPECT_TRUE(holds(left.trace.looks[0].plan.cells, {0, 0, 0}));
  EXPECT_EQ(left.trace.looks[0].fixations, (std::vector<Point>{{16, 16}}));
  EXPECT_TRUE(std::none_of(left.trace.times.begin(), left.trace.times.end(),
                           [](const StageTime& time) { return time.stage == "read"; }))
      << "the question need not be read before";
  options.fixations.clear();
  for (const std::string balance : {"salience", "information", "coupling"}) {
    options.balance = balance;
    const Look look = ask_fresh(engine_, options).trace.looks[0];
    const Map& map = balance == "salience"      ? look.salience
                     : balance == "information" ? look.information
                                                : look.coupling;
    EXPECT_EQ(look.relevance.score, map.score) << balance;
  }
}

TEST_F(LookTest, AStockModelsAttentionIsTheCoupling) {
  AskOptions options = short_answer();
  const Look look = ask_fresh(stock_, options).trace.looks[0];
  const Map& coupling = look.saccades.at(0).coupling;
  EXPECT_EQ(*std::max_element(coupling.score.begin(), coupling.score.end()), 65535);
  std::set<uint16_t> values(coupling.score.begin(), coupling.score.end());
  EXPECT_EQ(values.size(), static_cast<size_t>(kGlance)) << "one for each glance token";
  EXPECT_NE(look.relevance.score, coupling.score) << "balanced with what the picture says";
}

TEST_F(LookTest, EachOfSeveralImagesHasItsOwnLook) {
  for (const Engine* engine : {&engine_, &stock_}) {
    const Answer answer = ask_fresh(*engine, short_answer(), "Which?", 2);
    ASSERT_EQ(answer.trace.looks.size(), 2u);
    const Look& first = answer.trace.looks[0];
    const Look& second = answer.trace.looks[1];
    EXPECT_LE(first.plan.tokens(), kBudget);
    EXPECT_LE(second.plan.tokens(), kBudget);
    EXPECT_NE(first.coupling.score, second.coupling.score);
    EXPECT_EQ(answer.trace.usage.image_tokens, first.plan.tokens() + second.plan.tokens());
  }
}

TEST_F(LookTest, TheExtraTensorsDoNotTouchTheUniformPlan) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("fovea_stock_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::copy(gaze_path(), folder);
  fs::remove(folder / "fovea.safetensors");
  auto config = nlohmann::json::parse(std::ifstream(gaze_path("config.json")));
  config.erase("fovea");
  std::ofstream(folder / "config.json") << config;
  const Engine without = load_engine({}, folder.string());
  AskOptions options = short_answer();
  options.plan = "uniform";
  options.budget_tokens = -1;
  expect_same_answer(ask_fresh(engine_, options), ask_fresh(without, options), 0.0);
  options = short_answer();
  options.look = "off";
  EXPECT_NE(ask_fresh(engine_, options).tokens[0].logprob,
            ask_fresh(without, options).tokens[0].logprob)
      << "a coarse level has its embedding";
  EXPECT_GT(engine_.info().parameters, without.info().parameters);
  fs::remove_all(folder);
}

TEST(Confidence, IsTheProbabilityOfTheMostLikely) {
  const std::vector<float> logits = {0, std::log(3.0f), -1000, std::log(4.0f)};
  EXPECT_NEAR(confidence_of(logits), 0.5, 1e-6);
  EXPECT_EQ(confidence_of(std::vector<float>{7}), 1);
  EXPECT_NEAR(confidence_of(std::vector<float>{1e30f, 1e30f}), 0.5, 1e-12);
}

}  // namespace
}  // namespace fovea
