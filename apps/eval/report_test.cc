// SPDX-License-Identifier: Apache-2.0
#include "eval/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "eval/plot.h"
#include "picture/paint.h"

namespace fovea::eval {
namespace {

// Four questions of two families; the first setting has two right, the second has one.
class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    set_.families = {"read", "count"};
    set_.pictures = 2;
    for (size_t i = 0; i < 4; ++i) {
      Question question;
      question.family = set_.families[i % 2];
      question.answers = {i < 2 ? "one" : "two"};
      question.payload_px = i % 2 == 0 ? 10 + static_cast<int>(i) : 0;
      question.picture = i / 2;
      set_.questions.push_back(question);
    }
    settings_ = {{"coupling", 96}, {"coupling", 64}, {"full", 0}};
    auto records = Records::open("", "{}", 4);
    records_ = std::move(*records);
    add(settings_[0], {1.0, std::nullopt, 0.5, std::nullopt}, {true, true, false, false}, 96,
        {3 << 20, std::nullopt, 1 << 20, std::nullopt});
    add(settings_[1], {0.0, std::nullopt, 0.0, std::nullopt}, {false, true, false, false}, 64);
    add(settings_[2], {1.0, std::nullopt, 1.0, std::nullopt}, {true, true, true, true}, 1024,
        {12 << 20, 12 << 20, 12 << 20, 12 << 20});
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(records_->add(settings_[0], Timing{i, 10.0 + static_cast<double>(i), 20}));
    report_ = make_report(set_, settings_, *records_, R"({"seed":7})");
  }

  void add(const Setting& setting, const std::vector<std::optional<double>>& covered,
           const std::vector<bool>& right, int64_t tokens,
           const std::vector<std::optional<int64_t>>& kv_bytes =
               std::vector<std::optional<int64_t>>(4)) {
    std::vector<Record> records;
    for (size_t i = 0; i < 4; ++i)
      records.push_back({i, "x", right[i], covered[i], tokens, 4 * tokens, kv_bytes[i]});
    EXPECT_TRUE(records_->add(setting, records));
  }

  QuestionSet set_;
  std::vector<Setting> settings_;
  std::unique_ptr<Records> records_;
  Report report_;
};

TEST_F(ReportTest, RowsCountWhatBelongsToThem) {
  ASSERT_EQ(report_.rows.size(), 9u);  // 3 settings x (all, read, count)
  const Row& all = report_.rows[0];
  EXPECT_EQ(all.family, "all");
  EXPECT_EQ(all.n, 4);
  EXPECT_EQ(all.right, 2);
  EXPECT_EQ(all.evidence_recall, 0.5);
  EXPECT_EQ(all.evidence_covered, 0.75);
  EXPECT_EQ(all.tokens, 96);
  EXPECT_EQ(all.patches, 384);
  EXPECT_EQ(all.kv_bytes, 2 << 20) << "of the two that are known";
  EXPECT_EQ(all.first_token_ms, 11);
  const Row& read = report_.rows[1];
  EXPECT_EQ(read.n, 2);
  EXPECT_EQ(read.right, 1);
  EXPECT_EQ(read.first_token_ms, 11);  // of 10 and 12
  const Row& count = report_.rows[2];
  EXPECT_FALSE(count.evidence_recall);
  EXPECT_FALSE(count.kv_bytes);
  EXPECT_FALSE(report_.rows[3].first_token_ms);
  ASSERT_EQ(report_.by_payload.size(), 12u);  // 3 settings x 2 sizes x (all, read)
  EXPECT_EQ(report_.by_payload[0].payload_px, 10);
  EXPECT_EQ(report_.by_payload[0].n, 1);
  EXPECT_EQ(report_.by_payload[0].right, 1);
}

