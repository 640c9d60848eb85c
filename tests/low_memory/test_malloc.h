// SPDX-License-Identifier: Apache-2.0
// A malloc that fails when it is told to, in place of the program's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fovea::test {

// Smaller calls are left alone: the destructor of a JSON value makes such, 16 bytes for each of its
// children, and may not throw. Loading reads lists, of which asking has none.
inline constexpr size_t kLeastOfAsking = 256;
inline constexpr size_t kLeastOfLoading = 4096;

// Counts the calls for memory while it lives, of all threads; makes one of them fail, or all from
// there on. One at a time.
class Want {
 public:
  explicit Want(size_t least_bytes, int64_t first = 0, bool lasting = false);
  ~Want();
  Want(const Want&) = delete;
  Want& operator=(const Want&) = delete;

  int64_t calls() const;
  // The next but so many fails, and none that was to fail before.
  void fail_after(int64_t calls);
};

// Whether what this thread calls for is counted and may fail: it is, unless told otherwise.
void may_fail_here(bool may);

}  // namespace fovea::test
