// SPDX-License-Identifier: Apache-2.0
// Requests side by side at random, as in engine/scheduler_test.cc, of which now and then one is not
// given the memory that it asks for.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/test_interleavings.h"
#include "test_malloc.h"

namespace fovea {
namespace {

// The test's own calls are spared.
class FailingMalloc : public test::Failures {
 public:
  FailingMalloc() {
    test::may_fail_here(false);
    want_.emplace(test::kLeastOfAsking);
  }
  ~FailingMalloc() override { test::may_fail_here(true); }
  FailingMalloc(const FailingMalloc&) = delete;
  FailingMalloc& operator=(const FailingMalloc&) = delete;

  void fail_after(int calls) override { want_->fail_after(calls); }
  void may_fail_here(bool may) override { test::may_fail_here(may); }
  void end() override { want_.reset(); }

 private:
  std::optional<test::Want> want_;
};

void interleave(const std::string& folder, int64_t memory_bytes, int count) {
  FailingMalloc failures;
  test::interleave({.folder = folder,
                    .memory_bytes = memory_bytes,
                    .count = test::interleavings(count),
                    .failures = &failures});
}

TEST(LibraryLowMemory, RandomInterleavings) {
  for (const std::string& folder : {test::ask_path(), test::gaze_path()}) {
    SCOPED_TRACE(folder);
    interleave(folder, int64_t{3} << 20, 150);
  }
}

TEST(LibraryLowMemoryOfTiny, RandomInterleavings) {
  interleave(source_dir() + "/models/tiny", int64_t{16} << 20, 100);
}

}  // namespace
}  // namespace fovea
