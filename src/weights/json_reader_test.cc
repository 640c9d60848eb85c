// SPDX-License-Identifier: Apache-2.0
#include "weights/json_reader.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace fovea {
namespace {

// Reads {"key": "value", ...} into a map; the fault where there is one.
std::string read_strings(const std::string& text, std::map<std::string, std::string>& target) {
  JsonReader reader(text);
  std::string_view key;
  std::string_view value;
  for (bool more = reader.open('{'); more; more = reader.next('}')) {
    if (!reader.key(key) || !reader.string(value)) break;
    target.emplace(key, value);
  }
  reader.end();
  return reader.fault();
}

TEST(JsonReader, ReadsStringsWithAndWithoutEscapes) {
  std::map<std::string, std::string> read;
  const std::string text =
      " {\"a\" : \"plain\" "
      ",\n\"b\\u0041\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u4e2d\\ud83d\\ude00\"}\t";
  EXPECT_EQ(read_strings(text, read), "");
  EXPECT_EQ(read["a"], "plain");
  EXPECT_EQ(read["bA"], "\"\\/\b\f\n\r\t\u00e9\u4e2d\U0001F600");
  read.clear();
  EXPECT_EQ(read_strings("{}", read), "");
  EXPECT_TRUE(read.empty());
}

TEST(JsonReader, FaultsSayWhatAndWhere) {
  const std::map<std::string, std::string> faults = {
      {"", "the text ends where '{' should be at byte 0"},
      {"[]", "\"[\" where '{' should be at byte 0"},
      {"{\"a\":\"b\"", "the text ends where '}' should be at byte 8"},
      {"{\"a\":\"b\",}", "\"}\" where '\"' should be at byte 9"},
      {"{\"a\" \"b\"}", "\"\"\" where ':' should be at byte 5"},
      {"{\"a\":\"b}", "a string without an end at byte 8"},
      {"{\"a\":\"\\\"}", "a string without an end at byte 9"},
      {"{\"a\":\"\n\"}", "a control character in a string at byte 6"},
      {"{\"a\":\"\\x41\"}", "an unknown escape in a string at byte 8"},
      {"{\"a\":\"\\u12g4\"}", "an unknown escape in a string at byte 8"},
      {"{\"a\":\"\\ud83d\"}", "half of a surrogate pair at byte 12"},
      {"{\"a\":\"\\udc00\"}", "half of a surrogate pair at byte 12"},
      {"{\"a\":\"\\ud83d\\u0041\"}", "half of a surrogate pair at byte 18"},
      {"{\"a\":\"b\"} x", "text after the end at byte 10"}};
  for (const auto& [text, fault] : faults) {
    std::map<std::string, std::string> read;
    EXPECT_EQ(read_strings(text, read), fault) << text;
  }
}

TEST(JsonReader, TakesWholeNumbersOnly) {
  const auto read = [](const std::string& text) {
    JsonReader reader(text);
    uint64_t value = 7;
    reader.unsigned_integer(value);
    reader.end();
    return reader.ok() ? std::to_string(value) : "fault";
  };
  EXPECT_EQ(read("0"), "0");
  EXPECT_EQ(read(" 18446744073709551615 "), "18446744073709551615");
  for (const char* text :
       {"18446744073709551616", "-1", "+1", "1.0", "1e3", "01", "", "\"1\"", "NaN", "0x10", "1 2"})
    EXPECT_EQ(read(text), "fault") << text;
}

TEST(JsonReader, SkipsAnyValue) {
  const auto skip = [](const std::string& text) {
    JsonReader reader(text);
    reader.skip();
    reader.end();
    return reader.ok();
  };
  for (const char* text :
       {"{}", "[]", "[[],{}]", "{\"a\":[1,-2.5e+3,true,false,null,\"\\n\"],\"b\":{\"c\":{}}}", "0",
        "-0", "1E5", "\"x\"", "null", "[1, [2, [3]], {\"a\":{\"b\":[]}}]"})
    EXPECT_TRUE(skip(text)) << text;
  for (const char* text : {"", "{", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}", "tru", "01",
                           "1.", "-", "1e", "[}", "{]", "nan", "\"", "[1]]", "]"})
    EXPECT_FALSE(skip(text)) << text;
}

TEST(JsonReader, DepthIsLimited) {
  for (const size_t depth : {64u, 65u, 1'000'000u}) {
    const std::string text = std::string(depth, '[') + std::string(depth, ']');
    JsonReader reader(text);
    EXPECT_EQ(reader.skip(), depth <= 64);
  }
}

// Whatever stands in the text, the reader ends, and stays inside.
TEST(JsonReader, RandomTextNeverLeavesTheText) {
  std::mt19937 random(1);
  const std::string alphabet = "{}[]\",:\\u0019dA tfn-.eE\n";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const std::string exact(text.begin(), text.end());
    JsonReader reader(exact);
    reader.skip();
    reader.end();
    std::map<std::string, std::string> read;
    read_strings(exact, read);
  }
}

}  // namespace
}  // namespace fovea
