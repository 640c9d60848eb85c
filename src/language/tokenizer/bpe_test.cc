// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

namespace fovea {
namespace {

// A random vocabulary over a few letters: merges of everything made so far, in random order.
TokenizerFile random_file(uint32_t seed, int tokens) {
  std::mt19937 random(seed);
  TokenizerFile file;
  std::vector<std::string> made = {"a", "b", "c", "d"};
  for (int id = 0; id < 4; ++id) (void)file.vocabulary.add(made[static_cast<size_t>(id)], id);
  while (static_cast<int>(made.size()) < tokens) {
    const std::string left = made[random() % made.size()];
    const std::string right = made[random() % made.size()];
    if (left.size() + right.size() > 24) continue;
    if (file.vocabulary.add(left + right, static_cast<int64_t>(made.size())))
      made.push_back(left + right);
    file.merges.push_back({static_cast<uint32_t>(file.merge_text.size()),
                           static_cast<uint32_t>(left.size()),
                           static_cast<uint32_t>(right.size())});
    file.merge_text += left + right;
  }
  std::shuffle(file.merges.begin(), file.merges.end(), random);
  file.settings = {
      {"model", {{"vocab", nlohmann::json::object()}, {"merges", nlohmann::json::array()}}}};
  return file;
}

std::string random_word(std::mt19937& random, size_t size) {
  std::string word(size, 'a');
  for (char& c : word) c = static_cast<char>('a' + random() % 4);
  return word;
}

TEST(Bpe, EqualsTheReferenceForShortAndLongWords) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    const TokenizerFile file = random_file(seed, 300);
    const auto bpe = Bpe::make(file);
    ASSERT_TRUE(bpe) << bpe.error().message;
    std::mt19937 random(seed + 10);
    WordCache cache;
    for (int i = 0; i < 3000; ++i) {
      const size_t size = i % 10 == 0 ? 40 + random() % 100 : 1 + random() % 12;
      const std::string word = random_word(random, size);
      std::vector<int> ids = {-7};
      bpe->encode(word, file.vocabulary, cache, ids);
      std::vector<int> expected = bpe->encode_reference(word, file.vocabulary);
      expected.insert(expected.begin(), -7);
      ASSERT_EQ(ids, expected) << word;
      ids = {-7};
      bpe->encode(word, file.vocabulary, cache, ids);
      ASSERT_EQ(ids, expected) << word << ", from the cache";
    }
  }
}

TEST(Bpe, LeavesOutBytesTheVocabularyLacks) {
  const TokenizerFile file = random_file(1, 50);
  const auto bpe = Bpe::make(file);
  WordCache cache;
  std::vector<int> ids;
  bpe->encode("xaxyz", file.vocabulary, cache, ids);
  EXPECT_EQ(ids, std::vector<int>{0});
}

TEST(Bpe, TakesAWordOfAMegabyteInGoodTime) {
  const TokenizerFile file = random_file(5, 300);
  const auto bpe = Bpe::make(file);
  std::mt19937 random(6);
  const std::string word = random_word(random, 1 << 20);
  WordCache cache;
  std::vector<int> ids;
  const auto start = std::chrono::steady_clock::now();
  bpe->encode(word, file.vocabulary, cache, ids);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 20) << "quadratic time would be hours";
  std::string again;
  for (const int id : ids) again += file.vocabulary.content(id);
  EXPECT_EQ(again, word);
}

}  // namespace
}  // namespace fovea
