// SPDX-License-Identifier: Apache-2.0
#include "eval/records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace fovea::eval {
namespace {

const std::string kSettings = R"({"seed":7,"model":"tiny"})";

class RecordsTest : public testing::Test {
 protected:
  RecordsTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = (std::filesystem::temp_directory_path() /
             ("fovea-records-" + std::to_string(getpid()) + test->name()))
                .string();
    std::filesystem::remove(path_);
  }
  ~RecordsTest() override { std::filesystem::remove(path_); }

  std::unique_ptr<Records> open(const std::string& settings = kSettings, size_t questions = 10) {
    auto records = Records::open(path_, settings, questions);
    EXPECT_TRUE(records) << records.error().message;
    return records ? std::move(*records) : nullptr;
  }
  std::string open_error(const std::string& settings = kSettings, size_t questions = 10) {
    auto records = Records::open(path_, settings, questions);
    EXPECT_FALSE(records);
    return records ? "" : records.error().message;
  }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void append(const std::string& more) const {
    std::ofstream(path_, std::ios::binary | std::ios::app) << more;
  }

  std::string path_;
};

const Setting kRandom{"random", 96};

std::vector<Record> two_records() {
  return {{3, "K\"7\n\xff", true, 0.25, 96, 384}, {4, "", false, std::nullopt, 96, 384}};
}

TEST_F(RecordsTest, WhatWasKeptIsThereAgain) {
  {
    const auto records = open();
    ASSERT_TRUE(records->add(kRandom, two_records()));
    ASSERT_TRUE(records->add(kRandom, Timing{3, 11.5, 20.25}));
  }
  const auto records = open();
  EXPECT_TRUE(records->has(kRandom, 3, 5));
  EXPECT_FALSE(records->has(kRandom, 2, 5));
  EXPECT_FALSE(records->has({"random", 64}, 3, 5));
  EXPECT_TRUE(records->has_timing(kRandom, 3));
  EXPECT_FALSE(records->has_timing(kRandom, 4));
  const auto kept = records->of(kRandom);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].question, 3u);
  EXPECT_TRUE(kept[0].right);
  EXPECT_EQ(kept[0].covered, 0.25);
  EXPECT_EQ(kept[0].tokens, 96);
  EXPECT_EQ(kept[0].patches, 384);
  EXPECT_FALSE(kept[1].covered);
  EXPECT_EQ(records->timings_of(kRandom)[0].first_token_ms, 11.5);
}

TEST_F(RecordsTest, ALineCutShortIsForgottenAndTheRestKept) {
  ASSERT_TRUE(open()->add(kRandom, two_records()));
  const std::string whole = text();
  append(R"({"arm":"random","budget":96,"quest)");
  const auto records = open();
  EXPECT_EQ(records->of(kRandom).size(), 2u);
  EXPECT_EQ(text(), whole);
  ASSERT_TRUE(records->add(kRandom, Timing{3, 1, 2}));
  EXPECT_TRUE(open()->has_timing(kRandom, 3));
}

TEST_F(RecordsTest, AHeaderCutShortBeginsAnew) {
  append(R"({"settings":{"se)");
  EXPECT_TRUE(open()->of(kRandom).empty());
  EXPECT_TRUE(text().starts_with(R"({"settings":{"seed":7)"));
}

TEST_F(RecordsTest, OtherSettingsAreRefusedByName) {
  open();
  const std::string before = text();
  EXPECT_NE(open_error(R"({"seed":8,"model":"tiny"})").find("seed is 7 there, 8 here"),
            std::string::npos);
  EXPECT_NE(open_error(R"({"seed":7,"model":"tiny","look":"off"})").find("look is missing there"),
            std::string::npos);
  EXPECT_EQ(text(), before);
}

TEST_F(RecordsTest, AnyOtherFileIsRefusedAndLeftAlone) {
  for (const std::string other : {"hello", "hello\n", "[]\n", "{\"a\":1}\n", "\n"}) {
    std::filesystem::remove(path_);
    append(other);
    EXPECT_NE(open_error().find("no file of fovea eval"), std::string::npos) << other;
    EXPECT_EQ(text(), other);
  }
}

TEST_F(RecordsTest, ABadLineIsNamed) {
  ASSERT_TRUE(open()->add(kRandom, two_records()));
  const std::string good = text();
  for (const std::string bad :
       {"nonsense", "{}",
        R"({"arm":"random","budget":96,"question":10,"answer":"","right":true,)"
        R"("tokens":1,"patches":4})",
        R"({"arm":"random","budget":-1,"question":1,"answer":"","right":true,"tokens":1,)"
        R"("patches":4})",
        R"({"arm":"random","budget":96,"question":1,"answer":5,"right":true,"tokens":1,)"
        R"("patches":4})"}) {
    std::filesystem::remove(path_);
    append(good + bad + "\n");
    EXPECT_NE(open_error().find(path_ + ":4: "), std::string::npos) << bad;
  }
}

TEST_F(RecordsTest, WithoutAFileNothingIsWritten) {
  auto records = Records::open("", kSettings, 10);
  ASSERT_TRUE(records);
  ASSERT_TRUE((*records)->add(kRandom, two_records()));
  EXPECT_EQ((*records)->of(kRandom).size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace fovea::eval
