// SPDX-License-Identifier: Apache-2.0
#include "serve/grammar/matcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/grammar/structure.h"

namespace fovea::serve {
namespace {

constexpr int kEnd = 256;

// Every byte, an end, and some longer tokens.
TokenTexts bytes_vocabulary() {
  TokenTexts vocabulary;
  for (int i = 0; i < 256; ++i) vocabulary.tokens.emplace_back(1, static_cast<char>(i));
  vocabulary.tokens.emplace_back();  // the end is a special token
  for (const char* text : {"{\"", "\": ", "true", "<tool_call>", "\n</tool_call>", "}}"})
    vocabulary.tokens.emplace_back(text);
  vocabulary.end_ids = {kEnd};
  return vocabulary;
}

class Matcher : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_grammars()) GTEST_SKIP() << "built without xgrammar";
  }

  Result<CompiledStructure> compile(const ChatCall& call) {
    const auto structure = answer_structure(call);
    if (const auto* error = std::get_if<ApiError>(&structure)) return bad_input(error->message);
    return compiler_.compile(std::get<std::string>(structure));
  }
  Result<CompiledStructure> compile(const std::string& schema) {
    ChatCall call;
    call.format = AnswerFormat::kJsonSchema;
    call.schema = schema;
    return compile(call);
  }

  std::vector<int> allowed_after(const TokenMask& mask, const std::vector<int>& answer) const {
    const size_t size = vocabulary_.tokens.size();
    std::vector<uint64_t> bits((size + 63) / 64, ~uint64_t{0});
    mask(answer, bits);
    std::vector<int> ids;
    for (size_t id = 0; id < size; ++id)
      if ((bits[id / 64] >> (id % 64) & 1) != 0) ids.push_back(static_cast<int>(id));
    return ids;
  }

  // An answer by chance: any of the allowed tokens, until the end.
  std::string draw(const TokenMask& mask, uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<int> answer;
    std::string text;
    while (answer.size() < 2000) {
      const std::vector<int> allowed = allowed_after(mask, answer);
      if (allowed.empty()) return text + " (nothing is allowed)";
      answer.push_back(allowed[random() % allowed.size()]);
      if (answer.back() == kEnd) return text;
      text += vocabulary_.tokens[static_cast<size_t>(answer.back())];
    }
    return text + " (no end)";
  }

  const TokenTexts vocabulary_ = bytes_vocabulary();
  StructureCompiler compiler_{vocabulary_};
};

TEST_F(Matcher, WhatIsDrawnIsOfTheSchema) {
  const auto compiled = compile(
      R"({"type": "object", "required": ["size", "kind"], "properties": {
    "size": {"type": "integer", "minimum": 1, "maximum": 40}, "kind": {"enum": ["star", "cup"]}}})");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_GT(compiled->bytes(), 0);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::string text = draw(compiled->mask(), seed);
    const auto json = parse_ordered_json(text);
    ASSERT_TRUE(json) << text;
    EXPECT_GE((*json)["size"], 1) << text;
    EXPECT_LE((*json)["size"], 40) << text;
    EXPECT_TRUE((*json)["kind"] == "star" || (*json)["kind"] == "cup") << text;
    EXPECT_EQ(json->size(), 2u) << text;
  }
}

TEST_F(Matcher, AnAnswerThatIsWholeCanOnlyEnd) {
  const auto compiled = compile(R"({"const": true})");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(allowed_after(compiled->mask(), {'t', 'r', 'u', 'e'}), std::vector<int>{kEnd});
  const TokenMask mask = compiled->mask();
  EXPECT_EQ(draw(mask, 1), "true");
}

TEST_F(Matcher, CopiesFollowAnswersOfTheirOwnAndAnyOfThemMayBeginAnew) {
  const auto compiled = compile(R"({"enum": ["ab", "cd"]})");
  ASSERT_TRUE(compiled) << compiled.error().message;
  const TokenMask first = compiled->mask();
  const TokenMask second = first;
  EXPECT_EQ(allowed_after(first, {'"', 'a'}), std::vector<int>{'b'});
  EXPECT_EQ(allowed_after(second, {'"', 'c'}), std::vector<int>{'d'});
  EXPECT_EQ(allowed_after(first, {'"', 'a', 'b'}), std::vector<int>{'"'});
  EXPECT_EQ(allowed_after(first, {'"', 'c'}), std::vector<int>{'d'}) << "another answer";
  EXPECT_EQ(allowed_after(first, {'"'}), (std::vector<int>{'a', 'c'})) << "a shorter one";
  EXPECT_EQ(allowed_after(first, {'x'}), std::vector<int>{}) << "one that is not of it";
}

TEST_F(Matcher, CallsOfToolsAreInTheFormThatIsRead) {
  ChatCall call;
  call.request.options.tools =
      R"([{"type": "function", "function": {"name": "look", "parameters":
    {"type": "object", "required": ["up"], "properties": {"up": {"type": "boolean"}}}}}])";
  call.tool_choice = ToolChoice::kNamed;
  call.tool_name = "look";
  const auto compiled = compile(call);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const std::string text = draw(compiled->mask(), 3);
  const std::string begin = "<tool_call>\n{\"name\": \"look\", \"arguments\": {";
  EXPECT_TRUE(text.starts_with(begin)) << text;
  EXPECT_TRUE(text.ends_with("}\n</tool_call>")) << text;
}

