// SPDX-License-Identifier: Apache-2.0
// Every bad tokenizer gets one clear line.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "language/tokenizer.h"
#include "places.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json good_file() {
  const auto step = [](const char* type) { return Json{{"type", type}}; };
  Json file;
  file["normalizer"] = step("NFC");
  file["decoder"] = step("ByteLevel");
  file["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}};
  file["model"] = {{"type", "BPE"},
                   {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"c", 3}}},
                   {"merges", Json::array({"a b"})}};
  file["added_tokens"] = Json::array({{{"id", 4}, {"content", "<x>"}, {"special", true}}});
  return file;
}

// The message of the error, or a note that there was none.
std::string error_of(std::string_view json) {
  const auto tokenizer = Tokenizer::parse(json, "dir/tokenizer.json");
  if (tokenizer) return "no error";
  EXPECT_EQ(tokenizer.error().kind, Error::Kind::kBadInput);
  const std::string& message = tokenizer.error().message;
  EXPECT_EQ(message.find("dir/tokenizer.json: "), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600U);
  return message;
}

void expect_error(const Json& json, const std::string& part) {
  const std::string message = error_of(json.dump());
  EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
}

void expect_error_with(const char* where, const Json& value, const std::string& part) {
  Json file = good_file();
  file[Json::json_pointer(where)] = value;
  expect_error(file, part);
}

TEST(TokenizerErrors, TheGoodFileIsGood) {
  const auto tokenizer = Tokenizer::parse(good_file().dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(*tokenizer->encode("ab<x>ca"), (std::vector<int>{2, 4, 3, 0}));
}

TEST(TokenizerErrors, MissingAndUnreadableFiles) {
  const auto missing = Tokenizer::load("/no/such/folder");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/no/such/folder: there is no such file"),
            std::string::npos);
  const auto folder = Tokenizer::load(source_dir());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("tokenizer.json"), std::string::npos);
}

TEST(TokenizerErrors, HugeFiles) {
  const fs::path path = fs::temp_directory_path() / ("fovea-huge-" + std::to_string(getpid()));
  std::ofstream(path) << "{";
  fs::resize_file(path, uint64_t{200} << 20);  // a hole: it takes no room
  const auto huge = Tokenizer::load(path.string());
  fs::remove(path);
  ASSERT_FALSE(huge);
  EXPECT_NE(huge.error().message.find("it has 209,715,200 bytes; at most 134,217,728"),
            std::string::npos);
}

TEST(TokenizerErrors, WhatIsNotJson) {
  EXPECT_NE(error_of("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"model\": ").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("\xFF\xFE").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(R"({"a":"\ud800"})").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"vocab":{"\udc00x":1}}})").find("not valid JSON"),
            std::string::npos);
  EXPECT_NE(error_of("{\"a\":\"\xED\xA0\x80\"}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("7").find("must be an object"), std::string::npos);
  EXPECT_NE(error_of("[]").find("must be an object"), std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '[')).find("nested more than"), std::string::npos);
  EXPECT_NE(error_of(R"({"a":1,"a":2})").find("key 'a' twice"), std::string::npos);
}

TEST(TokenizerErrors, BadIds) {
  expect_error_with("/model/vocab/c", -1, "token 'c' has id -1");
  expect_error_with("/model/vocab/c", 1U << 30, "token 'c' has id 1073741824");
  expect_error_with("/model/vocab/c", UINT64_MAX, "token 'c' has id 18446744073709551615");
  expect_error_with("/model/vocab/c", 1.5, "token 'c' has 1.5 for an id");
  expect_error_with("/model/vocab/c", "3", "token 'c' has a text for an id");
  expect_error_with("/model/vocab/c", Json::array(), "token 'c' has a list for an id");
  expect_error_with("/model/vocab/c", 1, "id 1 stands for two tokens");
  expect_error_with("/added_tokens/0/id", -7, "added token '<x>' has id -7");
  expect_error_with("/added_tokens/0/id", 9, "has id 9, but its place is 4");
  expect_error_with("/added_tokens/0/id", 1e99, "added token '<x>' has id");
  expect_error_with("/added_tokens/0/content", "a", "added token 'a' has id 4, but its place is 0");
}

