// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/tool_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_time.h"

namespace fovea::serve {
namespace {

// "text|name(arguments)|..." of a whole answer; "!" where it was cut short.
std::string shown(const SaidAndCalled& all) {
  std::string line = all.text;
  for (const ToolCall& call : all.calls) line += "|" + call.name + "(" + call.arguments + ")";
  return line + (all.cut_short ? "!" : "");
}

std::string split(std::string_view text, bool one_call = false) {
  return shown(split_tool_calls(text, "seed", one_call));
}

// The same of pieces, as a client puts them together.
SaidAndCalled put_together(const std::vector<AnswerPiece>& pieces) {
  SaidAndCalled all;
  for (const AnswerPiece& piece : pieces) {
    if (!piece.id.empty()) {
      EXPECT_EQ(piece.call, static_cast<int>(all.calls.size()));
      all.calls.push_back({piece.id, piece.name, ""});
    }
    if (piece.call >= static_cast<int>(all.calls.size())) {
      ADD_FAILURE() << "a piece of a call that was not named";
      return all;
    }
    (piece.call < 0 ? all.text : all.calls[static_cast<size_t>(piece.call)].arguments) +=
        piece.text;
  }
  return all;
}

SaidAndCalled stream(const std::string& text, const std::vector<size_t>& cuts) {
  ToolCallParser parser("seed", false);
  std::vector<AnswerPiece> pieces;
  const auto keep = [&](std::vector<AnswerPiece> more) {
    for (AnswerPiece& piece : more) {
      EXPECT_TRUE(!piece.text.empty() || !piece.id.empty()) << "a piece of nothing";
      pieces.push_back(std::move(piece));
    }
  };
  size_t begin = 0;
  for (const size_t cut : cuts) {
    keep(parser.add(std::string_view(text).substr(begin, cut - begin)));
    begin = cut;
  }
  keep(parser.add(std::string_view(text).substr(begin)));
  keep(parser.finish());
  SaidAndCalled all = put_together(pieces);
  all.cut_short = parser.cut_short();
  return all;
}

struct Row {
  const char* text;
  const char* shown;
};

constexpr Row kRows[] = {
    {"", ""},
    {"Hello", "Hello"},
    {" Hello \n", " Hello \n"},
    {"a < b <tool> </tool_cal> <", "a < b <tool> </tool_cal> <"},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "|f({\"a\": 1})"},
    {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "Let me see.|f({})"},
    // Several, with spaces and text around.
    {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n"
     "{\"name\":\"g\",\"arguments\":{\"x\":[1,{\"y\":\"}\"}]}}\n</tool_call>\n",
     "|f({})|g({\"x\":[1,{\"y\":\"}\"}]})"},
    {"A <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> B", "A B|f({})"},
    {"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n{\"name\":\"g\"}\n</tool_call>",
     "|f({})|g({})"},
    // Any order of keys, keys of other levels, keys that mean nothing.
    {"<tool_call>{\"arguments\": {\"name\": \"x\"} , \"name\": \"f\"}</tool_call>",
     "|f({\"name\": \"x\"})"},
    {"<tool_call>{\"id\":{\"name\":\"no\"},\"name\":\"f\",\"name\":\"g\",\"arguments\":{\"a\":1},"
     "\"arguments\":{}}</tool_call>",
     "|f({\"a\":1})"},
    // Strings hold anything.
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"t\":\"</tool_call> \\\" } \\\\\"}}</tool_call>",
     "|f({\"t\":\"</tool_call> \\\" } \\\\\"})"},
    {"<tool_call>{\"name\":\"\\u00e9\\n\",\"arguments\":{\"t\":\"é\\u00e9\"}}</tool_call>",
     "|é\n({\"t\":\"é\\u00e9\"})"},
    // Arguments that are no object.
    {"<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}</tool_call>", "|f({\"a\": 1})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>", "|f({})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":\"\"}</tool_call>", "|f({})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\": [1, 2] }</tool_call>", "|f([1, 2])"},
    {"<tool_call>{\"name\":\"f\"}</tool_call>", "|f({})"},
    // Brackets too many, too few, no closing tag.
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}}}\n</tool_call>ok", "ok|f({\"a\":1})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}\n</tool_call>", "|f({\"a\":1})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1\n</tool_call>ok", "ok|f({\"a\":1\n)"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\n</tool_call>ok", "ok|f({\"a\":\"x\n)"},
    {"<tool_call>{\"name\":\"f\"\n</tool_call>", "|f({})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{}}", "|f({})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{}}\n<tool_call>{\"name\":\"g\"}", "|f({})|g({})"},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{}} and so on", "and so on|f({})"},
    // The text ended.
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": \"b", "|f({\"a\": \"b)!"},
    {"<tool_call>{\"name\":\"f\",", "|f()!"},
    {"<tool_call>{\"name\":\"f\"", "|f()!"},
    {"<tool_call>{\"na", "{\"na"},
    {"<tool_call>", ""},
    {"Yes <tool_call>", "Yes "},
    {"Yes <tool_c", "Yes <tool_c"},
    // No call: what stands there is text, without tags.
    {"Hm <tool_call>no call</tool_call> so", "Hm no call so"},
    {"Hm <tool_call>\n{\"a\": 1}\n</tool_call> so", "Hm {\"a\": 1}\n so"},
    {"<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>", "{\"name\": 5, \"arguments\": {}}"},
    {"<tool_call>{\"name\": \"\"}</tool_call>", "{\"name\": \"\"}"},
    {"<tool_call>{\"a\":\"</tool_call> b", "{\"a\":\" b"},
    {"</tool_call>a</tool_call>", "a"},
    {"<tool_call><tool_call>{\"name\":\"f\"}</tool_call>", "|f({})"},
    {"<tool_call>]{}[[}}</tool_call>", "]{}[[}}"},
    {"<tool_call>{]]]\"name\":\"f\"}</tool_call>", "{]]]\"name\":\"f\"}"},
};

