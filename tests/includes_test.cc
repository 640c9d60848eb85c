// SPDX-License-Identifier: Apache-2.0
// Dependencies point one way: base <- device <- ops <- rooms <- engine <- bench and apps. This test
// reads every #include of the tree and fails on a breach.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "places.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// The order of src/README.md; a folder may include itself and what stands before it.
const std::vector<std::string> kOrder = {
    "base",  "device",  "ops",    "media",  "pyramid",  "relevance", "gaze",   "patches", "picture",
    "cards", "weights", "memory", "vision", "resample", "language",  "engine", "bench"};

// The folder an include names: "a" of "a/b.h", nothing of <memory>.
std::string folder_of(const std::string& included) {
  const size_t slash = included.find('/');
  return slash == std::string::npos ? "" : included.substr(0, slash);
}

int rank_of(const std::string& folder) {
  const auto found = std::find(kOrder.begin(), kOrder.end(), folder);
  return found == kOrder.end() ? -1 : static_cast<int>(found - kOrder.begin());
}

bool is_source(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".cc" || ending == ".h" || ending == ".cu" || ending == ".cuh";
}

// Tests and benches may call any room.
bool is_test(const fs::path& path) {
  const std::string stem = path.stem().string();
  return stem.ends_with("_test") || stem.ends_with("_bench");
}

// What is wrong with a file of src/ including that path; nothing where all is well.
std::string breach(const fs::path& relative, const std::string& included) {
  const std::string room = relative.begin()->string();
  const std::string other = folder_of(included);
  if (rank_of(room) < 0) return "src/" + room + " is not a room that src/README.md knows";
  if (included == "fovea/fovea.h" && room != "engine" && room != "bench" && !is_test(relative))
    return "only the engine, the benches and the apps know the public surface";
  if (rank_of(other) > rank_of(room) && !is_test(relative)) return room + " may not know " + other;
  return "";
}

std::string device_breach(const fs::path& relative, const std::string& included) {
  const std::string file = included.substr(included.rfind('/') + 1);
  const bool of_device = file.starts_with("cuda") || file.starts_with("cublas") ||
                         file.starts_with("cudnn") || file.starts_with("nccl") ||
                         included.starts_with("vulkan/");
  if (!of_device) return "";
  const std::string stem = relative.stem().string();
  if (stem.ends_with("_cuda") || stem.ends_with("_vulkan") || *relative.begin() == "device")
    return "";
  return "CUDA and Vulkan headers belong into device/ and suffixed files";
}

std::vector<std::string> includes_of(const fs::path& path) {
  constexpr std::string_view kInclude = "#include ";
  std::vector<std::string> includes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kInclude)) continue;
    const size_t begin = kInclude.size() + 1;  // after < or "
    includes.push_back(line.substr(begin, line.find_first_of(">\"", begin) - begin));
  }
  return includes;
}

TEST(Includes, PointOneWay) {
  const fs::path root = fs::path(source_dir()) / "src";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    ++files;
    const fs::path relative = fs::relative(entry.path(), root);
    for (const std::string& included : includes_of(entry.path())) {
      EXPECT_EQ(breach(relative, included), "") << relative << " includes " << included;
      EXPECT_EQ(device_breach(relative, included), "") << relative << " includes " << included;
    }
  }
  EXPECT_GT(files, 20) << "the scan found no sources under " << root;
}

TEST(Includes, ABreachIsFound) {
  EXPECT_EQ(breach("gaze/quadtree.cc", "relevance/relevance.h"), "");
  EXPECT_NE(breach("relevance/relevance.cc", "gaze/gaze.h"), "");
  EXPECT_NE(breach("base/threads.cc", "media/decode.h"), "");
  EXPECT_EQ(breach("base/threads_bench.cc", "media/decode.h"), "");
  EXPECT_NE(breach("gaze/quadtree.cc", "fovea/fovea.h"), "");
  EXPECT_EQ(breach("base/buffer.h", "memory"), "");
  EXPECT_NE(breach("base/buffer.h", "memory/pool.h"), "");
  EXPECT_EQ(breach("bench/gpu_rows.h", "engine/model.h"), "");
  EXPECT_NE(breach("engine/request.cc", "bench/gpu_rows.h"), "");
  EXPECT_NE(breach("attic/old.cc", "base/check.h"), "");
  EXPECT_NE(device_breach("gaze/quadtree.cc", "cuda_runtime.h"), "");
  EXPECT_EQ(device_breach("gaze/quadtree_cuda.cu", "cuda_runtime.h"), "");
}

// Benches of whole requests have a room of their own, which the library does not hold.
TEST(Includes, TheEngineHoldsNoBenches) {
  const fs::path root = fs::path(source_dir()) / "src";
  for (const auto& entry : fs::recursive_directory_iterator(root / "engine"))
    EXPECT_EQ(entry.path().filename().string().find("bench"), std::string::npos) << entry.path();
  std::ifstream file(library_file(), std::ios::binary);
  const std::string library(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(library.find("threads.cc.o/"), std::string::npos) << library_file();
  EXPECT_EQ(library.find("bench.cc.o/"), std::string::npos) << library_file();
}

// The command line's subcommands and the bindings use the public surface alone.
TEST(Includes, TheProgramUsesThePublicSurfaceAlone) {
  const fs::path root = fs::path(source_dir()) / "apps" / "fovea";
  for (const auto& entry : fs::directory_iterator(root)) {
    if (!is_source(entry.path())) continue;
    for (const std::string& included : includes_of(entry.path())) {
      EXPECT_LT(rank_of(folder_of(included)), 0) << entry.path() << " includes " << included;
    }
  }
}

// Two types of one name in one namespace are one type to the linker, which takes the members of
// either: nothing warns, and objects are torn. Headers share the namespace fovea.
TEST(Includes, ATypeHasOneHeader) {
  std::map<std::string, std::set<std::string>> headers;
  const std::regex definition("^(?:struct|class) ([A-Za-z0-9]+)(?: final)? *[:{].*");
  for (const std::string root : {"/src", "/include"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() + root)) {
      if (entry.path().extension() != ".h" || is_test(entry.path())) continue;
      std::ifstream file(entry.path());
      std::string prefix;  // of nested namespaces, which keep names apart
      for (std::string line; std::getline(file, line);) {
        std::smatch found;
        if (line.starts_with("namespace ")) prefix += line;
        if (std::regex_match(line, found, definition))
          headers[prefix + " " + found[1].str()].insert(entry.path().string());
      }
    }
  }
  EXPECT_GT(headers.size(), 100u);
  for (const auto& [name, files] : headers)
    EXPECT_EQ(files.size(), 1u) << name << ": " << *files.begin() << ", " << *files.rbegin();
}

