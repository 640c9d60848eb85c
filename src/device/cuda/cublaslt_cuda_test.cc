// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cublaslt.h"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv is POSIX
#include <unistd.h>

#include <fstream>

namespace fovea {
namespace {

namespace fs = std::filesystem;

const std::string kName = "libcublasLt.so.13";

// site-packages with Fovea's library and two of NVIDIA's wheels, one of them without the file.
class CublasLt : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("FOVEA_CUBLASLT_LIBRARY");
    // Tests run side by side, each as a process of its own, emulated and not.
    const std::string own = "cublaslt" + std::to_string(getpid());
    packages_ = fs::path(testing::TempDir()) / own / "site-packages";
    for (const char* folder : {"fovea/lib", "nvidia/cu13/lib", "nvidia/cudnn/lib"})
      fs::create_directories(packages_ / folder);
    std::ofstream(packages_ / "nvidia/cu13/lib" / kName) << "a library";
  }
  void TearDown() override {
    unsetenv("FOVEA_CUBLASLT_LIBRARY");
    fs::remove_all(packages_.parent_path());
  }

  fs::path packages_;
};

TEST_F(CublasLt, IsLookedForInTheWheelsBesideThePackage) {
  const auto files = cublaslt_files(kName, packages_ / "fovea/lib");
  ASSERT_GE(files.size(), 2U);
  EXPECT_EQ(files.front(), kName);  // what the loader knows comes first
  EXPECT_EQ(files.back(), (packages_ / "nvidia/cu13/lib" / kName).string());
}

TEST_F(CublasLt, IsNotLookedForWhereAnybodyMayPutFiles) {
  fs::rename(packages_, packages_.parent_path() / "elsewhere");
  packages_ = packages_.parent_path() / "elsewhere";
  for (const std::string& file : cublaslt_files(kName, packages_ / "fovea/lib"))
    EXPECT_EQ(file.find("elsewhere"), std::string::npos) << file;
}

TEST_F(CublasLt, IsTheFileThatIsNamedAndNoOther) {
  setenv("FOVEA_CUBLASLT_LIBRARY", "/elsewhere/lib.so", 1);
  EXPECT_EQ(cublaslt_files(kName, packages_ / "fovea/lib"),
            std::vector<std::string>{"/elsewhere/lib.so"});
}

}  // namespace
}  // namespace fovea
