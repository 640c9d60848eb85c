// SPDX-License-Identifier: Apache-2.0
#include "gaze/plan_file.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

std::string refusal(const std::string& text) {
  const auto plan = parse_plan(text);
  return plan ? "taken" : plan.error().message;
}

TEST(PlanFile, CellsComeAsTheyStand) {
  const auto file =
      parse_plan(R"({"image":[1,2],"plan":"quadtree","canvas":[64,32],"cells":[[2,0,1],[0,3,4]]})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->canvas, (Size{64, 32}));
  const Plan* plan = &file->plan;
  EXPECT_EQ(plan->maker, "quadtree");
  ASSERT_EQ(plan->cells.size(), 2u);
  EXPECT_EQ(plan->cells[0], (Cell{2, 0, 1}));
  EXPECT_EQ(plan->cells[1], (Cell{0, 3, 4}));
}

TEST(PlanFile, WhatIsNoPlanIsRefused) {
  for (const char* text : {"7", "[]", "{}", "null", R"({"cells":7})", R"({"cells":{}})"})
    EXPECT_NE(refusal(text).find("no JSON object with cells"), std::string::npos) << text;
  EXPECT_EQ(refusal(R"({"cells":[]})"), "it has no cells");
  EXPECT_NE(refusal(R"({"cells":[[0,0,0]],"plan":7})").find("plan"), std::string::npos);
  for (const char* canvas : {"7", "[]", "[1]", "[1,2,3]", "[0,1]", "[1,-1]", "[1,1.5]", "[1,1e99]"})
    EXPECT_NE(
        refusal("{\"cells\":[[0,0,0]],\"canvas\":" + std::string(canvas) + "}").find("canvas"),
        std::string::npos)
        << canvas;
  for (const char* cell : {"7", "[]", "[1,2]", "[1,2,3,4]", "[0,0,1.5]", "[0,0,-2]", "[0,0,null]",
                           "[0,0,16777217]", "[0,0,18446744073709551615]", "{}"})
    EXPECT_NE(refusal("{\"cells\":[" + std::string(cell) + "]}").find("is not [level,row,col]"),
              std::string::npos)
        << cell;
  for (const char* text : {"", "{", "{\"cells\":[]} x", "\xff", R"({"cells":[[0,0,1e999]]})"})
    EXPECT_NE(refusal(text), "taken") << text;
  EXPECT_NE(refusal(R"({"cells":[],"cells":[[0,0,0]]})").find("twice"), std::string::npos);
  EXPECT_NE(refusal("{\"cells\":" + std::string(150'000, '[')).find("more than 64 levels"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