bool is_test_helper(const fs::path& path) { return path.filename().string().starts_with("test_"); }

// Whether only tests and their helpers may be in it.
bool is_of_tests(const fs::path& path) {
  return path.stem().string().ends_with("_test") || is_test_helper(path) ||
         *path.begin() == "tests";
}

// Whether it may use helpers of tests: their pictures and scenes are what benches and fuzzers take.
bool may_use_helpers(const fs::path& path) {
  const std::string name = path.filename().string();
  return is_of_tests(path) || name.find("_bench") != std::string::npos ||
         name.find("_fuzz") != std::string::npos || path.string().starts_with("src/bench/");
}

// What is wrong with the name of a header that these files include; nothing where all is well.
std::string misnamed(const fs::path& header, const std::set<fs::path>& users) {
  if (is_test_helper(header)) {
    for (const fs::path& user : users)
      if (!may_use_helpers(user)) return user.string() + " includes a helper of tests";
    return "";
  }
  const bool helps = std::all_of(users.begin(), users.end(), may_use_helpers) &&
                     std::any_of(users.begin(), users.end(), is_of_tests);
  return helps ? "only tests include it: a helper of tests is named test_x.h" : "";
}

// Helpers of tests have one naming, and no product file includes one.
TEST(Includes, HelpersOfTestsAreNamedAlike) {
  const fs::path root = source_dir();
  std::map<fs::path, std::set<fs::path>> users;  // by what they include, as it is written
  std::vector<fs::path> headers;
  for (const char* folder : {"src", "apps", "tests", "python/src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const fs::path relative = fs::relative(entry.path(), root);
      if (relative.extension() == ".h" && relative.begin()->string() != "tests" &&
          !relative.string().starts_with("src/bench/"))
        headers.push_back(relative);
      for (const std::string& included : includes_of(entry.path()))
        users[included].insert(relative);
    }
  }
  EXPECT_GT(headers.size(), 100u);
  for (const fs::path& header : headers) {
    const fs::path written = header.lexically_relative(*header.begin());  // less src or apps
    EXPECT_EQ(misnamed(header, users[written]), "") << header;
    EXPECT_TRUE(is_test_helper(header) || !users["gtest/gtest.h"].contains(header)) << header;
  }
}

TEST(Includes, AMisnamedHelperIsFound) {
  const std::set<fs::path> tests = {"src/gaze/look_test.cc", "src/gaze/test_scenes.h"};
  EXPECT_EQ(misnamed("src/gaze/test_scenes.h", tests), "");
  EXPECT_NE(misnamed("src/gaze/scene_fixture.h", tests), "");
  EXPECT_NE(misnamed("src/gaze/scenes.h", {"src/gaze/look_test.cc", "src/gaze/gaze_bench.cc"}), "");
  EXPECT_EQ(misnamed("src/gaze/scenes.h", {"src/gaze/look_test.cc", "src/gaze/look.cc"}), "");
  EXPECT_EQ(misnamed("src/gaze/bench_scenes.h", {"src/gaze/gaze_bench.cc"}), "");
  EXPECT_NE(misnamed("src/gaze/test_scenes.h", {"src/gaze/look.cc"}), "");
}

// The first flag of a program, as --word, that a text of this line of source names; empty: none.
std::string flag_in(const std::string& line) {
  // Characters and comments stand here so that their quotes begin no text.
  static const std::regex token(R"re('(?:[^'\\]|\\.)'|//.*|"((?:[^"\\]|\\.)*)")re");
  static const std::regex flag("(?:^|[^-A-Za-z0-9])(--[a-z][-a-z]*)");
  for (std::sregex_iterator it(line.begin(), line.end(), token), end; it != end; ++it) {
    const std::string text = (*it)[1];
    std::smatch found;
    if (std::regex_search(text, found, flag)) return found[1];
  }
  return "";
}

// The library does not know the command line: a server and a Python program show its messages too.
TEST(Includes, NoMessageOfTheLibraryNamesAFlag) {
  EXPECT_EQ(flag_in(R"(return bad_input("leave --look-form out");  // "no")"), "--look-form");
  EXPECT_EQ(flag_in(R"(f("a", --count, '"', "b--c"))"), "");
  EXPECT_EQ(flag_in(R"(// "--look")"), "");
  const fs::path root = fs::path(source_dir()) / "src";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || !is_source(entry.path()) || is_of_tests(entry.path())) continue;
    std::ifstream file(entry.path());
    int number = 1;
    for (std::string line; std::getline(file, line); ++number)
      EXPECT_EQ(flag_in(line), "") << entry.path() << ":" << number;
  }
}

}  // namespace
}  // namespace fovea
