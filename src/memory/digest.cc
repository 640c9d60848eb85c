// SPDX-License-Identifier: Apache-2.0
#include "memory/digest.h"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

namespace fovea {
namespace {

void sip_round(uint64_t (&v)[4]) {
  v[0] += v[1];
  v[1] = std::rotl(v[1], 13) ^ v[0];
  v[0] = std::rotl(v[0], 32);
  v[2] += v[3];
  v[3] = std::rotl(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = std::rotl(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = std::rotl(v[1], 17) ^ v[2];
  v[2] = std::rotl(v[2], 32);
}

void add_word(uint64_t (&v)[4], uint64_t word) {
  v[3] ^= word;
  sip_round(v);
  sip_round(v);
  v[0] ^= word;
}

uint64_t word_at(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));  // as a little-endian machine has it
  return word;
}

std::pair<uint64_t, uint64_t> chance() {
  std::random_device random;
  const auto word = [&random] { return (uint64_t{random()} << 32) | random(); };
  const uint64_t first = word();
  return {first, word()};
}

std::pair<uint64_t, uint64_t> process_key() {
  static const auto key = chance();
  return key;
}

}  // namespace

Hasher::Hasher() : Hasher(process_key().first, process_key().second) {}

Hasher::Hasher(uint64_t key0, uint64_t key1)
    : v_{0x736f6d6570736575 ^ key0, 0x646f72616e646f6d ^ key1 ^ 0xee, 0x6c7967656e657261 ^ key0,
         0x7465646279746573 ^ key1} {}

Hasher& Hasher::bytes(std::span<const std::byte> added) {
  const size_t filled = length_ % sizeof(rest_);
  length_ += added.size();
  if (filled > 0) {
    const size_t missing = std::min(sizeof(rest_) - filled, added.size());
    std::copy_n(added.begin(), missing, rest_ + filled);
    added = added.subspan(missing);
    if (filled + missing < sizeof(rest_)) return *this;
    add_word(v_, word_at(rest_));
  }
  for (; added.size() >= sizeof(rest_); added = added.subspan(sizeof(rest_)))
    add_word(v_, word_at(added.data()));
  std::copy(added.begin(), added.end(), rest_);
  return *this;
}

Hasher& Hasher::text(std::string_view added) {
  value(static_cast<uint64_t>(added.size()));
  return bytes(std::as_bytes(std::span(added)));
}

Digest Hasher::finish() const {
  uint64_t v[4] = {v_[0], v_[1], v_[2], v_[3]};
  std::byte last[8] = {};
  std::copy_n(rest_, length_ % sizeof(rest_), last);
  add_word(v, word_at(last) | (length_ & 0xff) << 56);
  Digest digest;
  v[2] ^= 0xee;
  for (int i = 0; i < 4; ++i) sip_round(v);
  digest.low = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  for (int i = 0; i < 4; ++i) sip_round(v);
  digest.high = v[0] ^ v[1] ^ v[2] ^ v[3];
  return digest;
}

}  // namespace fovea
