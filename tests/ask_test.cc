// SPDX-License-Identifier: Apache-2.0
// fovea ask and fovea chat, on the real program with a small random checkpoint.
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

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

TEST(Ask, MemoryBoundsKeysAndValues) {
  const std::vector<std::string> question = {kWide, "What is it?", "--max-tokens", "4"};
  const json roomy = ask_json(question);
  const json& memory = roomy["usage"]["memory"];
  EXPECT_GT(memory["resident"], 0);
  EXPECT_GE(memory["reserved"], memory["resident"]);
  EXPECT_EQ(memory["free"], memory["capacity"].get<int64_t>() - memory["resident"].get<int64_t>());

  auto bounded = question;
  bounded.insert(bounded.end(), {"--memory", "100000000"});
  const json answer = ask_json(bounded);
  EXPECT_EQ(answer["token_ids"], roomy["token_ids"]);
  EXPECT_LE(answer["usage"]["memory"]["capacity"], 100'000'000);

  auto refused = question;
  refused.insert(refused.begin(), "ask");
  refused.insert(refused.end(), {"--model", kModel, "--memory", "1000"});
  const Outcome run = run_fovea(refused);
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(run.err.starts_with("fovea: keys and values of ")) << run.err;
  EXPECT_NE(run.err.find("but 0 B of 0 B are left"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1);
}

TEST(Ask, PenaltiesAndBiasesDecideWhatIsDrawn) {
  const auto ids = [](std::vector<std::string> more) {
    more.insert(more.begin(), {kWide, "What is it?", "--max-tokens", "12"});
    return ask_json(more)["token_ids"].get<std::vector<int>>();
  };
  const std::vector<int> plain = ids({"--ignore-end"});
  const std::vector<int> banned =
      ids({"--ignore-end", "--logit-bias", std::to_string(plain[0]) + ":-100"});
  EXPECT_EQ(std::count(banned.begin(), banned.end(), plain[0]), 0);
  EXPECT_EQ(ids({"--logit-bias", "5:99.5", "--logit-bias", "6:-100"}), std::vector<int>(12, 5));
  // Two tokens with the same bias alternate: each time one is drawn, it falls behind.
  for (const std::string flag : {"--frequency-penalty", "--presence-penalty"}) {
    const std::vector<int> two = ids({"--logit-bias", "5:60", "--logit-bias", "6:60", flag, "2"});
    EXPECT_GT(std::count(two.begin(), two.end(), 5), 0) << flag;
    EXPECT_GT(std::count(two.begin(), two.end(), 6), 0) << flag;
    const std::vector<int> again =
        ids({"--logit-bias", "5:60", "--logit-bias", "6:60", flag, "-2"});
    EXPECT_EQ(again, std::vector<int>(12, again[0])) << flag;
  }
  // 702 ends an answer.
  EXPECT_EQ(ids({"--logit-bias", "702:100"}), std::vector{702});
  const std::vector<int> later = ids({"--logit-bias", "702:100", "--least-tokens", "6"});
  ASSERT_EQ(later.size(), 7u);
  EXPECT_EQ(std::find(later.begin(), later.end(), 702) - later.begin(), 6);
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
  ASSERT_EQ(trace["answer_attention"].size(), trace["token_ids"].size());
  for (const json& token : trace["answer_attention"]) {
    EXPECT_TRUE(token["token"].is_string() && token["bytes"].is_array());
    ASSERT_EQ(token["looks"].size(), 2u);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(token["looks"][i].size(), trace["looks"][i]["cells"].size());
  }
  EXPECT_TRUE(read_all(folder / "gaze.png").starts_with("\x89PNG"));
  EXPECT_TRUE(read_all(folder / "gaze-2.png").starts_with("\x89PNG"));
}

TEST(Ask, ATraceMayHoldItsPicturesAndBecomesAPage) {
  const auto folder = scratch();
  const json answer = ask_json({kWide, kTall, "Which?", "--trace", folder / "trace.json",
                                "--trace-picture", "--max-tokens", "2"});
  const json trace = json::parse(read_all(folder / "trace.json"));
  ASSERT_EQ(trace["looks"].size(), 2u);
  for (const json& look : trace["looks"])
    EXPECT_TRUE(look["picture"].get<std::string>().starts_with("data:image/"));
  EXPECT_NE(trace["looks"][0]["picture"], trace["looks"][1]["picture"]);
  EXPECT_EQ(run_fovea({"view", folder / "trace.json", "-o", folder / "page.html"}).status, 0);
  EXPECT_TRUE(read_all(folder / "page.html").starts_with("<!doctype html>"));
  const Outcome bad = run_fovea({"view", kWide, "-o", folder / "bad.html"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 1) << bad.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "bad.html"));
  EXPECT_EQ(run_fovea({"ask", kWide, "What?", "--trace-picture"}).status, 2) << "without --trace";
}

