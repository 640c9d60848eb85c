// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "language/tokenizer/unicode.h"
#include "places.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // the order of a vocabulary counts

const fs::path kFixtures = fs::path(source_dir()) / "tests/fixtures/tokenizer";
// Qwen3's own tokenizer is too large to ship; it is tried where it lies beside the checkout.
const fs::path kQwen = (fs::path(source_dir()) / "../shared/qwen3").lexically_normal();

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

Tokenizer small_tokenizer() {
  auto tokenizer = Tokenizer::load(kFixtures.string());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *tokenizer;
}

void expect_texts(const Tokenizer& tokenizer, const Json& cases) {
  for (const Json& one : cases) {
    const auto ids = tokenizer.encode(one["text"].get<std::string>());
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, one["ids"].get<std::vector<int>>()) << one["text"].dump();
  }
}

void expect_decodings(const Tokenizer& tokenizer, const Json& cases) {
  for (const Json& one : cases) {
    const auto ids = one["ids"].get<std::vector<int>>();
    EXPECT_EQ(tokenizer.decode(ids), one["text"].get<std::string>()) << one["ids"].dump();
    EXPECT_EQ(tokenizer.decode(ids, true), one["plain"].get<std::string>()) << one["ids"].dump();
  }
}

TEST(Tokenizer, EqualsTheTokenizersPackage) {
  const Json golden = read_json(kFixtures / "golden.json");
  ASSERT_GT(golden["texts"].size(), 200U);
  expect_texts(small_tokenizer(), golden["texts"]);
  expect_decodings(small_tokenizer(), golden["ids"]);
}

TEST(Tokenizer, EqualsItThroughTheExpressionEngineToo) {
  std::ifstream file(kFixtures / "tokenizer.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto tokenizer = Tokenizer::parse(text, "tokenizer.json", false);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  Json texts = read_json(kFixtures / "golden.json")["texts"];
  // PCRE2's Unicode is older than the package's, so characters of any kind are left out.
  for (auto it = texts.begin(); it != texts.end();)
    it = (*it)["text"].get<std::string>().find('\xF0') == std::string::npos ? it + 1
                                                                            : texts.erase(it);
  ASSERT_GT(texts.size(), 100U);
  expect_texts(*tokenizer, texts);
}

TEST(Tokenizer, EqualsItForOtherSettings) {
  const Json file = read_json(kFixtures / "tokenizer.json");
  const Json golden = read_json(kFixtures / "golden.json");
  ASSERT_GT(golden["variants"].size(), 8U);
  for (const Json& variant : golden["variants"]) {
    SCOPED_TRACE(variant["name"].dump());
    Json changed = file;
    changed.merge_patch(variant["change"]);
    int id = 0;
    for (Json& token : changed["model"]["vocab"]) token = id++;
    for (Json& token : changed["added_tokens"]) token["id"] = id++;
    const auto tokenizer = Tokenizer::parse(changed.dump(), "tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    expect_texts(*tokenizer, variant["texts"]);
  }
}

TEST(Tokenizer, EqualsItForQwen3) {
  if (!fs::exists(kQwen / "tokenizer.json"))
    GTEST_SKIP() << "needs Qwen3's tokenizer.json in ../shared/qwen3 beside the checkout";
  const auto tokenizer = Tokenizer::load(kQwen.string());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const Json golden = read_json(kFixtures / "qwen3_golden.json");
  expect_texts(*tokenizer, golden["texts"]);
  expect_decodings(*tokenizer, golden["ids"]);
  EXPECT_EQ(tokenizer->find("<|image_pad|>"), 151655);
  EXPECT_EQ(tokenizer->id_end(), 151669);
  EXPECT_TRUE(tokenizer->is_special(151645));
  EXPECT_FALSE(tokenizer->is_special(151667)) << "<think> stays in the text";
}

TEST(Tokenizer, TakesSpecialTokensAsTextOnDemand) {
  const Tokenizer tokenizer = small_tokenizer();
  const int start = *tokenizer.find("<|im_start|>");
  const auto with = tokenizer.encode("a<|im_start|>b");
  const auto without = tokenizer.encode("a<|im_start|>b", false);
  EXPECT_EQ(std::count(with->begin(), with->end(), start), 1);
  EXPECT_EQ(std::count(without->begin(), without->end(), start), 0);
  EXPECT_EQ(tokenizer.decode(*without), "a<|im_start|>b");
}

// With random sources: a special token is one exactly where the template wrote all of it.
TEST(Tokenizer, FindsSpecialTokensOnlyWhereTheTemplateWroteThem) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::vector<std::string> pieces = {"<|im_start|>", "<|im_end|>", "<|image_pad|>",
                                           "a b",          "é\n",        "e\u0301",
                                           "<|im_",        "<tool_call>"};
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    SourcedText text;
    std::vector<int> expected;  // the special tokens
    for (unsigned n = random() % 12; n > 0; --n) {
      const std::string& piece = pieces[random() % pieces.size()];
      const size_t cut = random() % 3 == 0 ? random() % piece.size() : 0;
      const bool whole = (piece[0] & 0x80) != 0 || piece[0] == 'e' || cut == 0;
      const char source = static_cast<char>(random() % 2);
      if (whole) {
        text.append(piece, source);
      } else {
        text.append(piece.substr(0, cut), SourcedText::kPeople);
        text.append(piece.substr(cut), SourcedText::kTemplate);
      }
      const auto id = tokenizer.find(piece);
      if (whole && id && tokenizer.is_special(*id) && source == SourcedText::kTemplate)
        expected.push_back(*id);
    }
    const auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids) << ids.error().message;
    std::vector<int> found;
    for (const int id : *ids)
      if (tokenizer.is_special(id)) found.push_back(id);
    ASSERT_EQ(found, expected) << text.bytes;
    // Where nobody but the template wrote, nothing changes.
    text.sources.clear();
    ASSERT_EQ(*tokenizer.encode(text), *tokenizer.encode(text.bytes));
  }
}

