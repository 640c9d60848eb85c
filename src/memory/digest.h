// SPDX-License-Identifier: Apache-2.0
// 128 bits that stand for content.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace fovea {

struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in what the compiler writes
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// SipHash-2-4 with 128 bits, keyed by chance once a process: whoever does not know the key cannot
// make two contents of one digest, so that nobody is shown what was computed for another.
class Hasher {
 public:
  Hasher();
  Hasher(uint64_t key0, uint64_t key1);  // for tests

  Hasher& bytes(std::span<const std::byte> added);
  Hasher& text(std::string_view added);  // with its length, so that "a", "bc" is not "ab", "c"
  template <class T>
  Hasher& value(const T& added) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
    return bytes(std::as_bytes(std::span(&added, 1)));
  }
  Digest finish() const;  // of all that was added so far

 private:
  uint64_t v_[4];
  uint64_t length_ = 0;
  std::byte rest_[8] = {};  // what does not fill a word yet: length_ % 8 bytes
};

}  // namespace fovea
