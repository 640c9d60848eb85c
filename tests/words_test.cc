// SPDX-License-Identifier: Apache-2.0
// Words of the command line reach the engine as they were typed.
#include <nlohmann/json.hpp>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using nlohmann::json;

const std::string kModel = source_dir() + "/tests/fixtures/ask/";
const std::string kWide = kModel + "wide.png";

const std::vector<std::string> kTexts = {"[what is this?]",
                                         "[a,b]",
                                         "[]",
                                         "[",
                                         "]",
                                         "[[a]]",
                                         "{}",
                                         "{a: b}",
                                         "%%",
                                         "\"quoted\"",
                                         "'quoted'",
                                         "`ls` $HOME",
                                         "a=b",
                                         "a,b,c",
                                         "see",
                                         "ask",
                                         "back\\slash \\n \\\"",
                                         "#a",
                                         ";a",
                                         "[section]\nkey=value",
                                         " spaces  kept ",
                                         "two\nlines",
                                         "-",
                                         "/a:b",
                                         "true",
                                         "-5 degrees?",
                                         "\xc3\xa4\xf0\x9f\x91\x80"};

json trace_of(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"ask", "-m", kModel, "--max-tokens", "1", "--trace",
                                       (folder / "trace.json").string()});
  const Outcome run = run_fovea(arguments);
  EXPECT_EQ(run.status, 0) << arguments.back() << "\n" << run.err;
  const json trace = json::parse(read_all(folder / "trace.json"), nullptr, false);
  std::filesystem::remove(folder / "trace.json");
  return trace;
}

TEST(Words, AQuestionIsTakenAsTyped) {
  const auto folder = scratch();
  for (const std::string& text : kTexts) {
    if (text == "-") continue;  // reads stdin
    const json trace = trace_of(folder, {kWide, text});
    EXPECT_EQ(trace["question"], text);
    EXPECT_EQ(trace["looks"].size(), 1u) << text;
    EXPECT_EQ(trace_of(folder, {text})["question"], text) << "without a picture";
  }
  for (const std::string text : {"-q", "--json", "--json=[a]", "++", "--"})
    EXPECT_EQ(trace_of(folder, {kWide, "--", text})["question"], text);
}

TEST(Words, TextsOfOptionsAreTakenAsTyped) {
  const auto folder = scratch();
  for (const std::string& text : kTexts) {
    const json trace = trace_of(folder, {"--system", text, kWide, "Q"});
    EXPECT_NE(trace["prompt"].get<std::string>().find(text), std::string::npos) << text;
    EXPECT_EQ(trace["looks"].size(), 1u) << text;
    const json joined = trace_of(folder, {"--system=" + text, kWide, "Q"});
    EXPECT_EQ(joined["prompt"], trace["prompt"]) << text;
    EXPECT_EQ(trace_of(folder, {"--stop", text, kWide, "Q"})["question"], "Q") << text;
  }
}

// "--system=$UNSET" may not swallow the picture.
TEST(Words, AnEmptyValueIsEmpty) {
  const auto folder = scratch();
  const json plain = trace_of(folder, {kWide, "Q"});
  for (const std::vector<std::string>& empty :
       {std::vector<std::string>{"--system", ""}, {"--system="}}) {
    std::vector<std::string> arguments = empty;
    arguments.insert(arguments.end(), {kWide, "Q"});
    const json trace = trace_of(folder, arguments);
    EXPECT_EQ(trace["question"], "Q");
    EXPECT_EQ(trace["looks"].size(), 1u);
  }
  // Where a value is due, a word that looks like a flag is the value.
  const json odd = trace_of(folder, {"--system", "--stats=", kWide, "Q"});
  EXPECT_NE(odd["prompt"].get<std::string>().find("--stats="), std::string::npos);
  expect_refused({"ask", kWide, "", "-m", kModel}, "empty");
  expect_refused({"ask", kWide, "Q", "-m", kModel, "--budget="}, "--budget");
}

TEST(Words, NamesOfFilesMayHaveBrackets) {
  const auto folder = scratch();
  for (const std::string name : {"[a,b]", "a=b.png", "[1].png", "{}"}) {
    std::filesystem::copy_file(kWide, folder / name);
    const std::string image = folder / name;
    EXPECT_EQ(trace_of(folder, {image, "Q"})["looks"].size(), 1u) << name;
    const Outcome run = run_fovea({"see", image, "-o", folder / ("[seen] " + name)});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(std::filesystem::exists(folder / ("[seen] " + name)));
    EXPECT_EQ(run_fovea({"chat", image, "-m", kModel}).status, 0) << name;
  }
}

TEST(Words, WithoutWordsTheHelpIsNamed) {
  expect_refused({"ask"}, "words is required; see fovea ask --help");
  EXPECT_NE(run_fovea({"ask", "--help"}).out.find("words TEXT ... REQUIRED"), std::string::npos);
}

}  // namespace
}  // namespace fovea
