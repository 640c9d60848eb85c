// SPDX-License-Identifier: Apache-2.0
#include "fovea/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/write_file.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("fovea-new-file-" + std::to_string(getpid()) + "-" + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~NewFileTest() override {
    umount2(path("small").c_str(), MNT_DETACH);  // where a test has mounted it
    fs::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  size_t files(const std::string& name = "") const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_ / name), fs::directory_iterator()));
  }
  mode_t mode(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(stat(path(name).c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  fs::path folder_;
};

Error error_of(const Status& status) {
  EXPECT_FALSE(status);
  return status ? failed("") : status.error();
}

TEST_F(NewFileTest, NothingIsSeenBeforeCommitAndNothingIsLeftWithoutIt) {
  put("old", "older text");
  for (const std::string name : {"old", "new"}) {
    const std::string before = text(name);
    const size_t count = files();
    {
      auto file = NewFile::create(path(name));
      ASSERT_TRUE(file) << file.error().message;
      ASSERT_TRUE(file->write("half of "));
      EXPECT_EQ(text(name), before);
    }
    EXPECT_EQ(text(name), before);
    EXPECT_EQ(files(), count) << "something was left";
    auto file = NewFile::create(path(name));
    ASSERT_TRUE(file->write("half of "));
    ASSERT_TRUE(file->write("it"));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(text(name), "half of it");
  }
  EXPECT_EQ(files(), 2u);
}

TEST_F(NewFileTest, ANewFileHasTheUsualModeAndAnOlderOneKeepsItsOwn) {
  const mode_t mask = umask(027);
  ASSERT_TRUE(save_text(path("new"), "a"));
  umask(mask);
  EXPECT_EQ(mode("new"), 0640u);
  for (const mode_t kept : {0600u, 0644u, 0664u, 0755u}) {
    ASSERT_EQ(chmod(path("new").c_str(), kept), 0);
    ASSERT_TRUE(save_text(path("new"), "b"));
    EXPECT_EQ(mode("new"), kept);
  }
}

TEST_F(NewFileTest, LinksAreFollowedEvenToAFileThatIsNotThereYet) {
  fs::create_directories(folder_ / "there");
  put("there/old", "old");
  fs::create_symlink("there/old", folder_ / "link");
  fs::create_symlink("link", folder_ / "link to a link");
  ASSERT_TRUE(save_text(path("link to a link"), "new"));
  EXPECT_EQ(text("there/old"), "new");
  fs::create_symlink("there/later", folder_ / "dangling");
  ASSERT_TRUE(save_text(path("dangling"), "made"));
  EXPECT_EQ(text("there/later"), "made");
  for (const char* link : {"link", "link to a link", "dangling"})
    EXPECT_TRUE(fs::is_symlink(folder_ / link)) << link;
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  EXPECT_EQ(error_of(save_text(path("a"), "x")).kind, Error::Kind::kBadInput);
}

TEST_F(NewFileTest, APathThatCannotBeWrittenIsTheCallersMistake) {
  put("file", "x");
  const auto refused = [&](const std::string& where, const std::string& must_say) {
    for (const Status& status : {save_text(where, "text"), check_writable(where)}) {
      const Error error = error_of(status);
      EXPECT_EQ(error.kind, Error::Kind::kBadInput) << where;
      EXPECT_NE(error.message.find(must_say), std::string::npos) << error.message;
    }
  };
  refused(path("no/such/file"), "make its folder first");
  refused(path("file/in a file"), "make its folder first");
  refused(path(""), "Is a directory");
  refused("", "No such file");
  refused(path("file") + std::string("\0hidden", 7), "Invalid argument");
  refused(path(std::string(300, 'n')), "too long");
  if (geteuid() != 0) {  // root may write everything
    fs::permissions(folder_ / "file", fs::perms::owner_read);
    refused(path("file"), "Permission denied");
    fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
    refused(path("new"), "Permission denied");
    fs::permissions(folder_, fs::perms::owner_all);
  }
  EXPECT_EQ(text("file"), "x");
  EXPECT_EQ(files(), 1u);
}

TEST_F(NewFileTest, DevicesAndPipesAreWrittenAsTheyAre) {
  EXPECT_TRUE(save_text("/dev/null", "text"));
  const Error full = error_of(save_text("/dev/full", "text"));
  EXPECT_EQ(full.kind, Error::Kind::kFailed);
  EXPECT_EQ(full.message, "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(check_writable(path("pipe"))) << "waits for no reader";
  std::string got;
  std::thread reader([&] { got = text("pipe"); });
  const std::string many(300'000, 'x');
  EXPECT_TRUE(save_text(path("pipe"), many));
  reader.join();
  EXPECT_EQ(got, many);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

// Runs in a child, for what cannot be undone in a process.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(NewFileTest, AFileThatMayNotGrowLeavesTheOldOne) {
  put("old", "old");
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{1000, 1000};
              setrlimit(RLIMIT_FSIZE, &limit);
              const Status saved = save_text(path("old"), std::string(5000, 'x'));
              return !saved && saved.error().kind == Error::Kind::kFailed &&
                             saved.error().message.ends_with("File too large")
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_EQ(text("old"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(NewFileTest, AFullDiskLeavesTheOldFile) {
  fs::create_directories(folder_ / "small");
  if (mount("none", path("small").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "may not mount";
  put("small/old", "old");
  const Error error = error_of(save_text(path("small/old"), std::string(500'000, 'x')));
  EXPECT_EQ(error.kind, Error::Kind::kFailed);
  EXPECT_TRUE(error.message.ends_with("No space left on device")) << error.message;
  EXPECT_EQ(text("small/old"), "old");
  EXPECT_EQ(files("small"), 1u);
  EXPECT_TRUE(save_text(path("small/old"), "new"));
  EXPECT_EQ(text("small/old"), "new");
}

TEST_F(NewFileTest, AProcessThatIsKilledLeavesNothing) {
  put("old", "old");
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    EXPECT_EQ(in_child([&] {
                auto file = NewFile::create(path("old"));
                (void)file->write(std::string(100'000, 'x'));
                raise(signal);
                return 0;
              }),
              128 + signal);
    EXPECT_EQ(text("old"), "old");
    EXPECT_EQ(files(), 1u) << "after signal " << signal;
  }
}

// A rename would leave what is printed later in a file without a name.
TEST_F(NewFileTest, WhatStdoutHasOpenIsWrittenThere) {
  EXPECT_EQ(in_child([&] {
              const int fd = open(path("out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
              dup2(fd, STDOUT_FILENO);
              std::fputs("one ", stdout);
              const bool saved = save_text("-", "two ") && save_text(path("out"), "three ") &&
                                 save_text("/dev/stdout", "four ");
              std::fputs("five", stdout);
              std::fflush(stdout);
              return saved ? 0 : 1;
            }),
            0);
  EXPECT_EQ(text("out"), "one two three four five");
}

TEST_F(NewFileTest, ALockHasOneOwner) {
  const int first = open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
  const int second = open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_TRUE(lock_alone(first));
  EXPECT_FALSE(lock_alone(second));
  close(first);
  EXPECT_TRUE(lock_alone(second));
  close(second);
}

}  // namespace
}  // namespace fovea
