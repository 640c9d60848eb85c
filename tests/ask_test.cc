// SPDX-License-Identifier: Apache-2.0
// fovea ask and fovea chat, on the real program with a small random checkpoint.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using nlohmann::json;

const std::string kFixtures = source_dir() + "/tests/fixtures/ask/";
const std::string kModel = kFixtures;
const std::string kWide = kFixtures + "wide.png";
const std::string kTall = kFixtures + "tall.png";
const std::string kGazeModel = source_dir() + "/tests/fixtures/gaze";
const std::string kGazePicture = kGazeModel + "/scene.png";

json golden() { return json::parse(read_all(kFixtures + "golden.json")); }

json ask_json(std::vector<std::string> arguments, const std::string& stdin_file = "/dev/null") {
  arguments.insert(arguments.begin(), "ask");
  if (std::find(arguments.begin(), arguments.end(), "--model") == arguments.end())
    arguments.insert(arguments.end(), {"--model", kModel});
  arguments.emplace_back("--json");
  const Outcome run = run_fovea(arguments, stdin_file);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  return json::parse(run.out, nullptr, false);
}

TEST(Ask, JsonHoldsTheAnswerAndWhatItCost) {
  const json answer = ask_json({kWide, "What is on the table?", "--plan", "uniform", "--max-tokens",
                                "64", "--ignore-end", "--logprobs", "5"});
  const json expected = golden()["one"];
  EXPECT_EQ(answer["token_ids"], expected["tokens"]);
  EXPECT_EQ(answer["finish"], "length");
  ASSERT_EQ(answer["logprobs"].size(), 64u);
  for (size_t step = 0; step < 64; ++step) {
    const json& likely = answer["logprobs"][step]["top_logprobs"];
    ASSERT_EQ(likely.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(likely[i]["id"], expected["likely"][step][i]);
      EXPECT_NEAR(likely[i]["logprob"], expected["logprobs"][step][i], 1e-4);
    }
  }
  EXPECT_EQ(answer["usage"]["image_tokens"], 21);
  EXPECT_EQ(answer["usage"]["image_tokens_full"], 21);
  EXPECT_EQ(answer["usage"]["patches"], 84);
  EXPECT_EQ(answer["usage"]["text_tokens"], expected["prompt_ids"].size() - 21);
  EXPECT_EQ(answer["looks"].size(), 1u);
  EXPECT_GT(answer["times_ms"]["first_token"], 0);
  EXPECT_GT(answer["times_ms"]["load"], 0);
  EXPECT_GT(answer["peak_bytes"], 1 << 20);
}