// Of tokens that overlap, one that people had a hand in hides none that the template wrote.
TEST(Tokenizer, PeopleHideNoTokenOfTheTemplate) {
  Json file = read_json(kFixtures / "tokenizer.json");
  int next = small_tokenizer().id_end();
  for (const char* content : {"<A>", "<A>>", "x<A", "<B"})
    file["added_tokens"].push_back({{"id", next++},
                                    {"content", content},
                                    {"special", true},
                                    {"normalized", content[1] == 'B'}});
  const auto tokenizer = Tokenizer::parse(file.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const int a = *tokenizer->find("<A>");
  const auto count_of = [&](const std::string& before, const std::string& token,
                            const std::string& after, int id) {
    SourcedText text;
    text.append(before, SourcedText::kPeople);
    text.append(token, SourcedText::kTemplate);
    text.append(after, SourcedText::kPeople);
    const auto ids = *tokenizer->encode(text);
    return std::count(ids.begin(), ids.end(), id);
  };
  EXPECT_EQ(count_of("", "<A>", ">", a), 1);
  EXPECT_EQ(count_of("x", "<A>", "", a), 1);
  EXPECT_EQ(count_of("<A>", "<A>", "<A>", a), 1);
  EXPECT_EQ(count_of("<", "A>", "", a), 0);
  EXPECT_EQ(count_of("<B e\u0301", "<B", "\u0301<B", *tokenizer->find("<B")), 0);
  EXPECT_EQ(count_of("<B e\u0301", "<B", " <B", *tokenizer->find("<B")), 1);
}

TEST(Tokenizer, CountsBytesThatAreNotUtf8AsReplacementCharacters) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto broken = tokenizer.encode("a\xFF\xE2\x82 \xC3(\xED\xA0\x80");
  const auto replaced = tokenizer.encode(
      "a\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(*broken, *replaced);
}

TEST(Tokenizer, GivesBackEveryComposedText) {
  const Tokenizer tokenizer = small_tokenizer();
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned n = random() % 30; n > 0; --n) text += static_cast<char>(1 + random() % 126);
    EXPECT_EQ(tokenizer.decode(*tokenizer.encode(text, false)), text);
  }
}

TEST(Tokenizer, GivesTheSameIdsOnSeveralThreads) {
  const Tokenizer tokenizer = small_tokenizer();
  const Json texts = read_json(kFixtures / "golden.json")["texts"];
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { expect_texts(tokenizer, texts); });
  for (std::thread& thread : threads) thread.join();
}

TEST(TextStream, GivesTheTextOfAllIdsInWholeCharacters) {
  const Tokenizer tokenizer = small_tokenizer();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::vector<int> ids(random() % 20);
    // The first 256 ids are bytes, so that characters come in pieces and broken ones are common.
    for (int& id : ids) id = static_cast<int>(random() % (i % 2 == 0 ? 256U : 720U));
    const bool skip = i % 3 == 0;
    TextStream stream(tokenizer, skip);
    std::string text;
    for (const int id : ids) {
      const std::string piece = stream.add(id);
      EXPECT_EQ(valid_utf8_prefix(piece), piece.size()) << "a piece holds whole characters";
      text += piece;
    }
    text += stream.finish();
    EXPECT_EQ(text, tokenizer.decode(ids, skip));
  }
}

TEST(TextStream, HoldsBackACharacterUntilItIsWhole) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto ids = *tokenizer.encode("\xF0\x9F\xA6\x89");  // an owl, which the vocabulary lacks
  ASSERT_GT(ids.size(), 1U);
  TextStream stream(tokenizer);
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(stream.add(ids[i]), "");
  EXPECT_EQ(stream.add(ids.back()), "\xF0\x9F\xA6\x89");
  EXPECT_EQ(stream.add(ids.front()), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace fovea
