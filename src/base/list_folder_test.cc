// SPDX-License-Identifier: Apache-2.0
#include "base/list_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace fovea {
namespace {

TEST(ListFolder, NamesAllAndSaysWhatIsWrong) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("fovea-list-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "inner");
  std::ofstream(folder / ".hidden") << "x";
  std::ofstream(folder / "a file") << "x";
  std::error_code error;
  auto names = list_folder(folder.string(), error);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "a file", "inner"}));
  EXPECT_FALSE(error);
  EXPECT_TRUE(list_folder((folder / "a file").string(), error).empty());
  EXPECT_EQ(error, std::errc::not_a_directory);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(list_folder(folder.string(), error).empty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
}

}  // namespace
}  // namespace fovea