TEST(Ask, TextIsTheSameAsInJsonAndStatsGoToStderr) {
  const json answer = ask_json({kWide, kTall, "What changed?", "--max-tokens", "20"});
  EXPECT_EQ(answer["looks"].size(), 2u);
  const Outcome run = run_fovea(
      {"ask", kWide, kTall, "What changed?", "--max-tokens", "20", "-m", kModel, "--stats"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, answer["text"].get<std::string>() + "\n");
  EXPECT_NE(run.err.find("first token"), std::string::npos) << run.err;
}

TEST(Ask, TheQuestionMayComeFromStdin) {
  const auto folder = scratch();
  std::ofstream(folder / "question.txt") << "What is this?\n";
  const json expected = ask_json({kWide, "What is this?", "--max-tokens", "8"});
  EXPECT_EQ(ask_json({kWide, "-", "--max-tokens", "8"}, folder / "question.txt")["token_ids"],
            expected["token_ids"]);
  EXPECT_EQ(ask_json({kWide, "--max-tokens", "8"}, folder / "question.txt")["token_ids"],
            expected["token_ids"]);
  EXPECT_EQ(ask_json({"-", "What is this?", "--max-tokens", "8"}, kWide)["token_ids"],
            expected["token_ids"]);
}

TEST(Ask, TraceAndGazeAreWritten) {
  const auto folder = scratch();
  const json answer = ask_json({kWide, kTall, "Which?", "--trace", folder / "trace.json", "--gaze",
                                folder / "gaze.png", "--max-tokens", "4", "--fixation", "2:30,140",
                                "--fixation", "10,10", "--budget", "7"});
  const json trace = json::parse(read_all(folder / "trace.json"));
  EXPECT_EQ(trace["token_ids"], answer["token_ids"]);
  EXPECT_EQ(trace["question"], "Which?");
  EXPECT_NE(trace["prompt"].get<std::string>().find("<|image_pad|>"), std::string::npos);
  ASSERT_EQ(trace["looks"].size(), 2u);
  for (const json& look : trace["looks"]) {
    EXPECT_EQ(look["attention"].size(), look["cells"].size());
    EXPECT_LE(look["cells"].size(), 7u);
    EXPECT_EQ(look["maps"]["relevance"].size(), look["canvas"][1].get<size_t>() / 32);
    EXPECT_EQ(look["fixations"].size(), 1u);
  }
  EXPECT_TRUE(read_all(folder / "gaze.png").starts_with("\x89PNG"));
  EXPECT_TRUE(read_all(folder / "gaze-2.png").starts_with("\x89PNG"));
}

TEST(Ask, LooksAreTracedOneByOne) {
  const auto folder = scratch();
  for (const std::string look : {"mixed", "crops"}) {
    const json answer = ask_json({kGazePicture, "Where?", "--model", kGazeModel, "--looks", "3",
                                  "--sure", "1", "--look", look, "--budget", "20", "--max-tokens",
                                  "3", "--trace", folder / "trace.json"});
    ASSERT_EQ(answer["looks"].size(), 1u);
    const json& one = answer["looks"][0];
    EXPECT_EQ(one["look"], look);
    ASSERT_EQ(one["saccades"].size(), 3u);
    json at = one["glance_tokens"];
    for (const json& saccade : one["saccades"]) {
      EXPECT_EQ(saccade["begin"], at);
      at = saccade["end"];
      EXPECT_GT(saccade["confidence"], 0);
      EXPECT_FALSE(saccade["fixations"].empty());
      EXPECT_EQ(saccade.contains("crops"), look == "crops");
    }
    EXPECT_EQ(at, one["tokens"]);
    EXPECT_EQ(one["cells"].size(), one["tokens"]);
    EXPECT_LE(one["tokens"], 20);
    EXPECT_GT(answer["times_ms"]["read"], 0);
    EXPECT_EQ(answer["confidence"], one["saccades"][2]["confidence"]);
    const json trace = json::parse(read_all(folder / "trace.json"));
    EXPECT_EQ(trace["token_ids"], answer["token_ids"]);
    for (const json& saccade : trace["looks"][0]["saccades"])
      for (const std::string map : {"coupling", "relevance"})
        EXPECT_EQ(saccade["maps"][map].size(), 5u) << "rows of level-0 cells";
    EXPECT_EQ(trace["looks"][0]["attention"].size(), trace["looks"][0]["cells"].size());
  }
  const json off = ask_json({kGazePicture, "Where?", "--model", kGazeModel, "--look", "off",
                             "--max-tokens", "3", "--budget", "20"});
  EXPECT_EQ(off["looks"][0]["tokens"], off["looks"][0]["glance_tokens"]);
  EXPECT_TRUE(off["looks"][0]["saccades"].empty());
}

TEST(Ask, TheGazePictureShowsTheScanPath) {
  const auto folder = scratch();
  const auto draw = [&](const std::string& looks) {
    const Outcome run =
        run_fovea({"ask", kGazePicture, "Where?", "-m", kGazeModel, "--looks", looks, "--sure", "1",
                   "--budget", "20", "-n", "1", "--gaze", folder / (looks + ".png")});
    EXPECT_EQ(run.status, 0) << run.err;
    return read_all(folder / (looks + ".png"));
  };
  const std::string one = draw("1");
  EXPECT_TRUE(one.starts_with("\x89PNG"));
  EXPECT_NE(one, draw("2"));
}

// A folder with a model named tiny, as $FOVEA_MODELS or beside a program that was moved.
TEST(Ask, WithoutAModelTinyIsFoundWhereverItIs) {
  namespace fs = std::filesystem;
  const auto folder = scratch();
  fs::create_directories(folder / "own");
  fs::copy(kGazeModel, folder / "own" / "tiny");
  const json expected =
      ask_json({kGazePicture, "Where?", "--max-tokens", "3", "--model", kGazeModel});
  const auto ask = [&](const std::string& program, const std::string& models) {
    const std::string out = folder / "out.json";
    const std::string command =
        (models.empty() ? "env -u FOVEA_MODELS " : "FOVEA_MODELS=" + models + " ") + program +
        " ask " + kGazePicture + " 'Where?' --max-tokens 3 --json > " + out + " < /dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return json::parse(read_all(out), nullptr, false);
  };
  EXPECT_EQ(ask(program_path(), (folder / "own").string())["token_ids"], expected["token_ids"]);
  for (const fs::path& beside : {fs::path("share") / "fovea" / "models", fs::path("models")}) {
    const fs::path prefix =
        folder / ("prefix-" + beside.filename().string() + std::to_string(beside.string().size()));
    fs::create_directories(prefix / "bin");
    fs::create_directories(prefix / beside);
    fs::copy_file(program_path(), prefix / "bin" / "fovea");
    fs::copy(kGazeModel, prefix / beside / "tiny");
    EXPECT_EQ(ask((prefix / "bin" / "fovea").string(), "")["token_ids"], expected["token_ids"]);
    // A link to the program leads to the program.
    fs::create_symlink(prefix / "bin" / "fovea", prefix / "linked");
    EXPECT_EQ(ask((prefix / "linked").string(), "")["token_ids"], expected["token_ids"]);
  }
}

TEST(Ask, APlanOfSeeIsTakenInAnyOrder) {
  const auto folder = scratch();
  const Outcome seen = run_fovea(
      {"see", kWide, "--plan", "quadtree", "--budget", "9", "--json", folder / "plan.json"});
  ASSERT_EQ(seen.status, 0) << seen.err;
  json plan = json::parse(read_all(folder / "plan.json"));
  // The program's own lower limit of pixels made another canvas of this small picture: choose cells
  // that are on both.
  plan["cells"] = json::parse("[[2,0,0],[0,0,0],[0,1,3],[1,0,1],[0,2,6],[2,0,1]]");
  std::ofstream(folder / "plan.json") << plan;
  const json first = ask_json({kWide, "Where?", "--plan", folder / "plan.json"});
  std::reverse(plan["cells"].begin(), plan["cells"].end());
  std::ofstream(folder / "plan.json") << plan;
  const json second = ask_json({kWide, "Where?", "--plan", folder / "plan.json"});
  EXPECT_EQ(first["usage"]["image_tokens"], 6);
  EXPECT_EQ(first["token_ids"], second["token_ids"]);
  EXPECT_EQ(first["logprobs"], second["logprobs"]) << "bit for bit";
}

TEST(Ask, BadUseIsRefusedInOneLine) {
  expect_refused({"ask"}, "words");
  expect_refused({"ask", kWide, "", "-m", kModel}, "question is empty");
  expect_refused({"ask", "-", "-", "-m", kModel}, "stdin");
  expect_refused({"ask", kWide, "-m", kModel}, "question is empty");  // an empty stdin
  expect_refused({"ask", "missing.jpg", "What?", "-m", kModel}, "missing.jpg");
  expect_refused({"ask", kWide, "What?", "-m", "no-such-model"}, "\"no-such-model\"");
  expect_refused({"ask", kWide, "What?", "-m", "no-such-model"}, "share/fovea/models");
  expect_refused({"ask", kWide, "What?", "-m", "no-such/model"}, "no-such/model");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--look", "twice"}, "twice");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--balance", "justice"}, "justice");
  expect_refused({"ask", kWide, "What?", "-m", source_dir()}, "config.json");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--weights", "int4"}, "int4");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--plan", "spiral"}, "spiral");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--plan", kWide}, "JSON");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--fixation", "2:1,1"}, "2:1,1");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--fixation", "900,1"}, "900");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--logprobs", "3"}, "--json");
  expect_refused({"ask", "What?", "-m", kModel, "--gaze", "gaze.png"}, "--gaze");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--device", "cuda:9"}, "cuda:9");
  for (const std::string flag : {"--budget", "--max-tokens", "--threads", "--looks"})
    for (const std::string value : {"-1", "0", "9223372036854775808", "nan", ""})
      expect_refused({"ask", kWide, "What?", "-m", kModel, flag, value}, flag);
  for (const std::string flag :
       {"--temperature", "--top-p", "--sure", "--min-p", "--repetition-penalty", "--top-k"})
    for (const std::string value : {"-1", "1e999", "nan", "", "x"})
      expect_refused({"ask", kWide, "What?", "-m", kModel, flag, value}, flag);
  const auto folder = scratch();
  expect_refused({"ask", kWide, "Why?", "-m", kModel, "--json", "--trace", folder}, folder);
  // Found before the model is looked for: no answer is lost for a folder that is not there.
  expect_refused({"ask", kWide, "Why?", "-m", "none", "--gaze", folder / "no" / "gaze.png"},
                 "gaze");
  expect_refused({"ask", folder / "missing.png", "Why?", "-m", "none"}, "missing.png");
}