// Nobody reads a pipe twice.
TEST(Ask, ATraceHoldsThePicturesThatWereAnswered) {
  const auto folder = scratch();
  const std::string trace = folder / "trace.json";
  const std::vector<std::string> more = {
      "Which?", "--trace-picture", "--trace", trace, "-n", "1", "-m", kModel};
  const auto picture = [&](const std::string& image, const std::string& stdin_file) {
    std::vector<std::string> words = {"ask", image};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome run = run_fovea(words, stdin_file);
    EXPECT_EQ(run.status, 0) << run.err;
    const json read = json::parse(read_all(trace), nullptr, false);
    return read["looks"][0]["picture"].get<std::string>();
  };
  const std::string of_file = picture(kWide, "/dev/null");
  EXPECT_TRUE(of_file.starts_with("data:image/png;base64,iVBOR"));
  EXPECT_EQ(picture("-", kWide), of_file);
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << read_all(kWide); });
  EXPECT_EQ(picture(pipe, "/dev/null"), of_file);
  writer.join();
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
  // The program's own lower limit of pixels made another canvas of this small picture.
  std::ofstream(folder / "other.json") << plan;
  expect_refused({"ask", kWide, "Where?", "-m", kModel, "--plan", folder / "other.json"},
                 "but this image has one of 224x96 px");
  plan["canvas"] = {224, 96};
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

TEST(Ask, PlanFilesDoWhatTheySayOrAreRefused) {
  const auto folder = scratch();
  const auto plan = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  const auto refused = [&](std::vector<std::string> arguments, const std::string& must_say) {
    arguments.insert(arguments.begin(), "ask");
    arguments.insert(arguments.end(), {"Where?", "-m", kModel});
    expect_refused(arguments, must_say);
  };
  refused({kWide, "--plan", plan("empty.json", R"({"cells":[]})")}, "no cells");
  refused({kWide, "--plan", plan("maker.json", R"({"plan":5,"cells":[[0,0,0]]})")}, "\"plan\"");
  refused({kWide, "--plan", plan("canvas.json", R"({"canvas":[32],"cells":[[0,0,0]]})")},
          "\"canvas\"");
  refused({kWide, "--plan", plan("level.json", R"({"cells":[[9,0,0]]})")}, "[9,0,0]");
  refused({kWide, "--plan", plan("row.json", R"({"cells":[[0,3,0]]})")}, "[0,3,0]");
  refused({kWide, "--plan", plan("twice.json", R"({"cells":[[0,1,1],[0,0,0],[0,1,1]]})")},
          "[0,1,1] twice");

  const std::string three = plan("three.json", R"({"cells":[[0,0,0],[0,1,1],[0,2,2]]})");
  const std::string two = plan("two.json", R"({"cells":[[0,0,0],[1,0,0]]})");
  refused({kWide, "--plan", three, "-b", "2"}, "3 cells, but the budget is 2");
  EXPECT_EQ(
      ask_json({kWide, "Where?", "--plan", three, "-b", "3", "-n", "1"})["usage"]["image_tokens"],
      3);
  refused({kWide, kTall, "--plan", three}, "1 plan file for 2 pictures");
  refused({kWide, "--plan", three, "--plan", two}, "2 plan files for 1 picture");
  refused({"--plan", three}, "1 plan file for 0 pictures");
  refused({kWide, kTall, "--plan", three, "--plan", "uniform"}, "uniform");
  refused({kWide, "--plan", "uniform", "--plan", "quadtree"}, "uniform");
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--look", "mixed"},
                                                        {"--looks", "2"},
                                                        {"--balance", "sum"},
                                                        {"--sure", "0.5"},
                                                        {"--relook", "0.5"}})
    refused({kWide, "--plan", three, flag, value}, "leave " + flag + " out");
  refused({kWide, "--plan", three, "--fixation", "10,10"}, "--fixation '10,10': a plan file");
  const json both = ask_json({kWide, kTall, "Where?", "--plan", three, "--plan", two, "-n", "1"});
  EXPECT_EQ(both["looks"][0]["tokens"], 3);
  EXPECT_EQ(both["looks"][1]["tokens"], 2);
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
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--attention", "none"},
                 "there is no attention \"none\": choose one of dense");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--attention", "hierarchical:0"},
                 "above 0 and up to 1");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--attention-text", "local3"},
                 "for the tower alone");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--kv", "int4"},
                 "kv \"int4\": there is no such format");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--relook", "2"}, "relook");
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
  for (const std::string flag : {"--temperature", "--top-p", "--sure", "--min-p",
                                 "--repetition-penalty", "--top-k", "--least-tokens"})
    for (const std::string value : {"-1", "1e999", "nan", "", "x"})
      expect_refused({"ask", kWide, "What?", "-m", kModel, flag, value}, flag);
  for (const std::string flag : {"--frequency-penalty", "--presence-penalty"})
    for (const std::string value : {"-2.1", "2.1", "1e999", "nan", "", "x"})
      expect_refused({"ask", kWide, "What?", "-m", kModel, flag, value}, flag);
  for (const std::string value :
       {"", ":", "5", "5:", ":5", "x:1", "5:x", "-1:1", "5:101", "5:-101", "5:nan", "5:1 ", "5 :1"})
    expect_refused({"ask", kWide, "What?", "-m", kModel, "--logit-bias", value}, "--logit-bias");
  expect_refused({"chat", kWide, "-m", kModel, "--logit-bias", "5"}, "--logit-bias '5'");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "--logit-bias", "720:1"},
                 "logit_bias names token 720, but the model has tokens 0 to 719");
  expect_refused({"ask", kWide, "What?", "-m", kModel, "-n", "3", "--least-tokens", "4"},
                 "least_tokens 4 is more than max_tokens 3");
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
