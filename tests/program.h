// SPDX-License-Identifier: Apache-2.0
// Runs the real program and keeps what it said.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "places.h"

namespace fovea {

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder of this test's own, emptied first and removed when the program ends.
inline std::filesystem::path scratch() {
  struct Folders {
    std::vector<std::filesystem::path> made;
    ~Folders() {
      for (const auto& folder : made) std::filesystem::remove_all(folder);
    }
  };
  static Folders folders;
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder =
      std::filesystem::temp_directory_path() /
      ("fovea-" + std::to_string(getpid()) + "-" + test->test_suite_name() + "." + test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  folders.made.push_back(folder);
  return folder;
}

// A file system of so many bytes at a folder while it lives; only root may have one.
class SmallDisk {
 public:
  SmallDisk(const std::filesystem::path& folder, const std::string& bytes) : folder_(folder) {
    std::filesystem::create_directories(folder);
    mounted_ = mount("none", folder.c_str(), "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path folder_;
  bool mounted_ = false;
};

inline Outcome run_fovea(std::vector<std::string> arguments,
                         const std::string& stdin_file = "/dev/null") {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string stem = (folder / ("fovea-run-" + std::to_string(getpid()))).string();
  const std::string out = stem + ".out";
  const std::string err = stem + ".err";
  std::vector<char*> argv;
  std::string program = program_path();
  argv.push_back(program.data());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child == 0) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open(stdin_file.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), flags, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), flags, 0600), STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = read_all(out);
  run.err = read_all(err);
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return run;
}

// Wrong use: one line on stderr that starts with "fovea:", nothing on stdout, exit status 2.
inline void expect_refused(const std::vector<std::string>& arguments, const std::string& must_say) {
  const Outcome run = run_fovea(arguments);
  std::string shown;
  for (const std::string& argument : arguments) shown += " '" + argument + "'";
  EXPECT_EQ(run.status, 2) << shown << "\n" << run.err;
  EXPECT_EQ(run.out, "") << shown;
  EXPECT_TRUE(run.err.starts_with("fovea: ")) << shown << "\n" << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << shown << "\n" << run.err;
  EXPECT_NE(run.err.find(must_say), std::string::npos) << shown << "\n" << run.err;
}

}  // namespace fovea
