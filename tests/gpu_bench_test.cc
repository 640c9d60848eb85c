// SPDX-License-Identifier: Apache-2.0
// `fovea bench gpu`, emulated: every row is there and verified. Its times mean nothing.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

const std::string kModel = source_dir() + "/models/tiny";

class GpuBenchProgram : public testing::Test {
 protected:
  void SetUp() override { setenv("FOVEA_CUDA_LIBRARY", emulated_library().c_str(), 1); }
  void TearDown() override { unsetenv("FOVEA_CUDA_LIBRARY"); }

  static std::set<std::string> rows(const std::vector<std::string>& arguments) {
    const Outcome run = run_fovea(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    const auto json = nlohmann::json::parse(run.out, nullptr, false);
    if (json.is_discarded()) {
      ADD_FAILURE() << "no JSON: " << run.out;
      return {};
    }
    EXPECT_NE(std::string(json["machine"]["gpu"]).find("emulated"), std::string::npos);
    std::set<std::string> names;
    for (const auto& row : json["rows"]) {
      EXPECT_TRUE(row["verified"]) << row["name"];
      EXPECT_GT(double{row["value"]}, 0) << row["name"];
      EXPECT_TRUE(names.insert(row["name"]).second) << row["name"] << " twice";
    }
    return names;
  }
};

// Textures and warpgroups are not emulated. bench/test_seed_table.py reads these lists.
const std::set<std::string> kKernelRows = {
    "ceiling/copy",
    "ceiling/read",
    "ceiling/h2d",
    "ceiling/gemm",
    "pyramid/4096x4096x5",
    "pyramid/32x1024x1024",
    "pyramid/update/1of20",
    "patches/grouped",
    "patches/mixed",
    "patches/prefetch",
    "patches/uniform/1x1024x1024",
    "patches/uniform/32x1024x1024",
    "patches/warm",
    "relevance/32x1024x1024",
    "plan/quadtree68/32x1024x1024",
    "plan/uniform",
    "plan/cortical",
    "plan/thresholds",
    "plan/proportional",
    "plan/quadtree",
    "plan/top-k",
    "plan/glance+look",
    "front-end/32x1024x1024",
    "front-end/upload/32x1024x1024",
    "attention/tower1024",
    "attention/tower512",
    "attention/tower4096",
    "attention/tower272",
    "attention/prefill1056",
    "attention/prefill100",
    "attention/decode1100",
    "attention/step1100/two-kernels",
    "attention/step1100/8x64",
    "attention/kinds4096/local3",
    "attention/kinds4096/local5",
    "attention/kinds4096/dilated",
    "attention/kinds4096/strided",
    "attention/kinds4096/top-blocks",
    "attention/kinds4096/hierarchical",
    "attention/kinds4096/linformer",
    "gemm-steps/plain",
    "gemm-steps/registers",
    "gemm-steps/padded",
    "gemm-steps/wide-loads",
    "gemm-steps/double-buffer",
    "gemm-steps/shaped",
};
const std::set<std::string> kModelRows = {
    "tower/4096",
    "tower/272",
    "prefill/1056",
    "prefill/100",
    "decode/1",
    "first-token/full",
    "first-token/68",
    "in-flight/32",
    "in-flight/32/first-token",
    "in-flight/32/decode",
    "in-flight/32/full",
    "in-flight/32/full/first-token",
    "in-flight/32/full/decode",
};

void expect_rows(const std::set<std::string>& found, const std::set<std::string>& wanted) {
  for (const std::string& name : wanted) EXPECT_TRUE(found.count(name) == 1) << name;
}

TEST_F(GpuBenchProgram, EveryRowIsVerified) {
  const std::set<std::string> found = rows({"bench", "gpu", "--json", "--model", kModel});
  expect_rows(found, kKernelRows);
  expect_rows(found, kModelRows);
  const auto products = std::count_if(found.begin(), found.end(), [](const std::string& name) {
    return name.starts_with("matmul/");
  });
  EXPECT_EQ(products, 5 + 2 * 5 + 2 * 4);
}

TEST_F(GpuBenchProgram, RowsOfOneKindAreMeasuredAlone) {
  const std::set<std::string> wanted = {"ceiling/copy", "ceiling/read", "ceiling/h2d",
                                        "ceiling/gemm", "relevance/32x1024x1024"};
  EXPECT_EQ(rows({"bench", "gpu", "--json", "--only", "relevance"}), wanted);
  EXPECT_EQ(rows({"bench", "gpu", "--json", "--only", "relevance/32x1024x1024"}), wanted);
  EXPECT_EQ(rows({"bench", "gpu", "--json", "--only", "attention/kinds4096/hierarchical"})
                .count("attention/kinds4096/hierarchical"),
            1u);
  expect_refused({"bench", "gpu", "--only", "relevance/gravity"}, "gravity");
  expect_refused({"bench", "gpu", "--only", "gravity"}, "gravity");
  expect_refused({"bench", "front-end", "--only", "relevance"}, "--only");
}

TEST_F(GpuBenchProgram, WrongUseIsRefused) {
  expect_refused({"bench", "gpu", "--device", "cpu"}, "--device cuda");
  expect_refused({"bench", "gpu", "--device", "cuda:99"}, "cuda:99");
  expect_refused({"bench", "gpu", "--kernels", "fast"}, "--kernels");
  expect_refused({"bench", "front-end", "--device", "cuda"}, "--device");
}

TEST_F(GpuBenchProgram, AModelThatIsNotThereDoesNotTakeTheOtherRowsAway) {
  const Outcome run = run_fovea({"bench", "gpu", "--json", "--model", "/nonexistent"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("/nonexistent"), std::string::npos) << run.err;
  EXPECT_NE(run.out.find("ceiling/copy"), std::string::npos);
}

}  // namespace
}  // namespace fovea
