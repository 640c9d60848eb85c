// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "fovea/fovea.h"
#include "places.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

class FindModelTest : public testing::Test {
 protected:
  FindModelTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "some-model");
    setenv("FOVEA_MODELS", folder_.c_str(), 1);
  }
  ~FindModelTest() override {
    unsetenv("FOVEA_MODELS");
    fs::remove_all(folder_);
  }

  const fs::path folder_ = fs::temp_directory_path() / ("fovea_models_" + std::to_string(getpid()));
};

TEST_F(FindModelTest, ANameIsLookedForInTheGivenFolder) {
  const auto found = find_model("some-model");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, (folder_ / "some-model").string());
}

TEST_F(FindModelTest, PathsAndFoldersThatAreThereAreTakenAsTheyAre) {
  EXPECT_EQ(*find_model("/no/such/folder"), "/no/such/folder");
  EXPECT_EQ(*find_model("./some-model"), "./some-model");
  EXPECT_EQ(*find_model("."), ".");
  const fs::path before = fs::current_path();
  fs::create_directories(folder_ / "here" / "some-model");
  fs::current_path(folder_ / "here");
  EXPECT_EQ(*find_model("some-model"), "some-model");
  fs::current_path(before);
}

TEST_F(FindModelTest, TheErrorSaysWhereItWasLookedFor) {
  const auto found = find_model("another-model");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, Error::Kind::kBadInput);
  for (const std::string& said : {std::string("\"another-model\""), folder_.string(),
                                  std::string("/share/fovea/models"), source_dir() + "/models"})
    EXPECT_NE(found.error().message.find(said), std::string::npos) << found.error().message;
  EXPECT_FALSE(find_model(""));
}

}  // namespace
}  // namespace fovea
