// SPDX-License-Identifier: Apache-2.0
// fovea batch on the real program, with the embedded model and scenes of fovea cards.
#include <sys/file.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kQuestion = "Which code is on the red star?";

// Folders of one test: `pictures` holds so many scenes, 000000.png and on.
struct Scenes {
  fs::path folder;
  fs::path pictures;
  std::string output;

  explicit Scenes(int count) : folder(scratch()), pictures(folder / "cards" / "images") {
    output = folder / "answers.jsonl";
    const Outcome run = run_fovea({"cards", "--count", std::to_string(count), "--size", "512",
                                   "--seed", "7", "-q", "-o", folder / "cards"});
    EXPECT_EQ(run.status, 0) << run.err;
  }
  std::string picture(int number) const {
    return pictures / (std::string(5, '0') + std::to_string(number) + ".png");
  }
};

std::vector<std::string> command(std::vector<std::string> words, const std::string& output,
                                 const std::vector<std::string>& more = {}) {
  words.insert(words.begin(), "batch");
  words.insert(words.end(), {"--question", kQuestion, "--max-tokens", "8", "-o", output});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Each line as JSON, without the times, which differ from run to run.
std::vector<json> lines_of(const std::string& text) {
  EXPECT_TRUE(text.empty() || text.back() == '\n') << "half a line";
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(json::parse(line, nullptr, false));
    EXPECT_TRUE(lines.back().is_object()) << line;
    lines.back().erase("times_ms");
  }
  return lines;
}

// Those of a file, which begins with its settings.
std::vector<json> answers_in(const std::string& path) {
  std::vector<json> lines = lines_of(read_all(path));
  if (lines.empty() || !lines.front().contains("settings")) {
    ADD_FAILURE() << path << " has no settings";
    return lines;
  }
  lines.erase(lines.begin());
  return lines;
}

std::vector<std::string> pictures_of(const std::vector<json>& lines) {
  std::vector<std::string> pictures;
  for (const json& line : lines) pictures.push_back(line["picture"]);
  return pictures;
}

TEST(Batch, EachAnswerIsThatOfAsk) {
  const Scenes scenes(3);
  const Outcome run = run_fovea(command({scenes.pictures}, scenes.output));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(run.err.starts_with("3 pictures, 0 failed; ")) << run.err;
  EXPECT_NE(run.err.find("images/s"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("visual tokens, all would be 768"), std::string::npos) << run.err;
  const auto lines = answers_in(scenes.output);
  ASSERT_EQ(lines.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const json& line = lines[static_cast<size_t>(i)];
    const Outcome asked =
        run_fovea({"ask", scenes.picture(i), kQuestion, "--max-tokens", "8", "--json"});
    json answer = json::parse(asked.out);
    answer["usage"].erase("memory");
    EXPECT_EQ(line["picture"], scenes.picture(i));
    EXPECT_EQ(line["tokens"], answer["token_ids"].size());
    for (const char* part : {"text", "finish", "usage", "confidence"})
      EXPECT_EQ(line[part], answer[part]) << part << " of " << scenes.picture(i);
  }
}

TEST(Batch, AnswersDoNotDependOnHowManyAreAtWork) {
  const Scenes scenes(6);
  std::vector<json> first;
  for (const auto& [at_once, threads] :
       {std::pair{"1", "1"}, {"8", "1"}, {"8", "3"}, {"2", "2"}, {"64", "2"}}) {
    const Outcome run = run_fovea(
        command({scenes.pictures}, "-", {"--at-once", at_once, "--threads", threads, "-q"}));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.err, "");
    const auto lines = lines_of(run.out);
    EXPECT_EQ(lines.size(), 6u);
    if (first.empty()) first = lines;
    EXPECT_EQ(lines, first) << at_once << " at once, " << threads << " threads";
  }
}

TEST(Batch, FoldersAreReadInOrderAndRingsOnce) {
  const Scenes scenes(1);
  const fs::path root = scenes.folder / "photos";
  fs::create_directories(root / "b" / "inner");
  fs::create_directories(root / "empty");
  const std::vector<std::string> wanted = {root / "a.PNG", root / "b" / "inner" / "x.JpEg",
                                           root / "b" / "z.webp", root / "c.jpg"};
  for (const std::string& path : wanted) fs::copy_file(scenes.picture(0), path);
  for (const std::string name : {"notes.txt", "png", ".hidden.png", "c.jpg.part"})
    fs::copy_file(scenes.picture(0), root / name);
  fs::create_directory_symlink(root, root / "b" / "ring");
  fs::create_directory_symlink(root / "b", root / "d");
  const Outcome run = run_fovea(command({root, scenes.picture(0)}, scenes.output, {"-q"}));
  EXPECT_EQ(run.status, 0) << run.err;
  auto pictures = wanted;
  pictures.push_back(scenes.picture(0));
  EXPECT_EQ(pictures_of(answers_in(scenes.output)), pictures);
  // A file that is named is a picture whatever its name.
  EXPECT_EQ(run_fovea(command({root / "png"}, "-", {"-q"})).status, 0);
}

