// SPDX-License-Identifier: Apache-2.0
// fovea see as its user runs it.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/fovea.h"
#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using nlohmann::json;

const std::string kPictures = source_dir() + "/examples/pictures/";

json see_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "see");
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome run = run_fovea(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  return json::parse(run.out);
}

TEST(See, WritesPlanMapsAndPicture) {
  const auto folder = scratch();
  const Outcome run =
      run_fovea({"see", kPictures + "astronaut.png", "--budget", "96", "-o", folder / "seen.png",
                 "--json", folder / "plan.json", "--maps", folder / "maps"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json plan = json::parse(read_all(folder / "plan.json"));
  EXPECT_EQ(plan["image"], json({512, 512}));
  EXPECT_EQ(plan["canvas"], json({512, 512}));
  EXPECT_EQ(plan["plan"], "quadtree");
  EXPECT_EQ(plan["budget"], 96);
  EXPECT_EQ(plan["tokens"], 94);  // a split adds 3
  EXPECT_EQ(plan["tokens_full"], 256);
  EXPECT_EQ(plan["cells"].size(), 94);
  EXPECT_TRUE(plan["times_ms"].contains("pyramid"));
  for (const char* name : {"information", "salience", "coupling", "relevance"}) {
    const std::string png = read_all(folder / "maps" / (std::string(name) + ".png"));
    ASSERT_GT(png.size(), 33u) << name;
    EXPECT_EQ(png.substr(1, 3), "PNG");
    // IHDR: width and height big-endian, then bit depth and colour type.
    EXPECT_EQ(png.substr(16, 10), std::string("\0\0\0\x10\0\0\0\x10\x10\0", 10)) << name;
  }
  const auto seen = load_map(folder / "seen.png");
  ASSERT_TRUE(seen);
  EXPECT_GT(seen->grid.cols, 800);
}

TEST(See, JsonOnStdoutIsOneObjectAndNothingElse) {
  const Outcome run = run_fovea({"see", kPictures + "coffee.png", "--json", "-"});
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 1);
  EXPECT_TRUE(json::parse(run.out).is_object());
}

TEST(See, TheSamePlanForAnyNumberOfThreads) {
  for (const std::string plan : {"quadtree", "glance+look", "cortical"}) {
    const json one = see_json({kPictures + "chelsea.png", "--plan", plan, "--threads", "1"});
    for (const std::string threads : {"2", "5"}) {
      const json other =
          see_json({kPictures + "chelsea.png", "--plan", plan, "--threads", threads});
      EXPECT_EQ(one["cells"], other["cells"]) << plan << " with " << threads << " threads";
    }
  }
}

TEST(See, EveryPlanKeepsItsBudget) {
  for (const PlanKind& kind : plan_kinds()) {
    for (const int budget : {1, 7, 68, 96, 5000}) {
      const json plan = see_json(
          {kPictures + "coffee.png", "--plan", kind.name, "--budget", std::to_string(budget)});
      EXPECT_LE(plan["tokens"], budget) << kind.name;
      EXPECT_GE(plan["tokens"], 1) << kind.name;
      const std::set<json> distinct(plan["cells"].begin(), plan["cells"].end());
      EXPECT_EQ(distinct.size(), plan["cells"].size()) << kind.name;
    }
  }
}

TEST(See, UniformWithoutABudgetIsLevelZero) {
  const json plan = see_json({kPictures + "coffee.png", "--plan", "uniform"});
  EXPECT_EQ(plan["canvas"], json({608, 384}));  // 18.75 cells round to 19, 12.5 to the even 12
  EXPECT_EQ(plan["tokens"], plan["tokens_full"]);
}

TEST(See, ReadsStdin) {
  const Outcome run = run_fovea({"see", "-", "--json", "-"}, kPictures + "coffee.png");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["cells"], see_json({kPictures + "coffee.png"})["cells"]);
}

TEST(See, AFixationDrawsTheFineCells) {
  const json plan =
      see_json({kPictures + "astronaut.png", "--plan", "cortical", "--fixation", "20,490"});
  for (const json& cell : plan["cells"]) {
    if (cell[0] != 0) continue;
    EXPECT_GT(cell[1], 6) << cell;  // lower left: rows 7..15 and columns 0..8 of 16
    EXPECT_LT(cell[2], 9) << cell;
  }
}

TEST(See, AFixationSteersPlansThatFollowRelevance) {
  for (const std::string plan : {"glance+look", "quadtree"}) {
    const auto mean_row = [&](const std::string& fixation) {
      const json seen =
          see_json({kPictures + "astronaut.png", "--plan", plan, "--fixation", fixation});
      double sum = 0;
      double count = 0;
      for (const json& cell : seen["cells"])
        if (cell[0] == 0) sum += cell[1].get<double>(), ++count;
      return sum / count;
    };
    EXPECT_LT(mean_row("256,20") + 3, mean_row("256,490")) << plan;
  }
}

TEST(See, CouplingMovesThePlan) {
  const auto folder = scratch();
  Map left(Grid{1, 2});
  left.score = {65535, 0};
  Map right(Grid{1, 2});
  right.score = {0, 65535};
  ASSERT_TRUE(save_png(folder / "left.png", left));
  ASSERT_TRUE(save_png(folder / "right.png", right));
  const auto mean_column = [&](const std::string& map) {
    const json plan = see_json({kPictures + "coffee.png", "--coupling", folder / map});
    double sum = 0;
    double count = 0;
    for (const json& cell : plan["cells"])
      if (cell[0] == 0) sum += cell[2].get<double>(), ++count;
    return sum / count;
  };
  EXPECT_LT(mean_column("left.png") + 2, mean_column("right.png"));
}

TEST(See, TinyAndLongImagesAreSeen) {
  for (const Size size : {Size{1, 1}, Size{1, 200}, Size{200, 1}, Size{33, 31}, Size{3000, 15}}) {
    Image image(size);
    for (size_t i = 0; i < image.rgb.size(); ++i)
      image.rgb[i] = static_cast<uint8_t>(i * 37 + i / 7);
    for (const PlanKind& kind : plan_kinds()) {
      const auto sight = see(image, {.plan = kind.name, .budget_tokens = 40});
      ASSERT_TRUE(sight) << kind.name << " " << size.width_px << "x" << size.height_px << ": "
                         << sight.error().message;
      EXPECT_GE(sight->plan.tokens(), 1);
      EXPECT_GT(sight->picture.size.width_px, 100);
    }
  }
}

TEST(See, ImagesThatDoNotFitTheirSizeAreRefused) {
  Image image(Size{4, 4});
  image.rgb.pop_back();
  EXPECT_FALSE(see(image));
  EXPECT_FALSE(see(Image()));
  EXPECT_FALSE(see(Image(Size{1, 201})));
  EXPECT_FALSE(see(Image(Size{64, 64}), {.max_pixels = 64 * 63}));
  EXPECT_FALSE(see(Image(Size{64, 64}), {.plan = "spiral"}));
  EXPECT_FALSE(see(Image(Size{64, 64}), {.fixations = {{64, 0}}}));
  Map torn(Grid{2, 2});
  torn.score.pop_back();
  EXPECT_FALSE(see(Image(Size{64, 64}), {.coupling = torn}));
}

}  // namespace
}  // namespace fovea
