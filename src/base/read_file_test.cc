// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace fovea {
namespace {

namespace fs = std::filesystem;

class ReadFileTest : public testing::Test {
 protected:
  ReadFileTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ReadFileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string fifo(const std::string& name) const {
    EXPECT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    return path(name);
  }

  static std::string outcome(const std::string& path, Takes takes = Takes::kFiles,
                             int64_t most = 1000) {
    const auto text = read_file(path, most, takes);
    return text ? "read: " + *text : text.error().message;
  }

  fs::path folder_ = fs::temp_directory_path() / ("fovea_read_" + std::to_string(getpid()));
};

TEST_F(ReadFileTest, FilesAreReadToTheirEndAndToTheLimit) {
  EXPECT_EQ(outcome(write("a", "12345")), "read: 12345");
  EXPECT_EQ(outcome(write("empty", "")), "read: ");
  EXPECT_EQ(outcome(path("a"), Takes::kFiles, 5), "read: 12345");
  EXPECT_NE(outcome(path("a"), Takes::kFiles, 4).find("it has 5 bytes; at most 4 are read"),
            std::string::npos);
  const std::string large(300'000, 'x');
  EXPECT_EQ(outcome(write("large", large), Takes::kFiles, 300'000), "read: " + large);
  // Files that do not say how long they are.
  EXPECT_TRUE(outcome("/proc/self/status", Takes::kFiles, 1 << 20).starts_with("read: Name:"));
}

TEST_F(ReadFileTest, OtherKindsAreRefusedByName) {
  const auto says = [&](const std::string& path, const std::string& what) {
    for (const Takes takes : {Takes::kFiles, Takes::kPipes, Takes::kStdin})
      EXPECT_NE(outcome(path, takes).find(what), std::string::npos) << outcome(path, takes);
  };
  says(folder_.string(), "it is a folder; give a file");
  says("/dev/zero", "it is a device; give a file");
  says(path("none"), "No such file or directory; check the path");
  says("", "cannot read \"\": No such file");
  says(std::string("a\0b", 3), "zero byte");
  const int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  says(path("socket"), "it is a socket; give a file");
  close(bound);
}

TEST_F(ReadFileTest, APipeIsTakenWhereItIsMeant) {
  const std::string pipe = fifo("pipe");
  EXPECT_NE(outcome(pipe).find("it is a pipe; give a file"), std::string::npos);
  // The writer comes late, is slow, and ends.
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const int fd = open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    for (const char* piece : {"one ", "two ", "three"}) {
      EXPECT_GT(::write(fd, piece, std::strlen(piece)), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
    close(fd);
  });
  EXPECT_EQ(outcome(pipe, Takes::kPipes), "read: one two three");
  writer.join();
}

TEST_F(ReadFileTest, APipeThatDoesNotEndIsReadToTheLimit) {
  const std::string pipe = fifo("pipe");
  std::thread writer([&] {
    signal(SIGPIPE, SIG_IGN);
    const int fd = open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    const std::string piece(1 << 16, 'x');
    while (::write(fd, piece.data(), piece.size()) > 0) {
    }
    close(fd);
  });
  EXPECT_NE(outcome(pipe, Takes::kPipes, 1 << 20).find("it goes on after 1,048,576 bytes"),
            std::string::npos);
  writer.join();
}

TEST_F(ReadFileTest, APipeWhoseWriterLeavesWithoutAWordIsEmpty) {
  const std::string pipe = fifo("pipe");
  std::thread writer([&] { close(open(pipe.c_str(), O_WRONLY | O_CLOEXEC)); });
  EXPECT_EQ(outcome(pipe, Takes::kPipes), "read: ");
  writer.join();
}

TEST_F(ReadFileTest, APipeWithoutAWriterIsAnErrorInTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(outcome(fifo("pipe"), Takes::kPipes).find("nobody wrote to it within 10 s"),
            std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(ReadFileTest, WhatIsMissingMayBe) {
  const auto missing = read_file_if_there(path("none"), 10);
  ASSERT_TRUE(missing);
  EXPECT_EQ(*missing, "");
  EXPECT_EQ(*read_file_if_there(write("a", "x"), 10), "x");
  EXPECT_FALSE(read_file_if_there(folder_.string(), 10));
  fs::create_symlink(path("none"), path("dangling"));
  EXPECT_EQ(*read_file_if_there(path("dangling"), 10), "");
}

}  // namespace
}  // namespace fovea