TEST(Batch, AnUnreadablePictureIsALine) {
  const Scenes scenes(4);
  std::ofstream(scenes.picture(1)) << "once upon a time";
  fs::remove(scenes.picture(2));
  fs::create_symlink("nowhere", scenes.picture(2));
  const Outcome run = run_fovea(command({scenes.pictures}, scenes.output));
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(run.err.starts_with("4 pictures, 2 failed; ")) << run.err;
  EXPECT_NE(
      run.err.find("\nfovea: 2 of 4 pictures failed; the first: cannot read " + scenes.picture(1)),
      std::string::npos)
      << run.err;
  const auto lines = answers_in(scenes.output);
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines[i]["picture"], scenes.picture(static_cast<int>(i)));
    EXPECT_EQ(lines[i].contains("error"), i == 1 || i == 2) << lines[i];
    EXPECT_EQ(lines[i].contains("text"), i == 0 || i == 3) << lines[i];
  }
  // It is told again by a run that has nothing to do, and nothing is asked again.
  const std::string kept = read_all(scenes.output);
  EXPECT_EQ(run_fovea(command({scenes.pictures}, scenes.output)).status, 1);
  EXPECT_EQ(read_all(scenes.output), kept);
}

// Starts the program and ends it by a signal once the file has so many lines.
int run_until(std::vector<std::string> arguments, const std::string& output, long lines,
              int signal) {
  std::string program = program_path();
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  const auto there = [&] {
    const std::string text = read_all(output);
    return std::count(text.begin(), text.end(), '\n');
  };
  int status = 0;
  while (there() < lines && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
  kill(child, signal);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Batch, GoesOnAfterItWasKilled) {
  const Scenes scenes(12);
  const std::string unbroken = scenes.folder / "unbroken.jsonl";
  EXPECT_EQ(run_fovea(command({scenes.pictures}, unbroken, {"-q"})).status, 0);
  const auto whole = command({scenes.pictures}, scenes.output, {"-q", "--at-once", "2"});
  EXPECT_EQ(run_until(whole, scenes.output, 4, SIGKILL), 128 + SIGKILL);
  const std::string kept = read_all(scenes.output);
  EXPECT_LT(std::count(kept.begin(), kept.end(), '\n'), 13);
  const Outcome run = run_fovea(command({scenes.pictures}, scenes.output));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.err.find(" of them before"), std::string::npos) << run.err;
  EXPECT_TRUE(read_all(scenes.output).starts_with(kept.substr(0, kept.rfind('\n') + 1)));
  EXPECT_EQ(answers_in(scenes.output), answers_in(unbroken));

  // A last line that was cut off anywhere, the first one too, is written again.
  const std::string text = read_all(scenes.output);
  for (const size_t size : {text.size() - 1, text.size() - 100, size_t{40}}) {
    fs::resize_file(scenes.output, size);
    EXPECT_EQ(run_fovea(whole).status, 0) << size;
    EXPECT_EQ(answers_in(scenes.output), answers_in(unbroken)) << size;
  }
}

TEST(Batch, AnInterruptKeepsWhatIsDone) {
  const Scenes scenes(12);
  const auto whole = command({scenes.pictures}, scenes.output, {"-q", "--at-once", "2"});
  EXPECT_EQ(run_until(whole, scenes.output, 4, SIGINT), 130);
  const size_t kept = answers_in(scenes.output).size();
  EXPECT_GE(kept, 3u);
  EXPECT_LT(kept, 12u);
  EXPECT_EQ(run_fovea(whole).status, 0);
  EXPECT_EQ(answers_in(scenes.output).size(), 12u);
}

TEST(Batch, FilesOfOthersAreRefusedAndKept) {
  const Scenes scenes(2);
  for (const std::string& text :
       {std::string("once upon a time"), std::string("{\"picture\": \"a.png\"}\n"),
        std::string("{\"settings\":{}}\n"), std::string("\n"), std::string(100, '\0')}) {
    std::ofstream(scenes.output, std::ios::binary) << text;
    expect_refused(command({scenes.pictures}, scenes.output), scenes.output);
    EXPECT_EQ(read_all(scenes.output), text);
  }
  fs::remove(scenes.output);
  ASSERT_EQ(run_fovea(command({scenes.pictures}, scenes.output, {"-q"})).status, 0);
  const std::string text = read_all(scenes.output);
  std::ofstream(scenes.output, std::ios::app) << "a note of mine";
  expect_refused(command({scenes.pictures}, scenes.output), "no record of fovea batch");
  EXPECT_EQ(read_all(scenes.output), text + "a note of mine");
  expect_refused(command({scenes.pictures}, scenes.folder / "no" / "such.jsonl"), "such.jsonl");
  expect_refused(command({scenes.pictures}, scenes.folder), "-o");
  expect_refused(command({scenes.pictures}, "/dev/null"), "no regular file");
}