TEST(TokenizerErrors, DuplicateTokens) {
  std::string text = good_file().dump();
  text.replace(text.find("\"b\":1"), 5, "\"a\":1");
  EXPECT_NE(error_of(text).find("token 'a' stands twice in the vocabulary, as 0 and 1"),
            std::string::npos);
  Json file = good_file();
  file["added_tokens"].push_back({{"id", 5}, {"content", "<x>"}});
  expect_error(file, "added token '<x>' stands twice");
}

TEST(TokenizerErrors, BadMerges) {
  expect_error_with("/model/merges", {"a d"}, "'d' is not in the vocabulary");
  expect_error_with("/model/merges", {"b a"}, "'ba' is not in the vocabulary");
  expect_error_with("/model/merges", {"a "}, "merge 0 has an empty part");
  expect_error_with("/model/merges", Json::array({Json::array({"", "a"})}), "has an empty part");
  expect_error_with("/model/merges", {"a b", "a b c"}, "merge 1 is 'a b c'");
  expect_error_with("/model/merges", Json::array({Json::array({"a", "b", "c"})}), "has 3 parts");
  expect_error_with("/model/merges", {7}, "merge 0 holds 7");
  expect_error_with("/model/merges", {{{"a", 1}}}, "merge 0 holds an object");
  expect_error_with("/model/merges", "a b", "has no model with a vocab and merges");
}

TEST(TokenizerErrors, OtherKindsOfTokenizer) {
  expect_error_with("/model/type", "WordPiece", "type is \"WordPiece\"; fovea reads BPE");
  expect_error_with("/model/byte_fallback", true, "byte_fallback");
  expect_error_with("/model/end_of_word_suffix", "</w>", "end_of_word_suffix is \"</w>\"");
  expect_error_with("/model/dropout", 0.1, "dropout is 0.1");
  expect_error_with("/model/unk_token", "<unk>", "unk_token \"<unk>\" is not in the vocabulary");
  expect_error_with("/model/vocab", Json::object(), "none of the 256 bytes");
  expect_error_with("/normalizer", {{"type", "Lowercase"}}, "normalizer is Lowercase");
  expect_error_with("/decoder", {{"type", "Metaspace"}}, "decoder is Metaspace");
  expect_error_with("/decoder", nullptr, "has no decoder");
  expect_error_with("/pre_tokenizer", nullptr, "the pre_tokenizer is null");
  expect_error_with("/pre_tokenizer/type", "Metaspace", "the pre_tokenizer is Metaspace");
  expect_error_with("/post_processor", {{"type", "TemplateProcessing"}}, "TemplateProcessing");
  expect_error_with("/added_tokens", 3, "added_tokens is no list");
  expect_error_with("/added_tokens/0", 3, "added token has no content");
}

Json with_pattern(const std::string& pattern) {
  Json file = good_file();
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", Json::array({split, good_file()["pre_tokenizer"]})}};
  return file;
}

TEST(TokenizerErrors, BadPatterns) {
  expect_error(with_pattern("(a"), "the pattern '(a' cannot be read at byte 2");
  expect_error(with_pattern(std::string(100000, 'a')), "the pattern has 100000 bytes");
  expect_error(with_pattern("\\C"), "cannot be read");
  Json file = with_pattern("a");
  file["/pre_tokenizer/pretokenizers/0/behavior"_json_pointer] = "Contiguous";
  expect_error(file, "behavior \"Contiguous\"");
}

