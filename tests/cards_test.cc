// SPDX-License-Identifier: Apache-2.0
// fovea cards, on the real program.
#include <sys/file.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>

#include "media/decode.h"
#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using Json = nlohmann::json;

std::vector<Json> lines_of(const std::filesystem::path& folder) {
  std::vector<Json> lines;
  std::ifstream file(folder / "questions.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(CardsCommand, WritesPicturesAndQuestions) {
  const auto folder = scratch();
  const Outcome run = run_fovea({"cards", "--seed", "7", "--count", "3", "--questions", "16",
                                 "--size", "640x512", "--cards", "8..20", "-o", folder / "new"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "");
  const std::vector<Json> lines = lines_of(folder / "new");
  ASSERT_EQ(lines.size(), 48u);
  std::set<std::string> ids;
  std::set<std::string> families;
  for (const Json& line : lines) {
    ids.insert(line["id"]);
    families.insert(line["family"]);
    ASSERT_EQ(line["conversations"].size(), 2u);
    EXPECT_EQ(line["conversations"][0]["from"], "human");
    EXPECT_TRUE(line["conversations"][0]["value"].get<std::string>().starts_with("<image>\n"));
    EXPECT_EQ(line["conversations"][1]["from"], "gpt");
    EXPECT_NE(line["conversations"][1]["value"], "");
    EXPECT_EQ(line["payload_px"] == 0, line["evidence"].empty());
    for (const Json& box : line["evidence"]) {
      EXPECT_TRUE(box[0] >= 0 && box[1] >= 0 && box[0] < box[2] && box[1] < box[3]);
      EXPECT_TRUE(box[2] <= 640 && box[3] <= 512);
    }
    const auto image = read_image(folder / "new" / line["image"].get<std::string>());
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(image->size, (Size{640, 512}));
  }
  EXPECT_EQ(ids.size(), lines.size());
  EXPECT_EQ(families.size(), 8u);
}

TEST(CardsCommand, ASeedGivesTheSameFilesForAnyNumberOfThreads) {
  const auto folder = scratch();
  for (const std::string threads : {"1", "3"})
    ASSERT_EQ(run_fovea({"cards", "--seed", "5", "--count", "4", "--size", "512", "--threads",
                         threads, "-o", folder / threads})
                  .status,
              0);
  for (const std::string file : {"questions.jsonl", "images/000000.png", "images/000003.png"}) {
    EXPECT_NE(read_all(folder / "1" / file), "") << file;
    EXPECT_EQ(read_all(folder / "1" / file), read_all(folder / "3" / file)) << file;
  }
  // Scene i has the seed S + i.
  ASSERT_EQ(
      run_fovea({"cards", "--seed", "8", "--count", "1", "--size", "512", "-o", folder}).status, 0);
  EXPECT_EQ(read_all(folder / "images/000000.png"), read_all(folder / "1/images/000003.png"));
}

TEST(CardsCommand, FamiliesPhotosAndBlanksAreTaken) {
  const auto folder = scratch();
  const std::string photos = source_dir() + "/examples/pictures";
  const std::vector<std::string> common = {"cards", "--count", "1", "--size", "512", "-o"};
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = common;
    arguments.push_back(folder / name);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_fovea(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_all(folder / name / "images/000000.png");
  };
  const std::string plain = run("plain", {});
  EXPECT_NE(run("photos", {"--photos", photos}), plain);
  EXPECT_NE(run("blank", {"--blank-payloads"}), plain);
  EXPECT_EQ(run("few", {"--families", "gap,read", "--questions", "3"}), plain);
  std::string families;
  for (const Json& line : lines_of(folder / "few"))
    families += line["family"].get<std::string>() + " ";
  EXPECT_EQ(families, "gap read gap ");
}

size_t parts_in(const std::filesystem::path& folder) {
  size_t parts = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().string().ends_with(".part")) ++parts;
  return parts;
}

TEST(CardsCommand, ASignalLeavesNoPartsAndNoQuestionsOfOtherPictures) {
  namespace fs = std::filesystem;
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const auto folder = scratch();
    std::ofstream(folder / "questions.jsonl") << "older\n";
    const pid_t child = fork();
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
      execl(program_path().c_str(), "fovea", "cards", "--count", "100000", "--size", "512", "-o",
            folder.c_str(), nullptr);
      _exit(127);
    }
    for (int i = 0; i < 600 && !fs::exists(folder / "images/000003.png"); ++i) usleep(50'000);
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    if (signal == SIGKILL)
      EXPECT_EQ(WTERMSIG(status), SIGKILL);
    else
      EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_EQ(parts_in(folder), 0u) << signal;
    EXPECT_TRUE(fs::exists(folder / "images/000003.png"));
    EXPECT_FALSE(fs::exists(folder / "questions.jsonl")) << signal;
    for (const auto& entry : fs::directory_iterator(folder / "images"))
      EXPECT_TRUE(read_image(entry.path().string())) << entry.path();
  }
}

TEST(CardsCommand, ASecondOneInAFolderIsRefused) {
  const auto folder = scratch();
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  expect_refused({"cards", "--count", "1", "--size", "512", "-o", folder}, "another fovea cards");
  close(fd);
  EXPECT_EQ(run_fovea({"cards", "--count", "1", "--size", "512", "-o", folder}).status, 0);
}

TEST(CardsCommand, AFullDiskIsSaidAndOlderQuestionsStay) {
  const auto folder = scratch();
  const SmallDisk disk(folder, "64k");
  if (!disk.mounted()) GTEST_SKIP() << "may not mount";
  std::ofstream(folder / "questions.jsonl") << "older\n";
  const Outcome run = run_fovea({"cards", "--count", "5", "--size", "512", "-o", folder});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("000000.png: No space left on device\n"), std::string::npos) << run.err;
  EXPECT_EQ(read_all(folder / "questions.jsonl"), "older\n");
  EXPECT_EQ(parts_in(folder), 0u);
}

TEST(CardsCommand, BadFlagsAreRefusedInOneLine) {
  const auto folder = scratch();
  const auto refused = [&](const std::string& flag, const std::string& value) {
    expect_refused({"cards", "--count", "1", "-o", folder, flag, value}, value);
  };
  expect_refused({"cards", "-o", folder}, "--count");
  expect_refused({"cards", "--count", "1"}, "--output");
  for (const std::string value : {"0", "-1", "x", "1000001"})
    expect_refused({"cards", "-o", folder, "--count", value}, "--count");
  for (const std::string value : {"511", "2049", "512x", "x512", "1024x99", "big"})
    refused("--size", value);
  for (const std::string value : {"7", "49", "30..20", "8..", "..9", "many"})
    refused("--cards", value);
  for (const std::string value : {"7", "25", "13..10", "1.5"}) refused("--payload", value);
  expect_refused({"cards", "--count", "1", "-o", folder, "--families", "read,spell"}, "spell");
  expect_refused({"cards", "--count", "1", "-o", folder, "--photos", folder / "none"}, "--photos");
  expect_refused({"cards", "--count", "1", "-o", "/dev/null/no"}, "/dev/null/no");
  expect_refused(
      {"cards", "--count", "1", "-o", folder, "--size", "512", "--cards", "48", "--payload", "24"},
      "do not fit");
}

}  // namespace
}  // namespace fovea