TEST(Ask, ControlCEndsAnAnswerCleanly) {
  const auto folder = scratch();
  const std::string out = folder / "out.txt";
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    execl(program_path().c_str(), "fovea", "ask", kWide.c_str(), "Why?", "-m", kModel.c_str(),
          "--max-tokens", "100000", "--ignore-end", "--temperature", "1", "--trace",
          (folder / "trace.json").c_str(), nullptr);
    _exit(127);
  }
  while (read_all(out).empty()) usleep(1000);
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  const json trace = json::parse(read_all(folder / "trace.json"));
  // On a fast machine the context may have ended first.
  EXPECT_EQ(WEXITSTATUS(status), trace["finish"] == "cancelled" ? 130 : 0);
  EXPECT_EQ(read_all(out), trace["text"].get<std::string>() + "\n");
}

TEST(Chat, AnswersALineAtATimeAndKeepsTheConversation) {
  const auto folder = scratch();
  std::ofstream(folder / "lines.txt") << "What is this?\n/look 20,20\nAnd there?\n/look\n\n/new\n"
                                         "What is this?\n/quit\nnever asked\n";
  const Outcome run =
      run_fovea({"chat", kWide, "-m", kModel, "--max-tokens", "8", "-q", "--stop", "\n"},
                folder / "lines.txt");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const json once = ask_json({kWide, "What is this?", "--max-tokens", "8", "--stop", "\n"});
  const std::string answer = once["text"].get<std::string>() + "\n";
  EXPECT_TRUE(run.out.starts_with(answer)) << run.out;
  EXPECT_TRUE(run.out.ends_with(answer)) << "after /new the same again: " << run.out;
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 3) << run.out;
}

TEST(Chat, AWrongLineIsNoEnd) {
  const auto folder = scratch();
  std::ofstream(folder / "lines.txt") << "/look 5000,1\nWhat?\n/look\n/nonsense\nWhat?\n";
  const Outcome run =
      run_fovea({"chat", kWide, "-m", kModel, "--max-tokens", "4"}, folder / "lines.txt");
  EXPECT_EQ(run.status, 1) << "a question failed";
  EXPECT_NE(run.err.find("5000"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("/quit"), std::string::npos) << "help: " << run.err;
  EXPECT_FALSE(run.out.empty()) << "the second question is answered";
}

}  // namespace
}  // namespace fovea