TEST_F(ReportTest, JsonHasTheFieldsThatProgramsRelyOn) {
  const auto json = nlohmann::json::parse(json_of(report_));
  ASSERT_EQ(json["rows"].size(), 9u);
  const auto& row = json["rows"][1];
  EXPECT_EQ(row["arm"], "coupling");
  EXPECT_EQ(row["budget"], 96);
  EXPECT_EQ(row["family"], "read");
  EXPECT_EQ(row["n"], 2);
  EXPECT_EQ(row["accuracy"], 0.5);
  EXPECT_NEAR(row["low"].get<double>(), wilson(1, 2).low, 1e-12);
  EXPECT_NEAR(row["high"].get<double>(), wilson(1, 2).high, 1e-12);
  EXPECT_EQ(row["evidence_recall"], 0.5);
  EXPECT_EQ(row["tokens"], 96);
  EXPECT_EQ(row["patches"], 384);
  EXPECT_EQ(row["kv_bytes"], 2 << 20);
  EXPECT_TRUE(json["rows"][2]["kv_bytes"].is_null());
  EXPECT_EQ(row["ttft_ms"], 11);
  EXPECT_TRUE(json["rows"][2]["evidence_recall"].is_null());
  EXPECT_EQ(json["rows"][8]["budget"], 0);
  EXPECT_EQ(json["settings"]["seed"], 7);
  EXPECT_EQ(json["chance"]["read"]["most_frequent"], 0.5);
  EXPECT_EQ(json["by_payload"][0]["payload_px"], 10);
}

TEST_F(ReportTest, TablesHaveALineForEachSetting) {
  const std::string table = table_of(report_);
  EXPECT_NE(table.find("50.0 ±"), std::string::npos) << table;
  EXPECT_NE(table.find("KV MiB"), std::string::npos);
  EXPECT_NE(table.find("  2.0  "), std::string::npos) << table;
  EXPECT_NE(table.find(" 12.0  "), std::string::npos) << table;
  EXPECT_NE(table.find("evidence recall"), std::string::npos);
  EXPECT_NE(table.find("10 px"), std::string::npos);
  EXPECT_NE(table.find("chance, most frequent"), std::string::npos);
  size_t lines = 0;
  for (size_t at = 0; (at = table.find("\ncoupling", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 6u) << table;  // two budgets in three tables
}

// How many pixels have this colour.
int64_t pixels_of(const Image& image, Rgb colour) {
  int64_t found = 0;
  for (int y = 0; y < image.size.height_px; ++y)
    for (int x = 0; x < image.size.width_px; ++x) found += pixel(image, x, y) == colour ? 1 : 0;
  return found;
}

TEST_F(ReportTest, ThePlotShowsEveryArmAndIsTheSameAgain) {
  const Image plot = draw_plot(report_, "a note");
  EXPECT_EQ(plot.rgb, draw_plot(report_, "a note").rgb);
  EXPECT_NE(plot.rgb, draw_plot(report_, "another").rgb);
  // White is the arm "full" alone, in the legend and in each of the panels.
  const Rgb white{245, 246, 248};
  EXPECT_GT(pixels_of(plot, white), 4 * 50);  // four discs of radius 5 px
  Report one = report_;
  std::erase_if(one.rows, [](const Row& row) { return row.family != "read"; });
  one.families = {"read"};
  EXPECT_NE(draw_plot(one, "").rgb, plot.rgb);
  EXPECT_GT(draw_plot({}, "").rgb.size(), 0u);
}

TEST_F(ReportTest, ThePlotOverBytesDrawsRowsWhoseBytesAreKnownAlone) {
  const Image over_bytes = draw_plot(report_, "", PlotOver::kBytes);
  EXPECT_NE(over_bytes.rgb, draw_plot(report_, "").rgb);
  const Rgb white{245, 246, 248};  // of "full" alone
  Report unknown = report_;
  for (Row& row : unknown.rows)
    if (row.setting.arm == "full") row.kv_bytes = std::nullopt;
  const Image without = draw_plot(unknown, "", PlotOver::kBytes);
  EXPECT_GT(pixels_of(without, white), 50) << "the legend still names it";
  // Its discs of radius 5 px in three panels; the title has pixels of that colour, too.
  EXPECT_GT(pixels_of(over_bytes, white) - pixels_of(without, white), 3 * 50);

  Report moved = report_;
  for (Row& row : moved.rows)
    if (row.setting.arm == "full") *row.kv_bytes *= 4;
  EXPECT_NE(draw_plot(moved, "", PlotOver::kBytes).rgb, over_bytes.rgb);
  EXPECT_EQ(draw_plot(moved, "").rgb, draw_plot(report_, "").rgb) << "tokens are what they were";
}

}  // namespace
}  // namespace fovea::eval