TEST(ToolCalls, AreSplitFromTheText) {
  for (const Row& row : kRows) EXPECT_EQ(split(row.text), row.shown) << row.text;
}

TEST(ToolCalls, OneMeansOne) {
  const char* two =
      "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>\n"
      "<tool_call>{\"name\":\"g\",\"arguments\":{\"b\":2}}</tool_call>";
  EXPECT_EQ(split(two), "|f({\"a\":1})|g({\"b\":2})");
  EXPECT_EQ(split(two, /*one_call=*/true), "|f({\"a\":1})");
  const std::string cut = std::string(two).substr(0, std::string(two).size() - 16);
  EXPECT_EQ(split(cut, /*one_call=*/true), "|f({\"a\":1})") << "the one is complete";
}

TEST(ToolCalls, IdsDiffer) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "<tool_call>{\"name\":\"f\"}</tool_call>";
  std::set<std::string> ids;
  for (const char* seed : {"chatcmpl-1/0", "chatcmpl-1/1", "chatcmpl-2/0"}) {
    for (const ToolCall& call : split_tool_calls(text, seed, false).calls) {
      EXPECT_TRUE(call.id.starts_with("call_")) << call.id;
      EXPECT_LE(call.id.size(), 40u);
      EXPECT_TRUE(ids.insert(call.id).second) << call.id;
    }
  }
  EXPECT_EQ(ids.size(), 300u);
}

