// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/picture_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "fovea/fovea.h"
#include "places.h"

namespace fovea::serve {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr const char* kParam = "messages[0].content[0].image_url";

// root/in is the folder that is allowed, root/out has a secret.
class PictureFileTest : public testing::Test {
 protected:
  PictureFileTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::canonical(fs::temp_directory_path()) /
            ("fovea-files-" + std::to_string(getpid()) + test->name());
    fs::remove_all(root_);
    fs::create_directories(in() / "sub");
    fs::create_directories(root_ / "out");
    write("in/a.png", "inside");
    write("in/sub/b.png", "inside");
    write("in/a%41 \xc3\xa4.png", "inside");
    write("out/a.png", "secret");
    write("in.png", "secret");
    limits_.folder = in().string();
    limits_.bytes = 1000;
  }
  ~PictureFileTest() override { fs::remove_all(root_); }

  fs::path in() const { return root_ / "in"; }
  void write(const fs::path& name, const std::string& text) const {
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  std::string url(const std::string& name) const { return "file://" + (root_ / name).string(); }

  // The file's text, or "refused".
  std::string read(const std::string& url) const {
    const auto result = read_picture_file(url, limits_, kParam);
    if (const auto* bytes = std::get_if<Bytes>(&result)) return {bytes->begin(), bytes->end()};
    const ApiError& error = std::get<ApiError>(result);
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, kParam);
    for (const std::string& part : {root_.string(), root_.filename().string(), std::string("/in/")})
      EXPECT_EQ(error.message.find(part), std::string::npos) << error.message;
    return "refused";
  }
  std::string message(const std::string& url) const {
    const auto result = read_picture_file(url, limits_, kParam);
    return std::holds_alternative<ApiError>(result) ? std::get<ApiError>(result).message : "";
  }

  fs::path root_;
  PictureLimits limits_;
};

TEST_F(PictureFileTest, FilesInTheFolderAreRead) {
  EXPECT_EQ(read(url("in/a.png")), "inside");
  EXPECT_EQ(read(url("in/sub/b.png")), "inside");
  EXPECT_EQ(read("file://localhost" + (in() / "a.png").string()), "inside");
  EXPECT_EQ(read("FILE://LocalHost" + (in() / "a.png").string()), "inside");
  EXPECT_EQ(read(url("in/sub/../a.png")), "inside");
  EXPECT_EQ(read(url("in//./sub//b.png")), "inside");
  EXPECT_EQ(read(url("in/%61.p%6Eg")), "inside");
  EXPECT_EQ(read(url("in/a%2541%20%C3%A4.png")), "inside");  // decoded once
  EXPECT_EQ(read(url("in/a%41%20%C3%A4.png")), "refused");
  limits_.folder += "/";
  EXPECT_EQ(read(url("in/a.png")), "inside");
}

TEST_F(PictureFileTest, WithoutAFolderNothingIsRead) {
  limits_.folder = "";
  EXPECT_EQ(read(url("in/a.png")), "refused");
  EXPECT_EQ(read("file:///etc/passwd"), "refused");
  limits_.folder = (root_ / "none").string();
  EXPECT_EQ(read(url("in/a.png")), "refused");
  EXPECT_EQ(read(url("none/a.png")), "refused");
  limits_.folder = (in() / "a.png").string();  // a file is no folder
  EXPECT_EQ(read(url("in/a.png")), "refused");
  EXPECT_EQ(read(url("in/a.png/a.png")), "refused");
}

TEST_F(PictureFileTest, WhatIsOutsideLooksLikeWhatIsNotThere) {
  const std::string missing = message(url("in/none.png"));
  ASSERT_FALSE(missing.empty());
  for (const std::string& other : {url("out/a.png"),
                                   url("in/../out/a.png"),
                                   url("in/%2e%2e/out/a.png"),
                                   url("in/..%2Fout%2Fa.png"),
                                   url("in/sub/../../out/a.png"),
                                   url("in.png"),
                                   url("in"),
                                   url("in/"),
                                   url("in/."),
                                   url("in/.."),
                                   url("out/none.png"),
                                   url("none/none/a.png"),
                                   url("in/a.png/"),
                                   url("in/a.png/x"),
                                   url("in/%252e%252e/out/a.png"),
                                   std::string("file:///etc/passwd"),
                                   std::string("file:///etc/none"),
                                   std::string("file:///"),
                                   std::string("file:////etc/passwd"),
                                   std::string("file:///proc/self/environ"),
                                   std::string("file:///dev/zero"),
                                   url("in/" + std::string(300, 'x')),
                                   url("in/" + std::string(5000, 'x'))})
    EXPECT_EQ(message(other), missing) << other;
}

TEST_F(PictureFileTest, UrlsThatAreWrongAreRefused) {
  for (const std::string& wrong :
       {std::string("file:"), std::string("file:/"), std::string("file://"),
        std::string("file://localhost"), std::string("file:a.png"),
        "file:" + (in() / "a.png").string(), "file://otherhost" + (in() / "a.png").string(),
        "file://127.0.0.1" + (in() / "a.png").string(), url("in/a.png?x"), url("in/a.png#x"),
        url("in/a.png%"), url("in/a.png%0"), url("in/%g1.png"), url("in/a.png%00"),
        url("in/a.png%00.jpg"), url("in/a.png") + std::string(1, '\0')})
    EXPECT_EQ(read(wrong), "refused") << wrong;
}

