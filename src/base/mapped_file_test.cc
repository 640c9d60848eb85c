// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace fovea {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() { fs::create_directories(folder_); }
  ~MappedFileTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, size_t bytes) {
    const fs::path path = folder_ / name;
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < bytes; ++i) file.put(value_at(i));
    return path.string();
  }
  static char value_at(size_t i) { return static_cast<char>(1 + i % 251); }
  static uint8_t byte_at(const MappedFile& file, size_t i) {
    return static_cast<uint8_t>(file.bytes()[i]);
  }

  fs::path folder_ = fs::temp_directory_path() / ("fovea_mapped_" + std::to_string(getpid()));
};

TEST_F(MappedFileTest, HoldsTheFilesBytes) {
  const auto file = MappedFile::open(write("a", 10'000));
  ASSERT_TRUE(file);
  ASSERT_EQ(file->size(), 10'000);
  for (size_t i = 0; i < 10'000; ++i) ASSERT_EQ(byte_at(*file, i), uint8_t(value_at(i))) << i;
  EXPECT_TRUE(file->intact());
  std::vector<std::byte> part(100);
  ASSERT_TRUE(file->read_at(9'900, part));
  EXPECT_EQ(static_cast<uint8_t>(part[99]), uint8_t(value_at(9'999)));
  EXPECT_FALSE(file->read_at(9'901, part)) << "one byte beyond the end";
}

TEST_F(MappedFileTest, AdviceNeverChangesTheBytes) {
  const auto file = MappedFile::open(write("a", 40'000));
  ASSERT_TRUE(file);
  using Advice = MappedFile::Advice;
  for (const Advice advice : {Advice::kPopulate, Advice::kDontNeed, Advice::kPopulate}) {
    for (const auto& [begin, bytes] :
         {std::pair<size_t, size_t>{0, 40'000}, {1, 39'998}, {5'000, 10}, {39'999, 1}, {7, 0}}) {
      file->advise(file->bytes().subspan(begin, bytes), advice);
      for (size_t i = 0; i < 40'000; i += 37) ASSERT_EQ(byte_at(*file, i), uint8_t(value_at(i)));
    }
  }
}

TEST_F(MappedFileTest, AFileThatShrinksReadsAsZerosAndIsNamed) {
  const std::string path = write("a", 100'000);
  const auto file = MappedFile::open(path);
  const auto other = MappedFile::open(write("b", 100'000));
  ASSERT_TRUE(file && other);
  ASSERT_EQ(truncate(path.c_str(), 4'100), 0);
  int64_t sum = 0;
  for (size_t i = 50'000; i < 100'000; ++i) sum += byte_at(*file, i);
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(byte_at(*file, 10), uint8_t(value_at(10))) << "what is left stays";
  const Status status = file->intact();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("100,000 bytes long when it was opened and is 4,100 now"),
            std::string::npos)
      << status.error().message;
  EXPECT_TRUE(other->intact()) << "another file is none the worse";
}

TEST_F(MappedFileTest, AFileThatShrankStaysDamagedWhenItGrowsAgain) {
  const std::string path = write("a", 100'000);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EQ(byte_at(*file, 60'000), 0);
  ASSERT_EQ(truncate(path.c_str(), 100'000), 0);
  EXPECT_FALSE(file->intact());
}

TEST_F(MappedFileTest, ThreadsThatReadAShrinkingFileGoOn) {
  const std::string path = write("a", 1 << 20);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  std::vector<std::thread> readers;
  readers.reserve(4);
  for (int t = 0; t < 4; ++t)
    readers.emplace_back([&file] {
      for (int round = 0; round < 50; ++round)
        for (size_t i = 0; i < (1 << 20); i += 4096)
          EXPECT_TRUE(byte_at(*file, i) == uint8_t(value_at(i)) || byte_at(*file, i) == 0);
    });
  ASSERT_EQ(truncate(path.c_str(), 12'345), 0);
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(file->intact());
}

TEST_F(MappedFileTest, AFileWrittenToIsNoticed) {
  const std::string path = write("a", 5'000);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(3));
  const Status status = file->intact();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("was changed"), std::string::npos);
}

TEST_F(MappedFileTest, WhatIsNoFileIsRefused) {
  const auto message = [](const std::string& path) {
    const auto file = MappedFile::open(path);
    return file ? std::string("opened") : file.error().message;
  };
  EXPECT_NE(message((folder_ / "none").string()).find("No such file"), std::string::npos);
  EXPECT_NE(message(folder_.string()).find("is a folder"), std::string::npos);
  EXPECT_NE(message(write("empty", 0)).find("is empty"), std::string::npos);
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(message(pipe).find("is a pipe; give a file"), std::string::npos);
}

TEST_F(MappedFileTest, ManyMappingsComeAndGo) {
  const std::string path = write("a", 5'000);
  for (int i = 0; i < 5'000; ++i) {
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file);
    const MappedFile moved = *std::move(file);
    ASSERT_EQ(byte_at(moved, 4'999), uint8_t(value_at(4'999)));
  }
}

// A fault that is none of ours ends the program as it would have without us.
TEST_F(MappedFileTest, OtherPeoplesFaultsStayTheirs) {
  const std::string path = write("a", 5'000);
  EXPECT_DEATH(
      {
        const auto ours = MappedFile::open(path);
        const int descriptor = ::open(write("b", 5'000).c_str(), O_RDWR);
        auto* theirs =
            static_cast<volatile char*>(mmap(nullptr, 5'000, PROT_READ, MAP_SHARED, descriptor, 0));
        if (ftruncate(descriptor, 0) == 0) std::fputc(theirs[4'999], stderr);
      },
      "");
}

}  // namespace
}  // namespace fovea