TEST(ToolCallParser, StreamsNameThenArguments) {
  ToolCallParser parser("seed", false);
  EXPECT_TRUE(parser.add("<tool").empty());
  EXPECT_TRUE(parser.add("_call>\n{\"name\": \"fe").empty());
  auto pieces = parser.add("tch\", \"argu");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].call, 0);
  EXPECT_EQ(pieces[0].name, "fetch");
  EXPECT_FALSE(pieces[0].id.empty());
  EXPECT_EQ(pieces[0].text, "");
  EXPECT_TRUE(parser.add("ments\": ").empty());
  pieces = parser.add("{\"a\":");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, "{\"a\":");
  EXPECT_EQ(pieces[0].id, "");
  pieces = parser.add(" 1}}\n</tool_");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, " 1}");
  EXPECT_TRUE(parser.add("call>").empty());
  EXPECT_TRUE(parser.finish().empty());
  EXPECT_EQ(parser.calls(), 1);
  EXPECT_FALSE(parser.cut_short());
}

TEST(ToolCallParser, HoldsBackNoMoreThanATag) {
  ToolCallParser parser("seed", false);
  EXPECT_EQ(put_together(parser.add("a <b")).text, "a <b");
  EXPECT_EQ(put_together(parser.add("c <")).text, "c");
  EXPECT_EQ(put_together(parser.add("/")).text, "");
  EXPECT_EQ(put_together(parser.add("d")).text, " </d");
}

// However a text is cut, the pieces are those of the whole.
TEST(ToolCallParser, CutsChangeNothing) {
  std::mt19937 random(7);
  const auto compare = [&](const std::string& text, const std::vector<size_t>& cuts) {
    const SaidAndCalled whole = split_tool_calls(text, "seed", false);
    const SaidAndCalled pieces = stream(text, cuts);
    EXPECT_EQ(shown(pieces), shown(whole)) << text;
    ASSERT_EQ(pieces.calls.size(), whole.calls.size()) << text;
    for (size_t i = 0; i < whole.calls.size(); ++i)
      EXPECT_EQ(pieces.calls[i].id, whole.calls[i].id);
  };
  for (const Row& row : kRows) {
    const std::string text = row.text;
    std::vector<size_t> every;
    for (size_t i = 0; i < text.size(); ++i) every.push_back(i);
    compare(text, every);
    for (size_t i = 0; i < text.size(); ++i) compare(text, {i});
  }
  for (int i = 0; i < 2000; ++i) {
    std::string text;  // rows one after the other, and a few changes
    for (size_t rows = 1 + random() % 3; rows > 0; --rows)
      text += kRows[random() % std::size(kRows)].text;
    for (size_t changes = random() % 4; changes > 0 && !text.empty(); --changes)
      text[random() % text.size()] = "<>{}[]\",:\\ \na"[random() % 13];
    std::vector<size_t> cuts(random() % 10);
    for (size_t& cut : cuts) cut = random() % (text.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    compare(text, cuts);
    const SaidAndCalled whole = split_tool_calls(text, "seed", false);
    for (const char* tag : {"<tool_call>", "</tool_call>"})
      EXPECT_EQ(whole.text.find(tag), std::string::npos) << text;
  }
}

TEST(ToolCallParser, TakesTimeInProportion) {
  const auto repeated = [](std::string_view piece, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += piece;
    return text;
  };
  const std::vector<std::function<std::string(int)>> hostile = {
      [&](int n) { return repeated("<", n); },
      [&](int n) { return repeated(" ", n) + "<"; },
      [&](int n) { return repeated("<tool_call>{\"a\":\"", n / 16); },
      [&](int n) { return "<tool_call>{\"name\":\"f\",\"arguments\":" + repeated("{", n); },
  };
  const auto seconds_for = [](const std::string& text) {
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double start = thread_seconds();
      split(text);
      least = std::min(least, thread_seconds() - start);
    }
    return least;
  };
  for (const auto& text_of : hostile) {
    // Eight times the text: 8 times the time, or 64 if it were quadratic.
    const double ratio = seconds_for(text_of(320'000)) / seconds_for(text_of(40'000));
    EXPECT_LT(ratio, 24) << text_of(40).substr(0, 60);
  }
}

}  // namespace
}  // namespace fovea::serve