TEST(Batch, AnotherRunIsRefused) {
  const Scenes scenes(3);
  const std::vector<std::string> two = {scenes.picture(0), scenes.picture(1)};
  ASSERT_EQ(run_fovea(command(two, scenes.output, {"-q"})).status, 0);
  const std::string kept = read_all(scenes.output);
  auto other = command(two, scenes.output);
  std::replace(other.begin(), other.end(), kQuestion, std::string("How many cards are red?"));
  expect_refused(other, "question is \"Which code is on the red star?\" there");
  expect_refused(command(two, scenes.output, {"--budget", "64"}), "budget is \"default\" there");
  expect_refused(command(two, scenes.output, {"--weights", "int8"}), "weights is");
  expect_refused(command(two, scenes.output, {"--kernels", "portable"}), "kernels is missing");
  expect_refused(command({scenes.picture(1), scenes.picture(0)}, scenes.output), "other pictures");
  expect_refused(command({scenes.picture(0)}, scenes.output), "more lines than the 1 picture");
  EXPECT_EQ(read_all(scenes.output), kept);
  // More pictures behind those that are there may come.
  EXPECT_EQ(run_fovea(command({scenes.pictures}, scenes.output, {"-q"})).status, 0);
  EXPECT_TRUE(read_all(scenes.output).starts_with(kept));
  EXPECT_EQ(answers_in(scenes.output).size(), 3u);
}

TEST(Batch, ASecondWriterIsRefused) {
  const Scenes scenes(1);
  ASSERT_EQ(run_fovea(command({scenes.pictures}, scenes.output, {"-q"})).status, 0);
  const int fd = open(scenes.output.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  expect_refused(command({scenes.pictures}, scenes.output), "another fovea batch has it");
  close(fd);
  EXPECT_EQ(run_fovea(command({scenes.pictures}, scenes.output, {"-q"})).status, 0);
}

TEST(Batch, WrongUseIsRefusedBeforeAnythingIsWritten) {
  const Scenes scenes(1);
  const fs::path empty = scenes.folder / "empty";
  fs::create_directories(empty);
  expect_refused(command({empty}, scenes.output), "no pictures in " + empty.string());
  expect_refused(command({scenes.folder / "missing"}, scenes.output), "missing");
  expect_refused(command({"-"}, scenes.output), "stdin");
  expect_refused(command({""}, scenes.output), "empty");
  expect_refused(command({scenes.pictures}, ""), "path is empty");
  for (const std::string count : {"0", "65", "-1", "x"})
    expect_refused(command({scenes.pictures}, scenes.output, {"--at-once", count}), "--at-once");
  expect_refused(command({scenes.pictures}, scenes.output, {"--plan", "plan.json"}), "--plan");
  expect_refused(command({scenes.pictures}, scenes.output, {"--attention", "none"}), "--attention");
  expect_refused({"batch", scenes.pictures, "-o", scenes.output}, "--question");
  expect_refused({"batch", scenes.pictures, "--question", " ", "-o", scenes.output}, "--question");
  expect_refused({"batch", scenes.pictures, "--question", "?"}, "-o");
  EXPECT_FALSE(fs::exists(scenes.output));
}

TEST(Batch, AModelThatCannotAnswerIsNoFaultOfThePictures) {
  const Scenes scenes(2);
  const fs::path model = scenes.folder / "model";
  fs::copy(source_dir() + "/tests/fixtures/ask", model);
  const auto expect_no_lines = [&](const std::vector<std::string>& more, const char* must_say) {
    auto words = command({scenes.pictures}, scenes.output, {"-m", model});
    words.insert(words.end(), more.begin(), more.end());
    expect_refused(words, must_say);
    EXPECT_TRUE(answers_in(scenes.output).empty());
    fs::remove(scenes.output);
  };
  expect_no_lines({"--system", std::string(20'000, 'a')}, "the model's context is");
  std::ofstream(model / "chat_template.jinja") << "{{ raise_exception('no') }}";
  expect_no_lines({}, "it says: no");
  fs::remove(model / "chat_template.jinja");
  std::ofstream(model / "tokenizer.json") << "{";
  expect_no_lines({}, "not valid JSON");
}

TEST(Batch, TheQuestionMayComeFromStdin) {
  const Scenes scenes(1);
  std::ofstream(scenes.folder / "question") << kQuestion << "\n";
  const std::vector<std::string> words = {
      "batch", scenes.picture(0), "--max-tokens", "8", "-q", "-o", "-"};
  auto from_stdin = words;
  from_stdin.insert(from_stdin.end(), {"--question", "-"});
  auto typed = words;
  typed.insert(typed.end(), {"--question", kQuestion});
  const Outcome run = run_fovea(from_stdin, scenes.folder / "question");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(lines_of(run.out), lines_of(run_fovea(typed).out));
}

}  // namespace
}  // namespace fovea
