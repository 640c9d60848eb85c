// SPDX-License-Identifier: Apache-2.0
// `fovea bench requests`: rows are there and verified. Its times mean nothing here.
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/fovea.h"
#include "places.h"
#include "program.h"

namespace fovea {
namespace {

TEST(RequestsBench, KeepingHasItsCostStepsAndBytesForEachPolicy) {
  const Outcome run = run_fovea({"bench", "requests", "--only", "keep", "--json", "-m",
                                 source_dir() + "/tests/fixtures/ask/"});
  EXPECT_EQ(run.status, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  std::set<std::string> names;
  for (const auto& row : json["rows"]) {
    EXPECT_TRUE(row["verified"]) << row["name"];
    names.insert(row["name"]);
  }
  for (const ForgetChoice& choice : forget_choices())
    for (const std::string row : {"prefill", "decode", "bytes"})
      EXPECT_TRUE(names.contains("keep/" + choice.name + "/" + row)) << choice.name << " " << row;
  EXPECT_FALSE(names.contains("decode/1")) << "--only";
}

TEST(RequestsBench, APolicyIsMeasuredAlone) {
  const Outcome run = run_fovea({"bench", "requests", "--only", "keep/window", "--json", "-m",
                                 source_dir() + "/tests/fixtures/ask/"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("keep/window/prefill"), std::string::npos);
  EXPECT_EQ(run.out.find("keep/random"), std::string::npos);
  expect_refused(
      {"bench", "requests", "--only", "keep/gravity", "-m", source_dir() + "/tests/fixtures/ask/"},
      "gravity");
}

}  // namespace
}  // namespace fovea
