// SPDX-License-Identifier: Apache-2.0
// fovea profile on the real program: on the CPU, and on an emulated GPU, whose times mean nothing.
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using nlohmann::json;

const std::string kPicture = source_dir() + "/tests/fixtures/gaze/scene.png";
const std::string kModel = source_dir() + "/models/tiny";
const std::string kSmallest = source_dir() + "/tests/fixtures/gaze";  // quick when emulated

class ProfileProgram : public testing::Test {
 protected:
  void SetUp() override { setenv("FOVEA_CUDA_LIBRARY", emulated_library().c_str(), 1); }
  void TearDown() override { unsetenv("FOVEA_CUDA_LIBRARY"); }
};

std::vector<std::string> about(const std::string& model, std::vector<std::string> first,
                               const std::vector<std::string>& more) {
  first.insert(first.end(), {kPicture, "Which code?", "--model", model, "--ignore-end", "--budget",
                             "8", "--json"});
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

json run_json(const std::vector<std::string>& arguments) {
  const Outcome run = run_fovea(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  return json::parse(run.out, nullptr, false);
}

std::map<std::string, json> stages_of(const json& profile) {
  std::map<std::string, json> stages;
  for (const json& stage : profile["stages"]) stages[stage["stage"]] = stage;
  return stages;
}

double total_ms(const json& profile) {
  double total = 0;
  for (const json& stage : profile["stages"]) total += double{stage["ms"]};
  return total;
}

void expect_sound(const json& profile, const std::vector<std::string>& timed) {
  auto stages = stages_of(profile);
  ASSERT_EQ(stages.size(), 14u);
  const double whole = profile["by_stage"]["whole_ms"];
  EXPECT_NEAR(total_ms(profile), whole, 0.05 * whole);
  EXPECT_LT(double{stages["other"]["ms"]}, 0.3 * whole);
  for (const std::string& name : timed) EXPECT_GT(double{stages[name]["ms"]}, 0) << name;
  for (const char* name : {"decode", "pyramid", "relevance", "patches", "tower", "prefill"}) {
    EXPECT_GT(int64_t{stages[name]["read_bytes"]}, 0) << name;
    EXPECT_GT(double{stages[name]["limit_ms"]}, 0) << name;
    EXPECT_GT(double{stages[name]["share_of_limit"]}, 0) << name;
  }
  EXPECT_EQ(profile["answer_tokens"], 3);
  EXPECT_EQ(profile["token_ms"].size(), 2u);
  const double tokens = stages["tokens"]["ms"];
  const double each = std::accumulate(profile["token_ms"].begin(), profile["token_ms"].end(), 0.0,
                                      [](double sum, const json& ms) { return sum + double{ms}; });
  EXPECT_NEAR(each, tokens, 0.2 * tokens + 1);
  EXPECT_EQ(profile["cells"], 8);
  EXPECT_LT(int64_t{stages["tower"]["flop"]}, int64_t{stages["tower"]["dense"]["flop"]});
  EXPECT_LT(int64_t{profile["whole"]["flop"]}, int64_t{profile["whole"]["dense"]["flop"]});
  EXPECT_GT(double{profile["warm_up"]["first_token_ms"]}, 0);
  EXPECT_GE(double{profile["warm"]["whole_ms"]}, double{profile["warm"]["first_token_ms"]});
  for (const char* place : {"host", "device"})
    for (const char* rate : {"copy_gb_per_s", "read_gb_per_s", "tflop_per_s"})
      EXPECT_GT(double{profile["ceilings"][place][rate]}, 0) << place << " " << rate;
}

TEST_F(ProfileProgram, StagesAddUpOnTheCpu) {
  const json profile = run_json(about(kModel, {"profile"}, {"-n", "3", "--runs", "2"}));
  expect_sound(profile, {"decode", "pyramid", "relevance", "plan", "patches", "tower", "prompt",
                         "read", "prefill", "sample", "tokens"});
  EXPECT_EQ(profile["runs"], 2);
  EXPECT_EQ(profile["counters"]["note"], "");
  // What was counted is what was asked.
  const json answer = run_json(about(kModel, {"ask"}, {"-n", "3"}));
  EXPECT_EQ(profile["text"], answer["text"]);
  EXPECT_EQ(int64_t{profile["prompt_tokens"]},
            int64_t{answer["usage"]["text_tokens"]} + int64_t{answer["usage"]["image_tokens"]});
  EXPECT_EQ(profile["cells_dense"], answer["usage"]["image_tokens_full"]);
}

TEST_F(ProfileProgram, StagesAddUpOnAGpu) {
  const json profile =
      run_json(about(kSmallest, {"profile"}, {"-n", "3", "--device", "cuda", "--no-counters"}));
  expect_sound(profile, {"decode", "upload", "pyramid", "relevance", "plan", "patches", "tower",
                         "prompt", "read", "prefill", "sample", "tokens"});
  EXPECT_NE(std::string(profile["device"]).find("emulated"), std::string::npos);
  EXPECT_GT(double{profile["ceilings"]["device"]["upload_gb_per_s"]}, 0);
  auto stages = stages_of(profile);
  EXPECT_EQ(stages["patches"]["written_bytes"], 8 * 4 * 768 * 2);
}

TEST_F(ProfileProgram, ThePersonsFormNamesTheStages) {
  const std::vector<std::string> arguments = {
      "profile", kPicture, "Which code?", "--model",  kModel, "-n",
      "2",       "--plan", "quadtree",    "--budget", "8"};
  const Outcome run = run_fovea(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.err.find("warming up\nrun 1 of 1\n"), std::string::npos) << "says how far it is";
  for (const char* word : {"tower", "prefill", "of the dense path", "a token", "first token"})
    EXPECT_NE(run.out.find(word), std::string::npos) << word << "\n" << run.out;
  std::vector<std::string> quietly = arguments;
  quietly.emplace_back("-q");
  EXPECT_EQ(run_fovea(quietly).err, "");
}

TEST_F(ProfileProgram, KernelsAreCountedBehindTheTable) {
  const auto folder = scratch();
  // It copies what the program has printed so far, says where its log is to be, and fails.
  std::ofstream(folder / "ncu")
      << "#!/bin/sh\ncp " << (folder / "out") << " " << (folder / "seen")
      << "\nwhile [ \"$1\" != --log-file ]; do shift; done\necho \"$2\" > " << (folder / "log")
      << "\nstat -c %a \"$(dirname \"$2\")\" > " << (folder / "mode") << "\nexit 1\n";
  std::filesystem::permissions(folder / "ncu", std::filesystem::perms::owner_all);
  const std::string command = "PATH=" + folder.string() + ":$PATH " + program_path() + " profile " +
                              kPicture + " 'Which code?' --model " + kSmallest +
                              " --device cuda --budget 8 -n 1 -q > " + (folder / "out").string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_NE(read_all(folder / "seen").find("of the dense path"), std::string::npos);
  EXPECT_NE(read_all(folder / "out").find("no counters"), std::string::npos);
  // In a folder that nobody else may write to, and that has gone.
  EXPECT_EQ(read_all(folder / "mode"), "700\n");
  std::string log = read_all(folder / "log");
  ASSERT_FALSE(log.empty());
  log.pop_back();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(log).parent_path())) << log;
}

