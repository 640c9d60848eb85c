// SPDX-License-Identifier: Apache-2.0
// What the program does with files that are none, JSON without a bottom, and names that would take
// over a terminal.
#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kModel = source_dir() + "/tests/fixtures/ask/";
const std::string kPicture = kModel + "wide.png";
const std::string kDeep = std::string(150'000, '[') + std::string(150'000, ']');

std::string write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

std::string fifo(const fs::path& path) {
  EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  return path.string();
}

fs::path copy_of_model(const fs::path& folder) {
  fs::copy(kModel, folder / "model");
  return folder / "model";
}

std::vector<std::string> ask(const std::string& picture, std::vector<std::string> more) {
  std::vector<std::string> words = {"ask", picture, "What?", "-n", "1"};
  words.insert(words.end(), more.begin(), more.end());
  if (std::find(words.begin(), words.end(), "-m") == words.end())
    words.insert(words.end(), {"-m", kModel});
  return words;
}

TEST(Read, FilesOfOtherKindsAreRefused) {
  const fs::path folder = scratch();
  for (const auto& [path, kind] : {std::pair<std::string, std::string>{"/dev/zero", "a device"},
                                   {folder.string(), "a folder"}}) {
    expect_refused(ask(path, {}), "it is " + kind);
    expect_refused({"see", path}, "it is " + kind);
    expect_refused({"see", kPicture, "--coupling", path}, "it is " + kind);
    expect_refused({"profile", path, "What?", "-m", kModel}, "it is " + kind);
    expect_refused(ask(kPicture, {"--plan", path}), "it is " + kind);
    expect_refused({"tokenize", "--model", path == "/dev/zero" ? path : kModel + "/wide.png"},
                   path == "/dev/zero" ? "it is a device" : "not valid JSON");
  }
  expect_refused({"eval", "--data", "/dev/zero", "-m", kModel}, "it is a device");
  expect_refused({"eval", "--cards", "1", "-m", kModel, "--resume", "/dev/zero"}, "");
}

TEST(Read, AModelsFilesAreFiles) {
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json",
                           "tokenizer.json", "config.json", "generation_config.json"}) {
    const fs::path model = copy_of_model(scratch());
    fs::remove(model / name);
    fifo(model / name);
    expect_refused(ask(kPicture, {"-m", model.string()}), "is a pipe");
    if (std::string(name).ends_with(".json"))
      expect_refused({"eval", "--cards", "1", "-m", model.string()}, "is a pipe");
  }
}

TEST(Read, PicturesAndPlansComeThroughPipes) {
  const fs::path folder = scratch();
  const auto through = [&](const char* name, const std::string& file) {
    const std::string pipe = fifo(folder / name);
    std::thread([=] { std::ofstream(pipe, std::ios::binary) << read_all(file); }).detach();
    return pipe;
  };
  const std::string file = write(folder / "plan.json", R"({"cells":[[0,0,0],[0,1,1]]})");
  const Outcome direct = run_fovea(ask(kPicture, {"--plan", file}));
  ASSERT_EQ(direct.status, 0) << direct.err;
  const std::string picture = through("picture", kPicture);
  const std::string plan = through("plan", file);
  const Outcome piped = run_fovea(ask(picture, {"--plan", plan}));
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_EQ(piped.out, direct.out);
}

TEST(Read, StdinHasALimitAndIsNoFolder) {
  const Outcome endless = run_fovea({"ask", kPicture, "-", "-m", kModel}, "/dev/zero");
  EXPECT_EQ(endless.status, 2);
  EXPECT_NE(endless.err.find("more than 16777216 bytes"), std::string::npos) << endless.err;
  const Outcome chat = run_fovea({"chat", kPicture, "-m", kModel}, "/dev/zero");
  EXPECT_EQ(chat.status, 2);
  EXPECT_NE(chat.err.find("a line on stdin has more than"), std::string::npos) << chat.err;
  const Outcome folder = run_fovea({"tokenize", "--model", kModel}, "/");
  EXPECT_EQ(folder.status, 2);
  EXPECT_NE(folder.err.find("cannot read stdin"), std::string::npos) << folder.err;
}