TEST_F(PictureFileTest, LinksMayNotLeadOut) {
  fs::create_symlink("a.png", in() / "near.png");
  fs::create_symlink(in() / "sub", in() / "near");
  fs::create_symlink(root_ / "out/a.png", in() / "far.png");
  fs::create_symlink("../out", in() / "far");
  fs::create_symlink("far.png", in() / "chain.png");
  fs::create_symlink("loop.png", in() / "loop.png");
  fs::create_symlink("nowhere.png", in() / "dangling.png");
  fs::create_symlink("/proc/self/root" + (root_ / "out").string(), in() / "magic");
  fs::create_directory_symlink(in(), root_ / "alias");
  EXPECT_EQ(read(url("in/near.png")), "inside");
  EXPECT_EQ(read(url("in/near/b.png")), "inside");
  for (const char* name : {"in/far.png", "in/far/a.png", "in/chain.png", "in/loop.png",
                           "in/dangling.png", "in/magic/a.png", "in/near/../../out/a.png"})
    EXPECT_EQ(read(url(name)), "refused") << name;
  // The folder itself may be a link, and be named by either path.
  limits_.folder = (root_ / "alias").string();
  EXPECT_EQ(read(url("alias/a.png")), "inside");
  EXPECT_EQ(read(url("in/a.png")), "inside");
  EXPECT_EQ(read(url("alias/far.png")), "refused");
}

TEST_F(PictureFileTest, OnlyPlainFilesAreOpened) {
  ASSERT_EQ(mkfifo((in() / "pipe.png").c_str(), 0600), 0);
  fs::create_symlink("pipe.png", in() / "link.png");
  fs::create_symlink("/dev/zero", in() / "zero.png");
  fs::create_symlink("/dev/stdin", in() / "stdin.png");
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string path = (in() / "s.png").string();
  ASSERT_LT(path.size(), sizeof at.sun_path);
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  for (const char* name :
       {"in/pipe.png", "in/link.png", "in/zero.png", "in/stdin.png", "in/s.png", "in/sub"})
    EXPECT_EQ(read(url(name)), "refused") << name;
  close(socket_fd);
}

TEST_F(PictureFileTest, SizesAreLimited) {
  write("in/most.png", std::string(1000, 'x'));
  write("in/over.png", std::string(1001, 'x'));
  write("in/none.png", "");
  EXPECT_EQ(read(url("in/most.png")).size(), 1000u);
  EXPECT_EQ(read(url("in/over.png")), "refused");
  EXPECT_NE(message(url("in/over.png")).find("more than 1000 bytes"), std::string::npos);
  EXPECT_EQ(read(url("in/none.png")), "");
  fs::resize_file(in() / "over.png", uint64_t{1} << 40);  // holes; not read, not allocated
  EXPECT_EQ(read(url("in/over.png")), "refused");
}

TEST_F(PictureFileTest, ThePathIsWalkedWithoutLinks) {
  fs::create_symlink(root_ / "out/a.png", in() / "far.png");
  fs::create_symlink("../out", in() / "far");
  const auto opens = [&](const std::string& relative) {
    const int fd = open_below(in().string(), relative);
    if (fd >= 0) close(fd);
    return fd >= 0;
  };
  EXPECT_TRUE(opens("a.png"));
  EXPECT_TRUE(opens("sub/b.png"));
  for (const char* relative : {"far.png", "far/a.png", "../out/a.png", "sub/../a.png", "./a.png",
                               "", "/", "sub", "sub/", "sub//b.png", "/etc/passwd", "none/a.png"})
    EXPECT_FALSE(opens(relative)) << relative;
}

// What is a file when it is judged may be a link when it is opened.
TEST_F(PictureFileTest, ExchangesDuringAReadDoNotLeadOut) {
  fs::create_directories(in() / "swap");
  write("in/swap/a.png", "inside");
  fs::create_symlink(root_ / "out", in() / "swap.link");
  write("in/turn.png", "inside");
  fs::create_symlink(root_ / "out/a.png", in() / "turn.link");
  std::atomic<bool> done{false};
  std::thread swapper([&] {
    while (!done) {
      for (const char* name : {"swap", "turn.png"}) {
        const std::string path = (in() / name).string();
        const std::string link = (in() / (std::string(name).substr(0, 4) + ".link")).string();
        if (renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE) != 0)
          return;  // a file system that cannot
      }
    }
  });
  int read_inside = 0;
  int read_outside = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = read(url(i % 2 == 0 ? "in/swap/a.png" : "in/turn.png"));
    read_inside += text == "inside" ? 1 : 0;
    read_outside += text == "secret" ? 1 : 0;
  }
  done = true;
  swapper.join();
  EXPECT_GT(read_inside, 0);
  EXPECT_EQ(read_outside, 0);
}

}  // namespace
}  // namespace fovea::serve
