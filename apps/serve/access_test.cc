// SPDX-License-Identifier: Apache-2.0
#include "serve/access.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace fovea::serve {
namespace {

TEST(Access, KeysAreToldApart) {
  const std::vector<std::string> keys = {"first", "second"};
  EXPECT_EQ(find_key("Bearer first", keys), 0);
  EXPECT_EQ(find_key("bearer second", keys), 1);
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer firs", "Bearer first ", "Bearer firsts", "Bearer Second",
        "Basic first", "first", "Bearer  first"})
    EXPECT_EQ(find_key(wrong, keys), -1) << wrong;
}

TEST(Access, KeysAreReadOneALine) {
  const auto path = std::filesystem::temp_directory_path() / "fovea-access-test-keys";
  const auto read = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return read_keys(path.string());
  };
  EXPECT_EQ(*read("one\r\n\n  \ntwo"), (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("\n\n"));
  EXPECT_FALSE(read("two words"));
  EXPECT_FALSE(read(std::string("nul\0", 4)));
  EXPECT_FALSE(read(std::string(5000, 'k')));
  std::filesystem::remove(path);
  EXPECT_FALSE(read_keys(path.string()));
}

TEST(Access, OnlyPagesOfThisMachineMayReadAnswers) {
  for (const char* local : {"http://localhost", "http://localhost:3000", "https://LOCALHOST:1",
                            "http://127.0.0.1:8080", "http://[::1]:5173", "http://[::1]"})
    EXPECT_TRUE(is_local_origin(local)) << local;
  for (const char* other :
       {"", "null", "localhost", "http://localhost.evil.com", "http://evil.com/localhost",
        "http://localhost:", "http://localhost:x", "http://localhost:1/",
        "http://localhost@evil.com", "ftp://localhost", "http://127.0.0.1.evil.com",
        "http://[::1].evil.com", "http://[::1", "http://", "http://127.0.0.2"})
    EXPECT_FALSE(is_local_origin(other)) << other;
}

TEST(Access, NamesThatResolveHereAreNotThisMachine) {
  for (const char* own :
       {"localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:80", "10.1.2.3", "[2001:db8::1]"})
    EXPECT_TRUE(is_local_host(own)) << own;
  for (const char* other : {"", "evil.com", "evil.com:8080", "localhost.evil.com",
                            "127.0.0.1.nip.io", "[::1", "[]", "::1", "1"})
    EXPECT_FALSE(is_local_host(other)) << other;
}

}  // namespace
}  // namespace fovea::serve
