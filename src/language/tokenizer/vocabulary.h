// SPDX-License-Identifier: Apache-2.0
// The tokens a model knows: text as the file writes it <-> id, and the bytes an id stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea {

// Ids are dense in every known model; the limit keeps a hostile one from filling the memory.
inline constexpr int64_t kMaxTokenId = (1 << 21) - 1;

// The character that stands for a byte in the files of byte-level tokenizers: printable bytes stand
// for themselves, the others for U+0100 and on.
uint32_t byte_level_char(uint8_t byte);

// Tokens as a byte-level decoder reads them: bytes where every character stands for one, else the
// text itself.
std::string byte_level_bytes(std::string_view content);

class Vocabulary {
 public:
  // Room for this many tokens, so that adding them does not move the index.
  void reserve(size_t tokens);

  // Refuses a token or an id that is there already, and ids out of range; `id` may be any number.
  Status add(std::string_view content, int64_t id);

  int find(std::string_view content) const;  // -1: not there
  bool has(int id) const;
  std::string_view content(int id) const;
  std::string_view bytes(int id) const;
  size_t count() const { return count_; }                           // tokens
  int id_end() const { return static_cast<int>(entries_.size()); }  // one past the highest id

 private:
  struct Entry {
    uint32_t content_at = 0;
    uint32_t bytes_at = 0;
    uint32_t content_size = 0;
    uint32_t bytes_size = 0;
    bool known = false;
  };

  size_t slot_of(std::string_view content) const;
  void grow(size_t slots);

  std::string pool_;
  std::vector<Entry> entries_;  // by id
  std::vector<int32_t> slots_;  // open addressing; -1: free; its size is a power of two
  size_t count_ = 0;
};

}  // namespace fovea
