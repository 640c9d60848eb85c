// SPDX-License-Identifier: Apache-2.0
// A shared library that holds Fovea, as a Python module does, finds models and devices' libraries
// near itself: the program that opens it, Python's, lies elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

class Module : public testing::Test {
 protected:
  Module() : folder_(fs::canonical(scratch())) {
    fs::create_directories(folder_ / "python" / "bin");
    fs::create_directories(folder_ / "package" / "fovea");
    fs::copy_file(module_host(), host_);
    fs::copy_file(module_file(), module_);
  }

  // What the module says when it is opened by that name: where the model is, then the devices.
  std::vector<std::string> told(const std::string& words, const fs::path& from = "/") const {
    const fs::path out = folder_ / "out";
    const std::string command = "cd " + from.string() +
                                " && env -u FOVEA_MODELS -u FOVEA_CUDA_LIBRARY " + host_.string() +
                                " " + words + " > " + out.string();
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::vector<std::string> lines;
    std::ifstream file(out);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    if (lines.empty()) lines.emplace_back();
    return lines;
  }
  std::string model_told() const { return told(module_.string() + " some-model")[0]; }

  // Makes such a model there.
  std::string model_in(const fs::path& folder) const {
    fs::create_directories(folder_ / folder / "some-model");
    return (folder_ / folder / "some-model").string();
  }

  const fs::path folder_;
  const fs::path host_ = folder_ / "python" / "bin" / "host";
  const fs::path module_ = folder_ / "package" / "fovea" / "module.so";
};

TEST_F(Module, FindsModelsFromTheProgramThenFromItself) {
  EXPECT_TRUE(model_told().starts_with("there is no model")) << model_told();
  // From the last place to the first: each goes before the ones behind it.
  for (const std::string place :
       {"package/models", "package/share/fovea/models", "package/fovea/models", "python/models"}) {
    const std::string model = model_in(place);
    EXPECT_EQ(model_told(), model);
  }
}

TEST_F(Module, IsFoundByLinksAndByNamesRelativeToAnotherFolder) {
  const std::string model = model_in("package/fovea/models");
  fs::create_symlink(module_, folder_ / "linked.so");
  EXPECT_EQ(told((folder_ / "linked.so").string() + " some-model")[0], model);
  EXPECT_EQ(told("fovea/module.so some-model", folder_ / "package")[0], model);
  EXPECT_EQ(told("fovea/module.so some-model /", folder_ / "package")[0], model);
}

TEST_F(Module, OpensADevicesLibraryBesideItself) {
  if (emulated_library().empty()) GTEST_SKIP() << "the emulation is not built";
  const auto has_cuda = [&] {
    const auto lines = told(module_.string() + " none");
    return std::find(lines.begin(), lines.end(), "cuda:0") != lines.end();
  };
  for (const std::string place : {"fovea", "lib"}) {
    const fs::path library = folder_ / "package" / place / "libfovea_cuda.so";
    fs::create_directories(library.parent_path());
    fs::create_symlink(emulated_library(), library);
    EXPECT_TRUE(has_cuda()) << library;
    fs::remove(library);
    EXPECT_FALSE(has_cuda()) << "without " << library;
  }
}

}  // namespace
}  // namespace fovea
