// SPDX-License-Identifier: Apache-2.0
// The real program on a GPU: it answers as on the CPU, and says clearly what it cannot do. With the
// emulated library everywhere, and with that of a real GPU where there is one.
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using nlohmann::json;

const std::string kPicture = source_dir() + "/tests/fixtures/ask/wide.png";
// Its heads have 12 values.
const std::string kOddModel = source_dir() + "/tests/fixtures/ask";

// A variable of the environment while this lives, for the programs run meanwhile; none: not set.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value)
      setenv(name_, value->c_str(), 1);
    else
      unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> before_;
};

constexpr const char* kLibrary = "FOVEA_CUDA_LIBRARY";

bool has_device(const std::string& name) {
  const json info = json::parse(run_fovea({"info", "--json"}).out, nullptr, false);
  for (const json& device : info["devices"])
    if (device["name"] == name) return true;
  return false;
}

// A scene that models/tiny knows, small enough for an emulation, and questions about it.
class Cards {
 public:
  Cards() : folder_(scratch()) {
    const Outcome made =
        run_fovea({"cards", "--seed", "7", "--count", "1", "--size", "512", "--cards", "10",
                   "--questions", "3", "--families", "read,find,exist", "-o", folder_, "-q"});
    EXPECT_EQ(made.status, 0) << made.err;
    std::ifstream file(folder_ / "questions.jsonl");
    for (std::string line; std::getline(file, line);) {
      const std::string asked = json::parse(line)["conversations"][0]["value"];
      questions_.push_back(asked.substr(asked.find('\n') + 1));
    }
    EXPECT_EQ(questions_.size(), 3u);
  }

  std::string picture() const { return folder_ / "images/000000.png"; }
  const std::vector<std::string>& questions() const { return questions_; }

  // So few cells that an emulation takes seconds.
  json ask(const std::vector<std::string>& more, size_t question = 0) const {
    std::vector<std::string> arguments = {
        "ask",    picture(), questions_.at(question), "--budget", "24", "--json", "--logprobs", "3",
        "--look", "mixed",   "--max-tokens",          "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome run = run_fovea(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.err, "");
    return json::parse(run.out, nullptr, false);
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> questions_;
};

// A logprob of -10 says that two logits lie 10 apart, of which bf16 knows 1 %.
void expect_same_answer(const json& expected, const json& actual) {
  EXPECT_EQ(actual["text"], expected["text"]);
  ASSERT_EQ(actual["token_ids"], expected["token_ids"]);
  EXPECT_EQ(actual["usage"]["image_tokens"], expected["usage"]["image_tokens"]);
  for (size_t step = 0; step < expected["logprobs"].size(); ++step) {
    const json& here = expected["logprobs"][step]["top_logprobs"];
    const json& there = actual["logprobs"][step]["top_logprobs"];
    for (size_t i = 0; i < 2; ++i) {
      const double logprob = here[i]["logprob"];
      EXPECT_EQ(there[i]["id"], here[i]["id"]) << "step " << step << ", token " << i;
      EXPECT_NEAR(there[i]["logprob"], logprob, 0.02 * std::max(1.0, std::abs(logprob)))
          << "step " << step << ", token " << i;
    }
  }
}

struct DeviceLibrary {
  const char* name;
  std::string file;
};
std::ostream& operator<<(std::ostream& out, const DeviceLibrary& library) {
  return out << library.name;
}

class OnGpu : public testing::TestWithParam<DeviceLibrary> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam().file)) GTEST_SKIP() << "not built: " << GetParam().file;
    library_.emplace(kLibrary, GetParam().file);
    if (!has_device("cuda:0")) GTEST_SKIP() << "no CUDA device on this machine";
  }

  std::optional<Variable> library_;
};

TEST_P(OnGpu, InfoNamesIt) {
  const Outcome run = run_fovea({"info"});
  EXPECT_NE(run.out.find("\n  cuda:0 "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("compute capability"), std::string::npos) << run.out;
}

TEST_P(OnGpu, AnswersAsTheCpuDoes) {
  const Cards cards;
  const json expected = cards.ask({"--weights", "bf16"});
  EXPECT_GE(expected["token_ids"].size(), 2u);
  expect_same_answer(expected, cards.ask({"--device", "cuda"}));
  expect_same_answer(expected, cards.ask({"--device", "cuda:0", "--kernels", "portable"}));
}

// A share of one block, which is a block's own, so that no choice hangs on a rounding.
TEST_P(OnGpu, AttendsByKindsAsTheCpuDoes) {
  const Cards cards;
  for (const auto& kinds :
       {std::pair("hierarchical:0.001", "prefix"), std::pair("dense,strided", "dense")}) {
    const std::vector<std::string> by = {"--attention", kinds.first, "--attention-text",
                                         kinds.second};
    std::vector<std::string> here = {"--weights", "bf16"};
    std::vector<std::string> there = {"--device", "cuda"};
    here.insert(here.end(), by.begin(), by.end());
    there.insert(there.end(), by.begin(), by.end());
    expect_same_answer(cards.ask(here), cards.ask(there));
  }
}

// Shares of 1 that bf16 knows to a hundredth or so.
TEST_P(OnGpu, TokensAttendedToWhatTheyDoOnTheCpu) {
  const Cards cards;
  const std::string path = cards.picture() + ".json";
  const json expected_answer = cards.ask({"--weights", "bf16", "--trace", path});
  const json expected = json::parse(read_all(path))["answer_attention"];
  expect_same_answer(expected_answer, cards.ask({"--device", "cuda", "--trace", path}));
  const json actual = json::parse(read_all(path))["answer_attention"];
  ASSERT_GE(expected.size(), 2u);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t token = 0; token < expected.size(); ++token) {
    const json& here = expected[token]["looks"][0];
    const json& there = actual[token]["looks"][0];
    ASSERT_EQ(there.size(), here.size());
    for (size_t i = 0; i < here.size(); ++i)
      EXPECT_NEAR(there[i].get<double>(), here[i].get<double>(), 0.02)
          << "token " << token << ", cell " << i;
  }
}

