// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fovea {
namespace {

using nlohmann::json;

std::string refusal(std::string_view text) {
  const auto value = parse_json(text);
  return value ? "taken: " + json_text(*value) : value.error().message;
}

TEST(Json, ValuesAreThoseOfTheLibrary) {
  for (const char* text :
       {"7", "-7", "0.5", "18446744073709551615", "true", "null", R"("a\u00e9\n")", "[]", "{}",
        R"([1,[2,{"a":[]}],"x"])", R"({"b":{"a":1,"b":[null]},"a":{"a":2}})", " [ 1 ] "}) {
    const auto value = parse_json(text);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(*value, json::parse(text)) << text;
  }
}

TEST(Json, WhatIsNotJsonIsRefusedWithItsPlace) {
  for (const char* text : {"", "{", "[1,]", "1 2", "nan", "{\"a\":1,}", "\xff", "\"\\ud800\""}) {
    EXPECT_NE(refusal(text).find("it is not JSON, at byte"), std::string::npos) << text;
    EXPECT_EQ(refusal(text).find("exception"), std::string::npos) << text;
  }
  size_t byte = 0;
  ASSERT_FALSE(parse_json("[1,\n oops]", kMaxJsonBytes, &byte));
  EXPECT_EQ(byte, 6u);
  EXPECT_NE(refusal("[1e999]").find("1e999"), std::string::npos);
  EXPECT_NE(refusal(R"({"a":1,"a":2})").find("the key \"a\" is there twice"), std::string::npos);
}

TEST(Json, DepthHasALimitWhateverComesAfter) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)));
  std::string objects;
  for (int i = 0; i < 150'000; ++i) objects += "{\"a\":";
  for (const std::string& text :
       {nested(kMaxJsonDepth + 1), nested(150'000), std::string(150'000, '['), objects})
    EXPECT_EQ(refusal(text), "it has more than 64 levels");
}

TEST(Json, OrderedKeysKeepTheirOrderAndHaveLimits) {
  const char* text = R"({"z":1,"a":{"y":[],"b":{"x":null}},"m":[{"q":1.5,"c":"d"}]})";
  EXPECT_EQ(json_text(*parse_ordered_json(text)), text);
  const auto refused = [](const std::string& wrong) {
    const auto value = parse_ordered_json(wrong);
    return value ? "taken" : value.error().message;
  };
  EXPECT_EQ(refused(R"({"b":1,"a":1,"b":2})"), "the key \"b\" is there twice");
  EXPECT_EQ(refused("[1,"), R"(it is not JSON, at byte 4, after "[1,")");
  std::string keys = "{\"0\":0";
  for (size_t i = 1; i < kMaxOrderedJsonKeys; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(refused("[" + keys + "}," + keys + "}]"), "taken");
  EXPECT_EQ(refused(keys + ",\"a\":0}"), "an object has more than 1000 keys");
  const std::string most(kMaxOrderedJsonDepth, '[');
  EXPECT_EQ(refused(most + std::string(kMaxOrderedJsonDepth, ']')), "taken");
  EXPECT_EQ(refused(most + "["), "it has more than 32 levels");
}

// Empty lists take 25 times as much as their text, numbers 8 times.
template <class Parse>
void expect_bounded_memory(const Parse& parse) {
  const auto repeated = [](const std::string& unit, size_t bytes) {
    std::string text = "[";
    while (text.size() < bytes) text += unit + ",";
    return text + "0]";
  };
  constexpr size_t kMost = size_t{1} << 20;
  const std::string long_text = "\"" + std::string(1000, 'a') + "\"";
  for (const std::string unit : {"[]", "{}", "\"\"", "0", "{\"\":0}"}) {
    const auto refused = parse(repeated(unit, kMost / 4), kMost);
    ASSERT_FALSE(refused) << unit;
    EXPECT_EQ(refused.error().message, "its values take more than 1,048,576 bytes of memory");
    EXPECT_TRUE(parse(repeated(unit, kMost / 64), kMost)) << unit;
    EXPECT_TRUE(parse(repeated(unit, kMost / 4))) << unit;
  }
  EXPECT_TRUE(parse(repeated(long_text, kMost / 2), kMost));
  EXPECT_FALSE(parse(repeated(long_text, kMost), kMost));
}

TEST(Json, ValuesTakeSoMuchMemoryAtMost) {
  expect_bounded_memory(
      [](std::string_view text, size_t most = kMaxJsonBytes) { return parse_json(text, most); });
}

TEST(Json, OrderedValuesTakeSoMuchMemoryAtMost) {
  expect_bounded_memory([](std::string_view text, size_t most = kMaxJsonBytes) {
    return parse_ordered_json(text, most);
  });
}

// 24 MB of text that would become 640 MB.
TEST(Json, MemoryHasALimitThatNobodyNeedsToGive) {
  std::string text = "[";
  for (int i = 0; i < 8'000'000; ++i) text += "[],";
  EXPECT_EQ(refusal(text + "[]]"), "its values take more than 536,870,912 bytes of memory");
}

TEST(Json, TextThatIsNotUtf8IsReplacedInWriting) {
  EXPECT_EQ(json_text(json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace fovea
