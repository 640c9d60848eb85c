// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdint>

namespace fovea {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

void prefer_large_pages(void* data, size_t bytes) {
  const auto begin = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) & ~(kLargePage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(kLargePage - 1);
  // A refusal changes nothing but the time the first touch takes.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // NOLINT
}

}  // namespace fovea