TEST_P(OnGpu, AFollowUpQuestionIsAnsweredAsTheCpuDoes) {
  const Cards cards;
  const auto folder = cards.picture() + ".txt";
  std::ofstream(folder) << cards.questions()[1] << "\n" << cards.questions()[2] << "\n";
  std::vector<std::string> arguments = {
      "chat", cards.picture(), "--budget", "24", "-q", "--max-tokens", "4", "--look", "mixed"};
  const Outcome expected = run_fovea(arguments, folder);
  arguments.insert(arguments.end(), {"--device", "cuda"});
  const Outcome run = run_fovea(arguments, folder);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run.out, expected.out);
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 2) << run.out;
}

// The device's sampler does not know these options, so that the CPU's draws from its logits.
TEST_P(OnGpu, DrawsByOptionsThatTheCpuAloneKnows) {
  const Cards cards;
  const auto ids = [&](const std::vector<std::string>& options, const char* device) {
    std::vector<std::string> arguments = {
        "ask",    cards.picture(), cards.questions()[0], "--json", "--max-tokens", "4",
        "--look", "off",           "--budget",           "24",     "--device",     device};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome run = run_fovea(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out, nullptr, false)["token_ids"].get<std::vector<int>>();
  };
  EXPECT_EQ(ids({"--logit-bias", "5:100"}, "cuda"), std::vector<int>(4, 5));
  EXPECT_EQ(
      ids({"--logit-bias", "5:90", "--logit-bias", "6:88.5", "--frequency-penalty", "2"}, "cuda"),
      ids({"--logit-bias", "5:90", "--logit-bias", "6:88.5", "--frequency-penalty", "2"}, "cpu"));
  EXPECT_EQ(ids({"--least-tokens", "4"}, "cuda").size(), 4u);
}

TEST_P(OnGpu, WhatItCannotDoIsSaidInOneLine) {
  const auto refused = [](std::vector<std::string> more, const std::string& must_say) {
    more.insert(more.begin(), {"ask", kPicture, "What is this?"});
    expect_refused(more, must_say);
  };
  refused({"--device", "cuda:777"}, "device cuda:777: there ");
  refused({"--device", "cuda:777"}, "numbered from 0; there is cpu, cuda:0");
  refused({"--device", "cuda:x"}, "device 'cuda:x': use cpu, cuda[:i] or vulkan[:i]");
  refused({"--device", "tpu"}, "device 'tpu': use cpu");
  refused({"--device", "cuda", "--weights", "f32"}, "a GPU computes with bf16");
  refused({"--device", "cuda", "--weights", "int8"}, "leave the format out");
  refused({"--device", "cuda", "--attention", "performer"}, "attention \"performer\": ");
  refused({"--device", "cuda", "--attention", "performer"}, "does not compute it in the tower");
  refused({"--device", "cuda", "--attention-text", "window"},
          "does not compute it in the language model; leave it out, or choose the device cpu");
  refused({"--device", "cuda", "--model", kOddModel},
          "vision_config.hidden_size / num_heads is 12, which is not a multiple of 8; use "
          "device cpu");
}

INSTANTIATE_TEST_SUITE_P(libraries, OnGpu,
                         testing::Values(DeviceLibrary{"emulated", emulated_library()},
                                         DeviceLibrary{"cuda", cuda_library()}),
                         [](const auto& library) { return library.param.name; });

TEST(NoDevice, ALibraryThatDoesNotOpenIsNamed) {
  const Variable library(kLibrary, "/nonexistent.so");
  expect_refused({"ask", kPicture, "What is this?", "--device", "cuda"}, "/nonexistent.so");
  EXPECT_FALSE(has_device("cuda:0"));
  EXPECT_TRUE(has_device("cpu"));
}

TEST(NoDevice, ALibraryOfAnotherKindIsRefused) {
  const Variable library(kLibrary, "libm.so.6");
  expect_refused({"ask", kPicture, "What is this?", "--device", "cuda"},
                 "models do not run on this kind of device");
}

TEST(NoDevice, AMachineWithoutOneSaysSo) {
  const Variable library(kLibrary, std::nullopt);
  if (!std::filesystem::exists(cuda_library())) GTEST_SKIP() << "not built: libfovea_cuda.so";
  if (has_device("cuda:0")) GTEST_SKIP() << "there is a CUDA device on this machine";
  expect_refused({"ask", kPicture, "What is this?", "--device", "cuda"},
                 "device cuda: CUDA finds no device: ");
}

}  // namespace
}  // namespace fovea