TEST(TokenizerErrors, CatastrophicPatternsEndSoon) {
  for (const char* pattern : {"(a+)+$", "(a|aa)+$", "((a*)*)*c", "(.*)*x", "(?:a?){40}a{40}c"}) {
    const auto tokenizer = Tokenizer::parse(with_pattern(pattern).dump(), "tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto start = std::chrono::steady_clock::now();
    const auto ids = tokenizer->encode(std::string(5000, 'a') + "b");
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 20) << pattern;  // it would be years; sanitizers are slow
    if (ids) continue;                        // PCRE2 may see through a pattern
    EXPECT_NE(ids.error().message.find("takes too long on a text of 5001 bytes"), std::string::npos)
        << ids.error().message;
    EXPECT_TRUE(tokenizer->encode("aab")) << "the next text works";
  }
}

// Each match stays below PCRE2's own limit, and there are many; or each passes over all the text.
TEST(TokenizerErrors, OneLimitForAllMatchesOfAText) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(?:a|b)(?=(?:a?){18}a{18}[xy])|a", std::string(20'000, 'a')},
      {"(?=(?:a+)+[xy])a|b|(?:a{1,3}){1,9}[xy]", std::string(2000, 'a') + "b"},
      {"a+[xy]", std::string(200'000, 'a')},
      {"(?:a(?=a*[xy])|a(?!a*[xy]))", std::string(200'000, 'a')},
  };
  for (const auto& [pattern, text] : cases) {
    const auto tokenizer = Tokenizer::parse(with_pattern(pattern).dump(), "tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto start = std::chrono::steady_clock::now();
    const auto ids = tokenizer->encode(text);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    // 1 s of processor time and 2 us for each byte of each pattern, give or take a match.
    EXPECT_LT(taken.count(), 40) << pattern;
    ASSERT_FALSE(ids) << pattern;
    EXPECT_NE(ids.error().message.find("takes too long on a text of"), std::string::npos)
        << ids.error().message;

    int asked = 0;
    SourcedText sourced;
    sourced.append(text, SourcedText::kPeople);
    const auto stopped = tokenizer->encode(sourced, [&] { return ++asked < 3; });
    ASSERT_FALSE(stopped);
    EXPECT_NE(stopped.error().message.find("stopped"), std::string::npos)
        << stopped.error().message;
  }
}

TEST(TokenizerErrors, LongTextsOfHonestPatternsPass) {
  for (const char* pattern :
       {"(?:\\p{L}\\p{M}*)+|\\s+(?!\\S)|\\s+|.", "[^\\s]+|\\s+", " ?\\p{L}+|\\p{N}{1,3}|\\s+"}) {
    const auto tokenizer = Tokenizer::parse(with_pattern(pattern).dump(), "tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (const char* unit : {"a", " ", "ab c\n", "1"}) {
      std::string text;
      while (text.size() < 10'000) text += unit;
      const auto ids = tokenizer->encode(text);
      EXPECT_TRUE(ids) << pattern << unit << ids.error().message;
    }
  }
}

Json with_added_tokens(int count, const std::string& front) {
  Json file = good_file();
  for (int i = 0; i < count; ++i)
    file["added_tokens"].push_back({{"id", 5 + i}, {"content", front + std::to_string(i)}});
  return file;
}

TEST(TokenizerErrors, ManyLongAddedTokensAreRefused) {
  const std::string many = with_added_tokens(20'000, std::string(1000, 'x')).dump();
  EXPECT_NE(error_of(many).find("has over 16777216 bytes of added tokens"), std::string::npos)
      << error_of(many);
  const auto tokenizer = Tokenizer::parse(with_added_tokens(90'000, "<|s_").dump(), "many");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(*tokenizer->encode("<|s_89999<|s_7"), (std::vector<int>{5 + 89'999, 5 + 7}));
}

// A text that nearly holds a long token at every place.
TEST(TokenizerErrors, LongAddedTokensThatNearlyMatchEndSoon) {
  Json file = good_file();
  for (int i = 0; i < 1000; ++i)
    file["added_tokens"].push_back(
        {{"id", 5 + i}, {"content", std::string(1010, 'a') + "b" + std::to_string(i)}});
  const auto tokenizer = Tokenizer::parse(file.dump(), "long");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer->encode(std::string(1'000'000, 'a'));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 40);
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().message.find("added tokens take too long"), std::string::npos);
}

}  // namespace
}  // namespace fovea
