// SPDX-License-Identifier: Apache-2.0
#include "profile/counters.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "profile/ncu.h"

namespace fovea::app {
namespace {

// As ncu prints it: its own lines, then a row for each metric of each launch.
class Csv {
 public:
  Csv() {
    text_ =
        "==PROF== Connected to process 4711 (/usr/bin/fovea)\n"
        "==PROF== Profiling \"halve\" - 0: 0%....50%....100% - 1 pass\n"
        "==PROF== Disconnected from process 4711\n"
        "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\","
        "\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\","
        "\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
  }
  Csv& row(int id, const std::string& kernel, int blocks, const std::string& metric,
           const std::string& value) {
    text_ += fmt::format(
        "\"{}\",\"4711\",\"fovea\",\"127.0.0.1\",\"{}\",\"1\",\"13\",\"(256, 1, 1)\","
        "\"({}, 1, 1)\",\"0\",\"9.0\",\"Command line profiler metrics\",\"{}\",\"byte\",\"{}\"\n",
        id, kernel, blocks, metric, value);
    return *this;
  }
  Csv& kernel(int id, const std::string& name, const std::string& read, const std::string& hit) {
    row(id, name, 8, "dram__bytes_read.sum", read);
    row(id, name, 8, "dram__bytes_write.sum", "0");
    row(id, name, 8, "gpu__time_duration.sum", "1,500");
    row(id, name, 8, "lts__t_sectors.sum", "1,000");
    row(id, name, 8, "lts__t_sector_hit_rate.pct", hit);
    row(id, name, 8, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "200");
    return row(id, name, 8, "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
               "95.5");
  }
  Csv& mark(int id, Stage stage) {
    const int blocks = static_cast<int>(stage) + 1;
    row(id, "fovea_stage_ends()", blocks, "dram__bytes_read.sum", "64");
    return row(id, "fovea_stage_ends()", blocks, "lts__t_sector_hit_rate.pct", "n/a");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

TEST(Counters, KernelsBelongToTheStageWhoseMarkComesNext) {
  Csv csv;
  csv.kernel(0, "void fovea::<unnamed>::halve<(int)2>(uchar3 *, \"\"int\"\")", "3,145,728", "50");
  csv.mark(1, Stage::kPyramid);
  csv.kernel(2, "nvjet_tst_128x256", "1,000", "90").kernel(3, "attend_tiles", "500", "70");
  csv.mark(4, Stage::kTower);
  csv.kernel(5, "after the last", "8", "100");
  const auto counters = read_counters(csv.text());
  ASSERT_TRUE(counters) << counters.error().message;
  const auto at = [&](Stage stage) { return counters->stages[static_cast<size_t>(stage)]; };
  EXPECT_EQ(at(Stage::kPyramid).kernels, 1);
  EXPECT_DOUBLE_EQ(at(Stage::kPyramid).dram_bytes, 3'145'728);
  EXPECT_EQ(at(Stage::kTower).kernels, 2);
  EXPECT_DOUBLE_EQ(at(Stage::kTower).dram_bytes, 1500);
  EXPECT_DOUBLE_EQ(at(Stage::kTower).ns, 3000);
  EXPECT_DOUBLE_EQ(at(Stage::kTower).l2_hit_rate(), 0.8);
  EXPECT_DOUBLE_EQ(at(Stage::kTower).coalescing(), 0.955);
  EXPECT_EQ(at(Stage::kOther).kernels, 1);
  EXPECT_EQ(counters->total.kernels, 4);  // marks are none
  EXPECT_DOUBLE_EQ(counters->total.dram_bytes, 3'145'728 + 1508);
}

TEST(Counters, WhatAKernelHadNotCountsForNothing) {
  Csv csv;
  csv.row(0, "empty", 1, "lts__t_sectors.sum", "0")
      .row(0, "empty", 1, "lts__t_sector_hit_rate.pct", "nan")
      .row(0, "empty", 1, "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", "n/a");
  const auto counters = read_counters(csv.text());
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->total.kernels, 1);
  EXPECT_EQ(counters->total.l2_hit_rate(), 0);
  EXPECT_TRUE(judge(counters->total, Counters{}).empty());  // nothing to judge
}

TEST(Counters, NothingCountedIsAnError) {
  EXPECT_FALSE(read_counters(""));
  EXPECT_FALSE(read_counters("==PROF== No kernels were profiled.\n"));
  EXPECT_FALSE(read_counters(Csv().text()));
  EXPECT_FALSE(read_counters("\"a\",\"b\"\n\"1\",\"2\"\n"));
}

// A program that stands for Nsight Compute where it may not count.
TEST(Counters, WhyThereAreNoneIsSaidInNcusOwnWords) {
  const auto ncu = std::filesystem::temp_directory_path() / fmt::format("fovea-ncu-{}", getpid());
  std::ofstream(ncu) << "#!/bin/sh\nwhile [ \"$1\" != --log-file ]; do shift; done\n"
                        "echo '==ERROR== No permission to count' > \"$2\"\nexit 1\n";
  std::filesystem::permissions(ncu, std::filesystem::perms::owner_all);
  const auto counted = count_under_ncu(ncu.string(), {});
  std::filesystem::remove(ncu);
  ASSERT_FALSE(counted);
  EXPECT_NE(counted.error().message.find("No permission to count"), std::string::npos)
      << counted.error().message;
  EXPECT_FALSE(count_under_ncu("/nonexistent/ncu", {}));
}

TEST(Counters, TheTargetsAreJudged) {
  Counters dense;
  dense.dram_bytes = 1000;
  Counters good;
  good.dram_bytes = 400;
  good.l2_sectors = good.load_sectors = 100;
  good.l2_hits = 85;
  good.load_used = 95;
  const auto passed = judge(good, dense);
  ASSERT_EQ(passed.size(), 3u);
  for (const Verdict& verdict : passed) EXPECT_TRUE(verdict.pass()) << verdict.name;
  EXPECT_DOUBLE_EQ(passed[0].value, 0.4);
  Counters bad = good;
  bad.dram_bytes = 500;  // half is not below half
  bad.l2_hits = 80;
  bad.load_used = 90;
  for (const Verdict& verdict : judge(bad, dense)) EXPECT_FALSE(verdict.pass()) << verdict.name;
}

}  // namespace
}  // namespace fovea::app
