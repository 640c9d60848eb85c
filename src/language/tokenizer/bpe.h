// SPDX-License-Identifier: Apache-2.0
// A word's bytes -> token ids: byte pair encoding. Of all neighbouring pairs the one with the
// lowest rank is merged first, the leftmost of equals, until no pair has a merge.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "language/tokenizer/read.h"

namespace fovea {

// Words seen lately and their ids. One place for each hash, so its size never grows; a fresh one
// costs nothing until used.
class WordCache {
 public:
  struct Entry {  // one cache line
    static constexpr size_t kMaxBytes = 30;
    static constexpr size_t kMaxIds = 8;
    uint8_t bytes = 0;  // 0: empty
    uint8_t ids = 0;
    char word[kMaxBytes];
    int32_t id[kMaxIds];
  };

  // The entry for this word, which may hold another one; null for words too long to keep.
  Entry* place(std::string_view word);

 private:
  static constexpr size_t kEntries = 1 << 16;
  struct Free {
    void operator()(Entry* entries) const;
  };
  std::unique_ptr<Entry[], Free> entries_;
};

class Bpe {
 public:
  // Checks the model's settings and resolves its merges.
  static Result<Bpe> make(const TokenizerFile& file);

  // Appends the ids of a word. Its bytes are any.
  void encode(std::string_view word, const Vocabulary& vocabulary, WordCache& cache,
              std::vector<int>& ids) const;

  // The same without a cache, by plain loops: the specification.
  std::vector<int> encode_reference(std::string_view word, const Vocabulary& vocabulary) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;
    int32_t id = -1;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t pair) const;
  const Merge& find(int32_t left, int32_t right) const {
    return merges_[slot_of(pair_of(left, right))];
  }

  void encode_new(std::string_view word, const Vocabulary& vocabulary, std::vector<int>& ids) const;
  void symbols_of(std::string_view word, std::vector<int32_t>& symbols) const;
  void merge_short(std::vector<int32_t>& symbols) const;
  void merge_long(std::vector<int32_t>& symbols) const;

  std::vector<Merge> merges_;            // open addressing by pair; its size is a power of two
  std::array<int32_t, 256> byte_ids_{};  // -1: the vocabulary lacks this byte
  int32_t unknown_id_ = -1;              // -1: bytes it lacks are left out
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;  // a word that is a token is that token, whatever the merges say
};

}  // namespace fovea
