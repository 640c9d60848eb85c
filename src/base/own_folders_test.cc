// SPDX-License-Identifier: Apache-2.0
// tests/module_test.cc has the same for a library.
#include "base/own_folders.h"

#include <gtest/gtest.h>

#include "places.h"

namespace fovea {
namespace {

TEST(OwnFolders, OfAProgramThatHoldsTheLibraryThereIsOne) {
  EXPECT_EQ(program_folder(), std::filesystem::canonical(program_folder()));
  EXPECT_EQ(program_folder().filename(),
            std::filesystem::path(program_path()).parent_path().filename());
  EXPECT_EQ(library_folder(), "");
}

}  // namespace
}  // namespace fovea
