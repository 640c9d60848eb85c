// SPDX-License-Identifier: Apache-2.0
// What the memory of keys and values holds.
#pragma once

#include <cstdint>

namespace fovea {

// In bytes of whole pages; all requests of a model share them (docs/memory.md).
struct MemoryUsage {
  int64_t capacity = 0;
  int64_t resident = 0;          // of pages that someone holds
  int64_t shared = 0;            // of those, held more than once
  int64_t cached = 0;            // of those, held for later sessions alone
  int64_t reserved = 0;          // promised to requests, whether they hold it yet or not
  int64_t free = 0;              // capacity less resident
  int64_t largest_free_run = 0;  // of pages side by side
  int64_t mapped = 0;            // taken from the system
  int64_t hits = 0;              // times that a beginning was known from another session
  int64_t evictions = 0;         // beginnings that went to make room
};

}  // namespace fovea
