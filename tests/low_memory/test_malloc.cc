// SPDX-License-Identifier: Apache-2.0
#include "test_malloc.h"

#include <errno.h>  // NOLINT(modernize-deprecated-headers): errno is the C library's

#include <atomic>
#include <cstdlib>

extern "C" {
// What glibc's own malloc goes by beside its name.
void* __libc_malloc(size_t bytes);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* old, size_t bytes);          // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

std::atomic<size_t> least = 0;  // bytes
std::atomic<bool> is_counting = false;
std::atomic<int64_t> counted = 0;
std::atomic<int64_t> first_failure = 0;  // 0: none
std::atomic<bool> fails_on = false;      // those after the first as well
thread_local bool is_spared = false;

bool fails(size_t bytes) {
  if (!is_counting || bytes < least || is_spared) return false;
  const int64_t call = ++counted;
  const int64_t first = first_failure;
  const bool fail = first > 0 && (fails_on ? call >= first : call == first);
  if (fail) errno = ENOMEM;
  return fail;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) { return fails(bytes) ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) {
  return fails(count * bytes) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return fails(bytes) ? nullptr : __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return fails(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  *result = memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}

namespace fovea::test {

Want::Want(size_t least_bytes, int64_t first, bool lasting) {
  least = least_bytes;
  counted = 0;
  first_failure = first;
  fails_on = lasting;
  is_counting = true;
}

Want::~Want() { is_counting = false; }

int64_t Want::calls() const { return counted; }

void Want::fail_after(int64_t calls) { first_failure = counted + 1 + calls; }

void may_fail_here(bool may) { is_spared = !may; }

}  // namespace fovea::test
