// SPDX-License-Identifier: Apache-2.0
#include "eval/records.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/test_descriptors.h"
#include "kept/model_fingerprint.h"
#include "places.h"

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
  return {{3, "K\"7\n\xff", true, 0.25, 96, 384}, {4, "", false, std::nullopt, 96, 384, 7077888}};
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
  EXPECT_FALSE(kept[0].kv_bytes) << "as runs of earlier programs have it";
  EXPECT_EQ(kept[1].kv_bytes, 7077888);
  EXPECT_EQ(records->timings_of(kRandom)[0].first_token_ms, 11.5);
}

TEST_F(RecordsTest, ALineCutShortIsForgottenAndTheRestKept) {
  ASSERT_TRUE(open()->add(kRandom, two_records()));
  const std::string whole = text();
  append(R"({"arm":"random","budget":96,"quest)");
  auto records = open();
  EXPECT_EQ(records->of(kRandom).size(), 2u);
  EXPECT_EQ(text(), whole);
  ASSERT_TRUE(records->add(kRandom, Timing{3, 1, 2}));
  records.reset();
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

TEST_F(RecordsTest, AFileThatIsNotOursKeepsEveryByte) {
  ASSERT_TRUE(open()->add(kRandom, two_records()));
  const std::string ours = text();
  std::string large = "{\"settings\":" + std::string(20 << 20, ' ');
  for (const std::string& other :
       {std::string("a\nb"), std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16), std::string("\n\n{"),
        std::string("{\"settings\":{\"seed\":8"), std::string("{\"settings\"x"), std::string("{"),
        std::string("{\"settings\":{\"seed\":7,\"model\":\"tiny\"},\"rows\":[]}\n"),
        ours + "notes of my own", ours + "{}", "notes\n" + ours, large}) {
    std::filesystem::remove(path_);
    append(other);
    EXPECT_NE(open_error().find("of fovea eval"), std::string::npos) << other.substr(0, 100);
    EXPECT_EQ(text(), other) << other.substr(0, 100);
  }
}

TEST_F(RecordsTest, AFileOfOtherSettingsIsNotShortened) {
  open();
  append(R"({"arm":"random","budget":96,"quest)");
  const std::string before = text();
  EXPECT_NE(open_error(R"({"seed":8,"model":"tiny"})").find("seed is 7"), std::string::npos);
  EXPECT_EQ(text(), before);
}

TEST_F(RecordsTest, ASecondRunIsRefusedUntilTheFirstEnds) {
  auto first = open();
  EXPECT_NE(open_error().find("another fovea eval has it"), std::string::npos);
  ASSERT_TRUE(first->add(kRandom, two_records()));
  first.reset();
  EXPECT_EQ(open()->of(kRandom).size(), 2u);
}

TEST_F(RecordsTest, PipesDevicesAndFoldersAreRefused) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(open_error().find("no regular file"), std::string::npos);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_NE(open_error().find("Is a directory"), std::string::npos);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/dev/full", path_);
  EXPECT_NE(open_error().find("no regular file"), std::string::npos);
}

TEST_F(RecordsTest, AFileThatTheMachineCannotOpenIsNotWrongInput) {
  if (kSanitizerTakesDescriptors)
    GTEST_SKIP() << "the sanitizer needs descriptors to look at objects";
  const NoDescriptors none;
  const auto records = Records::open(path_, kSettings, 10);
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().kind, Error::Kind::kFailed) << records.error().message;
}

// Files that could not be listed are not left out: the rest would be another model's.
TEST_F(RecordsTest, AModelThatTheMachineCannotListHasNoFingerprint) {
  const std::string model = source_dir() + "/tests/fixtures/ask";
  const auto good = kept::model_fingerprint(model);
  ASSERT_TRUE(good) << good.error().message;
  const NoDescriptors none;
  const auto bad = kept::model_fingerprint(model);
  ASSERT_FALSE(bad) << *bad;
  EXPECT_EQ(bad.error().kind, Error::Kind::kFailed) << bad.error().message;
}

TEST_F(RecordsTest, AFullDiskKeepsWholeLinesAlone) {
  open();
  const size_t header = text().size();
  const pid_t child = fork();
  if (child == 0) {
    auto records = open();
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{header + 50, header + 50};  // room for a part of a line
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto first = records->add(kRandom, two_records());
    const auto second = records->add(kRandom, Timing{3, 1, 2});
    _exit(!first && first.error().kind == Error::Kind::kFailed && !second ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text().size(), header);
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
        R"("patches":4})",
        R"({"arm":"random","budget":96,"question":1,"answer":"","right":true,"tokens":1,)"
        R"("patches":4,"kv_bytes":-1})"}) {
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
