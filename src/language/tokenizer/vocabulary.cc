// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "base/check.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

constexpr size_t kMaxPoolBytes = size_t{256} << 20;

struct ByteLevel {
  std::array<uint32_t, 256> char_of{};
  std::array<int16_t, 512> byte_of{};  // -1: stands for no byte

  ByteLevel() {
    byte_of.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      char_of[byte] = printable ? byte : next++;
      byte_of[char_of[byte]] = static_cast<int16_t>(byte);
    }
  }
};

const ByteLevel& byte_level() {
  static const ByteLevel kByteLevel;
  return kByteLevel;
}

}  // namespace

uint32_t byte_level_char(uint8_t byte) { return byte_level().char_of[byte]; }

std::string byte_level_bytes(std::string_view content) {
  std::string bytes;
  bytes.reserve(content.size());
  for (size_t i = 0; i < content.size();) {
    const CodePoint c = read_code_point(content.data() + i);
    const int byte = c.value < 512 ? byte_level().byte_of[c.value] : -1;
    if (byte < 0) return std::string(content);
    bytes.push_back(static_cast<char>(byte));
    i += c.bytes;
  }
  return bytes;
}

void Vocabulary::reserve(size_t tokens) {
  entries_.reserve(tokens);
  grow(std::bit_ceil(std::max<size_t>(16, tokens * 2)));
}

size_t Vocabulary::slot_of(std::string_view content) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(content)&mask;
  while (slots_[slot] >= 0 && this->content(slots_[slot]) != content) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, -1);
  for (int id = 0; id < id_end(); ++id)
    if (entries_[static_cast<size_t>(id)].known) slots_[slot_of(content(id))] = id;
}

Status Vocabulary::add(std::string_view content, int64_t id) {
  if (id < 0 || id > kMaxTokenId)
    return bad_input(fmt::format("token '{}' has id {}; ids go from 0 to {}", content.substr(0, 64),
                                 id, kMaxTokenId));
  if (pool_.size() + 2 * content.size() > kMaxPoolBytes)
    return bad_input("the vocabulary's tokens take more than 256 MiB");
  if (slots_.size() < 2 * (count_ + 1)) grow(std::max<size_t>(16, slots_.size() * 2));
  const size_t slot = slot_of(content);
  if (slots_[slot] >= 0)
    return bad_input(fmt::format("token '{}' stands twice in the vocabulary, as {} and {}",
                                 content.substr(0, 64), slots_[slot], id));
  const auto index = static_cast<size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  Entry& entry = entries_[index];
  if (entry.known)
    return bad_input(fmt::format("id {} stands for two tokens, '{}' and '{}'", id,
                                 this->content(static_cast<int>(id)).substr(0, 64),
                                 content.substr(0, 64)));
  const std::string bytes = byte_level_bytes(content);
  entry = {static_cast<uint32_t>(pool_.size()),
           static_cast<uint32_t>(pool_.size() + content.size()),
           static_cast<uint32_t>(content.size()), static_cast<uint32_t>(bytes.size()), true};
  pool_.append(content).append(bytes);
  slots_[slot] = static_cast<int32_t>(id);
  ++count_;
  return Done{};
}

int Vocabulary::find(std::string_view content) const {
  return slots_.empty() ? -1 : slots_[slot_of(content)];
}

bool Vocabulary::has(int id) const {
  return id >= 0 && id < id_end() && entries_[static_cast<size_t>(id)].known;
}

std::string_view Vocabulary::content(int id) const {
  FOVEA_CHECK(has(id));
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(entry.content_at, entry.content_size);
}

std::string_view Vocabulary::bytes(int id) const {
  FOVEA_CHECK(has(id));
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(entry.bytes_at, entry.bytes_size);
}

}  // namespace fovea