TEST(Read, ALongQuestionIsRefusedByItsSize) {
  const fs::path folder = scratch();
  for (const auto& [bytes, must_say] :
       {std::pair<size_t, const char*>{10'485'760, "10,485,760 bytes, over the limit of 4,194,304"},
        {3'000'000, "3,000,0"}}) {
    const std::string question = write(folder / "question", std::string(bytes, 'a'));
    const Outcome run = run_fovea({"ask", kPicture, "-", "-m", kModel}, question);
    EXPECT_EQ(run.status, 2);
    EXPECT_NE(run.err.find(must_say), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("the model's context is"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("shorten"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("template"), std::string::npos) << run.err;
  }
}

// 24 MB of text that would become 640 MB.
TEST(Read, JsonThatTakesMuchMoreThanItsTextIsRefused) {
  const fs::path folder = scratch();
  std::string lists = "[[]";
  for (int i = 0; i < 8'000'000; ++i) lists += ",[]";
  const std::string text = "{\"cells\":" + lists + "]}";
  const char* must_say = "its values take more than 536,870,912 bytes of memory";
  expect_refused(ask(kPicture, {"--plan", write(folder / "plan.json", text)}), must_say);
  expect_refused({"eval", "-m", kModel, "--data", write(folder / "data.jsonl", text + "\n")},
                 must_say);
}

TEST(Read, JsonWithoutABottomIsRefused) {
  const fs::path folder = scratch();
  const fs::path model = copy_of_model(folder);
  for (const char* key : {"chat_template", "eos_token"}) {
    write(model / "tokenizer_config.json", "{\"" + std::string(key) + "\":" + kDeep + "}");
    expect_refused(ask(kPicture, {"-m", model.string()}), "more than 64 levels");
  }
  expect_refused(ask(kPicture, {"--plan", write(folder / "plan", "{\"cells\":" + kDeep + "}")}),
                 "more than 64 levels");
  expect_refused({"eval", "-m", kModel, "--data", write(folder / "q.json", kDeep)},
                 "more than 64 levels");
  expect_refused({"eval", "--cards", "1", "-m", kModel, "--resume",
                  write(folder / "resume", "{\"settings\":" + kDeep + "}\n")},
                 "no file of fovea eval");
  for (const char* flag : {"--plain", "--decode"}) {
    const Outcome run = run_fovea({"tokenize", "--model", kModel, flag},
                                  write(folder / "lines", "[" + kDeep + "]\n"));
    EXPECT_EQ(run.status, 2);
    EXPECT_NE(run.err.find("line 1 on stdin: it has more than 64 levels"), std::string::npos)
        << run.err;
  }
}

TEST(ForeignWords, ShowNothingThatATerminalActsOn) {
  const fs::path folder = scratch();
  const std::string evil = "\x1b]0;owned\x07\x1b[2J\r\n\xff";
  const std::vector<std::vector<std::string>> wrong = {
      {evil},
      {"see", evil},
      {"see", kPicture, "--plan", evil},
      {"see", kPicture, "--budget", evil},
      {"see", kPicture, "--fixation", evil},
      {"see", kPicture, "--coupling", evil},
      {"see", kPicture, "--balance", evil},
      {"see", kPicture, "--device", evil},
      {"see", kPicture, "--threads", evil},
      {"see", kPicture, "-o", "/none/" + evil},
      {"see", kPicture, "--json", "/none/" + evil},
      {"see", kPicture, "--maps", "/dev/null/" + evil},
      {"see", kPicture, "--" + evil},
      ask(evil, {}),
      ask(kPicture, {"--plan", evil}),
      ask(kPicture, {"--look", evil}),
      ask(kPicture, {"--weights", evil}),
      ask(kPicture, {"--temperature", evil}),
      ask(kPicture, {"--gaze", "/none/" + evil}),
      ask(kPicture, {"--trace", "/none/" + evil}),
      ask(kPicture, {"-m", evil}),
      ask(kPicture, {"-m", "./" + evil}),
      {"eval", "--data", evil},
      {"eval", "--cards", "1", "--families", evil},
      {"eval", "--cards", "1", "--payload", evil},
      {"eval", "--cards", "1", "--resume", "/none/" + evil},
      {"cards", "-n", "1", "-o", "/dev/null/" + evil},
      {"cards", "-n", "1", "-o", folder.string(), "--photos", evil},
      {"profile", evil, "What?"},
      {"bench", evil},
      {"tokenize", "--model", evil},
      {"chat", evil, "-m", kModel},
      {"chat", kPicture, "-m", evil},
      {"chat", kPicture, "-m", kModel, "--plan", evil},
      {"batch", evil, "--question", "Q", "-m", kModel, "-o", "-"},
      {"batch", kPicture, "--question", "Q", "-m", evil, "-o", "-"},
      {"batch", kPicture, "--question", "Q", "-m", kModel, "-o", "/none/" + evil},
      {"serve", "-m", evil, "--port", "0", "-q"},
      {"serve", "-m", kModel, "--port", evil},
      {"serve", "-m", kModel, "--port", "0", "-q", "--allow-folder", "/none/" + evil},
      {"view", evil, "-o", "-"},
      {"view", write(folder / "trace.json", evil), "-o", "-"},
      {"view", write(folder / "empty.json", R"({"looks":[]})"), "-o", "/none/" + evil}};
  const auto expect_quiet = [](const Outcome& run, const std::string& what) {
    for (const std::string& text : {run.out, run.err})
      for (const char c : text)
        ASSERT_TRUE(c == '\n' || static_cast<uint8_t>(c) >= 0x20) << what << "\n" << text;
    EXPECT_EQ(run.err.find('\xff'), std::string::npos) << what;
    EXPECT_LE(run.err.size(), 2000u) << what;
  };
  for (const auto& words : wrong) {
    const Outcome run = run_fovea(words);
    std::string shown;
    for (const std::string& word : words) shown += " " + word;
    EXPECT_EQ(run.status, 2) << shown << "\n" << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    expect_quiet(run, shown);
  }
  // What succeeds names files too.
  expect_quiet(run_fovea({"see", kPicture, "-o", (folder / evil).string()}), "see -o");
  expect_quiet(run_fovea({"cards", "-n", "1", "-o", (folder / evil).string()}), "cards -o");
  ASSERT_EQ(setenv("FOVEA_MODELS", evil.c_str(), 1), 0);
  expect_quiet(run_fovea(ask(kPicture, {"-m", "none"})), "FOVEA_MODELS");
  unsetenv("FOVEA_MODELS");
  const fs::path model = copy_of_model(folder);
  write(model / "chat_template.jinja", "{{ raise_exception('\x1b[2J\\x1b[2J') }}");
  const Outcome raised = run_fovea(ask(kPicture, {"-m", model.string()}));
  EXPECT_NE(raised.status, 0);
  expect_quiet(raised, raised.err);
}

TEST(ForeignWords, TablesShowNothingThatATerminalActsOn) {
  const fs::path folder = scratch();
  fs::copy(kPicture, folder / "a.png");
  const json question = {
      {"image", "a.png"}, {"text", "What?"}, {"answer", "1"}, {"family", "\x1b[2J\nred"}};
  write(folder / "q.jsonl", question.dump() + "\n");
  const Outcome run = run_fovea({"eval", "--data", folder.string(), "-m", kModel, "--arms",
                                 "uniform", "--budgets", "4", "-n", "1"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\\x1b[2J red"), std::string::npos) << run.out;
}

// A name that the system does not take is wrong input, and told in our words.
TEST(ForeignWords, AreNotThoseOfALibrary) {
  const fs::path folder = scratch();
  const std::string deep_name(5000, 'x');
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"see", deep_name},
        {"see", kPicture, "-o", deep_name},
        {"see", kPicture, "--maps", deep_name},
        {"see", kPicture, "--coupling", deep_name},
        ask(deep_name, {}),
        ask(kPicture, {"-m", deep_name}),
        ask(kPicture, {"-m", "./" + deep_name}),
        ask(kPicture, {"--plan", deep_name}),
        ask(kPicture, {"--plan", folder.string()}),
        ask(kPicture, {"--trace", deep_name + "/x"}),
        {"eval", "--data", deep_name, "-m", kModel},
        {"eval", "--cards", "1", "-m", kModel, "--resume", deep_name},
        {"eval", "--cards", "1", "-m", deep_name},
        {"cards", "-n", "1", "-o", deep_name},
        {"cards", "-n", "1", "-o", folder.string(), "--photos", deep_name},
        {"cards", "-n", "1", "-o", folder.string(), "--photos", kPicture},
        {"profile", folder.string(), "What?", "-m", kModel},
        {"tokenize", "--model", deep_name}}) {
    const Outcome run = run_fovea(words);
    EXPECT_EQ(run.status, 2) << words[0] << " " << run.err;
    for (const char* raw : {"filesystem error", "basic_", "exception", "std::", "what()"})
      EXPECT_EQ(run.err.find(raw), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
  // A name that is no UTF-8 goes into JSON all the same.
  fs::copy(kPicture, folder / "a.png");
  const std::string data =
      write(folder / "q\xff.jsonl", R"({"image":"a.png","text":"What?","answer":"1"})");
  const Outcome run = run_fovea({"eval", "--data", data, "-m", kModel, "--arms", "uniform",
                                 "--budgets", "4", "-n", "1", "--json", "-"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(json::accept(run.out)) << run.out;
}

TEST(ForeignWords, WhatAFileHoldsIsNotShown) {
  const fs::path folder = scratch();
  const Outcome run = run_fovea({"see", write(folder / "passwd", "root:x:0:0:root:/root")});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("does not begin as any known image"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("72 6f"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace fovea