// A program that stands for Nsight Compute: it runs what it is to run, and then says that one
// kernel was counted in the stage of the tower, the eighth.
constexpr const char* kNcu = R"sh(#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
log=$2
while [ "$1" != --metrics ]; do shift; done
shift 2
"$@" || exit 1
bytes=300
for word in "$@"; do [ "$word" = dense ] && bytes=1000; done
cat > "$log" <<END
"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","attend","(64, 1, 1)","dram__bytes_read.sum","byte","$bytes"
"0","attend","(64, 1, 1)","lts__t_sectors.sum","sector","100"
"0","attend","(64, 1, 1)","lts__t_sector_hit_rate.pct","%","75"
"1","fovea_stage_ends()","(8, 1, 1)","dram__bytes_read.sum","byte","0"
END
)sh";

TEST_F(ProfileProgram, KernelsAreCountedForBothPathsAndJudged) {
  const auto folder = scratch();
  std::ofstream(folder / "ncu") << kNcu;
  std::filesystem::permissions(folder / "ncu", std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH");
  setenv("PATH", (folder.string() + ":" + before).c_str(), 1);
  const json profile =
      run_json(about(kSmallest, {"profile"}, {"-q", "-n", "1", "--device", "cuda"}));
  setenv("PATH", before.c_str(), 1);
  const json& counters = profile["counters"];
  ASSERT_TRUE(counters.contains("whole")) << counters;
  ASSERT_EQ(counters["stages"].size(), 1u);
  EXPECT_EQ(counters["stages"][0]["stage"], "tower");
  const json& verdicts = counters["whole"]["verdicts"];
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_DOUBLE_EQ(verdicts[0]["value"], 0.3);
  EXPECT_TRUE(verdicts[0]["pass"]);
  EXPECT_DOUBLE_EQ(verdicts[1]["value"], 0.75);
  EXPECT_FALSE(verdicts[1]["pass"]);
}

TEST_F(ProfileProgram, WrongUseIsRefused) {
  expect_refused({"profile", "/nonexistent.png", "What?"}, "/nonexistent.png");
  expect_refused({"profile", kPicture}, "question");
  expect_refused({"profile", kPicture, "What?", "--runs", "0"}, "--runs");
  expect_refused({"profile", kPicture, "What?", "--device", "cuda:99"}, "cuda:99");
  expect_refused({"profile", kPicture, "What?", "--model", "/nonexistent"}, "/nonexistent");
}

}  // namespace
}  // namespace fovea