TEST_F(Matcher, RecursiveSchemasWork) {
  const auto compiled = compile(R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
    "required": ["next"], "properties": {"next": {"anyOf": [{"type": "null"},
    {"$ref": "#/$defs/node"}]}}}}})");
  ASSERT_TRUE(compiled) << compiled.error().message;
  std::vector<int> answer;
  for (const char c : std::string(R"({"next": {"next": null}})")) answer.push_back(c);
  EXPECT_EQ(allowed_after(compiled->mask(), answer), std::vector<int>{kEnd});
}

TEST_F(Matcher, AFormThatNoAnswerHasIsRefused) {
  for (const char* schema :
       {R"({"$ref": "#"})", R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
          "b": {"$ref": "#/$defs/a"}}})"}) {
    const auto compiled = compile(schema);
    ASSERT_FALSE(compiled) << schema;
    EXPECT_EQ(compiled.error().message, "no answer has this form");
  }
}

TEST_F(Matcher, SaysWhetherAnAnswerMayBeEmpty) {
  ChatCall call;
  call.request.options.tools =
      R"([{"type": "function", "function": {"name": "look", "strict": true}}])";
  auto compiled = compile(call);
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_TRUE(compiled->may_be_empty());
  compiled = compile(R"({"type": "number"})");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_FALSE(compiled->may_be_empty());
}

TEST_F(Matcher, MessagesTellNothingOfTheSource) {
  for (const char* schema : {R"({"type": "string", "pattern": "((("})", R"({"type": "nothing"})",
                             R"({"type": "integer", "maximum": 1e300})"}) {
    const auto compiled = compile(schema);
    ASSERT_FALSE(compiled) << schema;
    EXPECT_EQ(compiled.error().message.find("heck failed"), std::string::npos)
        << compiled.error().message;
    EXPECT_EQ(compiled.error().message.find("is false"), std::string::npos)
        << compiled.error().message;
  }
}

TEST_F(Matcher, NamesThatAreRequiredAreInEveryAnswer) {
  const auto compiled = compile(
      R"({"type": "object", "required": ["b"], "properties": {"a": {"type": "boolean"}},
    "additionalProperties": true})");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(allowed_after(compiled->mask(), {'{', '}'}), std::vector<int>{});
}

struct Hostile {
  const char* name;
  std::string schema;
};

std::string many_properties(int count) {
  std::string schema = R"({"type": "object", "properties": {)";
  for (int i = 0; i < count; ++i)
    schema += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(": {"type": "string"})";
  return schema + "}}";
}

std::string many_choices(int count) {
  std::string schema = R"({"enum": [0)";
  for (int i = 1; i < count; ++i) schema += ",\"" + std::to_string(i * 7919) + "\"";
  return schema + "]}";
}

// Each level refers twice to the next: 2^levels ways through it.
std::string doubling_refs(int levels) {
  std::string schema = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < levels; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
    schema += "\"d" + std::to_string(i) + R"(": {"type": "array", "prefixItems": [)" + next + "," +
              next + "]},";
  }
  return schema + "\"d" + std::to_string(levels) + R"(": {"type": "boolean"}}})";
}

// Either a grammar or an error, soon. The limit is several times what the
// slowest takes on a busy core, and far below what any of them takes where its
// size is not bounded.
TEST_F(Matcher, HostileSchemasEndSoon) {
  const Hostile schemas[] = {
      {"properties", many_properties(1500)},
      {"choices", many_choices(4900)},
      {"a cycle", R"({"$ref": "#"})"},
      {"a cycle of two",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
         "b": {"$ref": "#/$defs/a"}}})"},
      {"a ref to nothing", R"({"$ref": "#/$defs/none"})"},
      {"doubling", doubling_refs(25)},
      {"backtracking", R"({"type": "string", "pattern": "^(a+)+$"})"},
      {"subsets", R"({"type": "string", "pattern": "^(a|b)*a(a|b){100}$"})"},
      {"nested stars", R"({"type": "string", "pattern": "^((((a*)*)*)*)*b$"})"},
      {"backreference", R"({"type": "string", "pattern": "^(a)\\1$"})"},
      {"lookahead", R"({"type": "string", "pattern": "^(?=a)b$"})"},
      {"unbalanced", R"({"type": "string", "pattern": "((("})"},
      {"long text", R"({"type": "string", "minLength": 9999, "maxLength": 10000})"},
      {"long list",
       R"({"type": "array", "minItems": 9999, "items": {"type": "array",
         "minItems": 9999, "items": {"type": "string", "maxLength": 10000}}})"},
      {"impossible", R"({"type": "integer", "minimum": 5, "maximum": 1})"},
      {"wide numbers", R"({"type": "integer", "minimum": -9007199254740991, "maximum": 1e300})"},
      {"wrong types", R"({"type": 5, "properties": [], "enum": {}, "required": "a"})"},
      {"no type", R"({"type": "nothing"})"},
  };
  for (const Hostile& one : schemas) {
    const auto start = std::chrono::steady_clock::now();
    const auto compiled = compile(one.schema);
    if (compiled) {
      (void)allowed_after(compiled->mask(), {});
      EXPECT_LT(compiled->bytes(), int64_t{64} << 20) << one.name;
    } else {
      EXPECT_FALSE(compiled.error().message.empty()) << one.name;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    RecordProperty(one.name, std::to_string(took.count()));
    EXPECT_LT(took.count(), 20) << one.name;
  }
}

}  // namespace
}  // namespace fovea::serve
