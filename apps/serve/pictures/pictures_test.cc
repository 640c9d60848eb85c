// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/pictures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/thread_time.h"
#include "fovea/fovea.h"
#include "places.h"

namespace fovea::serve {
namespace {

constexpr const char* kParam = "messages[0].content[1].image_url";

std::string fixture(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/fixtures/images/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr const char* kForUrls = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string base64(const std::string& bytes, bool padded = true, const char* alphabet = kPlain) {
  std::string text;
  uint32_t held = 0;
  int bits = 0;
  for (const char byte : bytes) {
    held = held << 8 | static_cast<uint8_t>(byte);
    for (bits += 8; bits >= 6; bits -= 6) text += alphabet[held >> (bits - 6) & 63];
  }
  if (bits > 0) text += alphabet[held << (6 - bits) & 63];
  while (padded && text.size() % 4 != 0) text += '=';
  return text;
}

std::string png_url(const std::string& bytes) { return "data:image/png;base64," + base64(bytes); }

// A data URL must give the same file, or the same error, where its bytes take its place.
void expect_the_same_in_place(const std::string& url, const PictureLimits& limits) {
  const auto apart = read_picture(url, limits, kParam);
  std::string place = url;
  const auto in_place = read_data_url_in_place(place, limits, kParam);
  if (const auto* error = std::get_if<ApiError>(&apart)) {
    ASSERT_TRUE(std::holds_alternative<ApiError>(in_place));
    EXPECT_EQ(std::get<ApiError>(in_place).message, error->message);
    EXPECT_EQ(std::get<ApiError>(in_place).code, error->code);
    return;
  }
  const auto& bytes = std::get<std::span<const uint8_t>>(in_place);
  EXPECT_EQ(std::get<std::vector<uint8_t>>(apart),
            std::vector<uint8_t>(bytes.begin(), bytes.end()));
  const auto* const begin = reinterpret_cast<const uint8_t*>(place.data());
  EXPECT_TRUE(bytes.data() > begin && bytes.data() + bytes.size() <= begin + place.size());
}

ApiError refused(const std::string& url, const PictureLimits& limits = {}) {
  if (url.starts_with("data:")) expect_the_same_in_place(url, limits);
  const auto result = load_picture(url, limits, kParam);
  const auto* error = std::get_if<ApiError>(&result);
  EXPECT_NE(error, nullptr) << url.substr(0, 200);
  if (error == nullptr) return {};
  EXPECT_EQ(error->param, kParam);
  EXPECT_FALSE(error->code.empty());
  EXPECT_LE(error->message.size(), 500u);
  EXPECT_EQ(error->message.find('\n'), std::string::npos);
  return *error;
}

void expect_words(const ApiError& error, const std::string& words) {
  EXPECT_EQ(error.status, 400);
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message << " lacks " << words;
}

Image loaded(const std::string& url, const PictureLimits& limits = {}) {
  auto result = load_picture(url, limits, kParam);
  EXPECT_TRUE(std::holds_alternative<Image>(result))
      << url.substr(0, 60) << ": " << std::get<ApiError>(result).message;
  return std::holds_alternative<Image>(result) ? std::get<Image>(std::move(result)) : Image();
}

TEST(Pictures, DataUrlsHoldEveryFormatUnderAnyType) {
  for (const char* name : {"rgb-8.png", "rgb.jpg", "lossy.webp", "one-pixel.png"}) {
    const Image known = *load_image(source_dir() + "/tests/fixtures/images/" + name);
    const std::string data = base64(fixture(name));
    for (const std::string type :
         {"data:image/png;base64,", "data:image/jpeg;base64,", "data:image/jpg;base64,",
          "data:image/webp;base64,", "data:;base64,", "DATA:IMAGE/PNG;BASE64,",
          "data:application/octet-stream;base64,", "data:image/x-unknown;base64,",
          "data:image/png;charset=utf-8;name=a.png;base64,"}) {
      const Image image = loaded(type + data);
      EXPECT_EQ(image.size, known.size) << type;
      EXPECT_EQ(image.rgb, known.rgb) << type;
    }
  }
}

// Bytes behind the end of a picture are ignored: they give every length.
TEST(Pictures, Base64OfAnyLengthAlphabetAndPadding) {
  std::string bytes = fixture("rgb-8.png");
  const Image known = loaded(png_url(bytes));
  for (int more = 0; more < 8; ++more, bytes += '\xff')
    for (const bool padded : {true, false})
      for (const char* alphabet : {kPlain, kForUrls}) {
        const Image image = loaded("data:image/png;base64," + base64(bytes, padded, alphabet));
        EXPECT_EQ(image.rgb, known.rgb);
      }
}

TEST(Pictures, DataUrlsThatAreWrongAreRefused) {
  const std::string data = base64(fixture("one-pixel.png"));
  const std::string start = "data:image/png;base64,";
  struct {
    std::string url;
    const char* words;
  } const rows[] = {
      {"data:", "no comma"},
      {"data:image/png;base64", "no comma"},
      {"data:image/png;base64;" + data, "no comma"},
      {"data:,", "not base64"},
      {"data:image/png," + data, "not base64"},
      {"data:image/png;base64x," + data, "not base64"},
      {"data:image/png;base64;x," + data, "not base64"},
      {"data:base64," + data, "not base64"},
      {"data:image/svg+xml,%3Csvg%3E", "not base64"},
      {"data:text/html;base64," + data, "type text/html"},
      {"data:application/pdf;base64," + data, "type application/pdf"},
      {"data:image;base64," + data, "type image"},
      {"data:video/mp4\n;base64," + data, "type video/mp4"},
      {"data:" + std::string(9000, 'x') + ";base64," + data, "type is too long"},
      {start, "no data"},
      {start + "=", "not base64"},
      {start + "==", "not base64"},
      {start + "====", "not base64"},
      {start + "A", "not base64"},
      {start + "AAAAA", "not base64"},
      {start + "AA=", "not base64"},
      {start + "AAA==", "not base64"},
      {start + "AAAA=", "not base64"},
      {start + "AA===", "not base64"},
      {start + "AA==AAAA", "character 3 is a = before the end"},
      {start + " " + data, "character 1 is foreign"},
      {start + "AAAA\nAAAA", "character 5 is foreign"},
      {start + "AAAA AAAA", "not base64"},
      {start + "AAA%3D", "character 4 is foreign"},
      {start + "AA.AAAAA", "not base64"},
      {start + "AA,A", "not base64"},
      {start + "\xc3\xa4\xc3\xa4", "not base64"},
      {start + std::string(4, '\0'), "not base64"},
      {start + "data:image/png;base64," + data, "not base64"},
      {start + "AAAA", "the picture cannot be read"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.url.substr(0, 100));
    expect_words(refused(row.url), row.words);
  }
}

TEST(Pictures, KindsOfUrlsThatAreNotTakenAreRefused) {
  for (const std::string& url :
       {std::string(), std::string("ftp://127.0.0.1/a.png"), std::string("gopher://127.0.0.1/"),
        std::string("a.png"), std::string("/etc/passwd"), std::string("dict://x"),
        std::string("javascript:x"), std::string("blob:x"), std::string(":"), std::string("//x/y"),
        std::string(" data:image/png;base64,AAAA"), std::string("\0data:", 6),
        base64(fixture("rgb-8.png")), std::string(100'000, 'x'), std::string("httpx://x/"),
        std::string("file2:///etc/passwd"), std::string("unix:///run/x"), std::string("smb://x/")})
    expect_words(refused(url), "the URL's kind is none that pictures come by");
  expect_words(refused("https://a.example/" + std::string(9000, 'x')), "more than 8192 characters");
  expect_words(refused("file:///" + std::string(9000, 'x')), "more than 8192 characters");
}

// URLs that lead to this machine or its files; what a host answers is in fetch_test.cc.
TEST(Pictures, NothingIsFetchedOrReadUnlessItIsAllowed) {
  for (const char* url :
       {"http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0/",
        "http://2130706433/", "http://0177.0.0.1/", "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/", "https://pictures.example/a.png"}) {
    expect_words(refused(url), "not fetched from this host");
    EXPECT_EQ(refused(url).code, "picture_host_not_allowed");
  }
  expect_words(refused("http://pictures.example\\@127.0.0.1/", {.hosts = {"pictures.example"}}),
               "user name");
  expect_words(refused("file:///etc/passwd"), "no pictures from files");
  const std::string folder = source_dir() + "/tests/fixtures/images";
  expect_words(refused("file:///etc/passwd", {.folder = folder}), "no such file");
  expect_words(refused("file://" + folder + "/../../places.h", {.folder = folder}), "no such file");
  EXPECT_EQ(loaded("file://" + folder + "/rgb-8.png", {.folder = folder}).rgb,
            load_image(folder + "/rgb-8.png")->rgb);
  // The reason is the decoder's, without the file's name.
  const ApiError error = refused("file://" + folder + "/list.json", {.folder = folder});
  expect_words(error, "the picture cannot be read: it does not begin as");
  EXPECT_EQ(error.message.find("list"), std::string::npos);
}

TEST(Pictures, WhatIsNoPictureIsRefusedWithTheDecodersReason) {
  const std::string bytes = fixture("rgb-8.png");
  expect_words(refused(png_url("GIF89a" + bytes)), "the picture cannot be read: it is a GIF image");
  expect_words(refused(png_url(bytes.substr(0, bytes.size() / 2))), "the picture cannot be read");
  expect_words(refused(png_url("hello, this is a text")), "the picture cannot be read");
  expect_words(refused(png_url(bytes), {.pixels = 2}), "over the limit of 2");
  EXPECT_EQ(refused(png_url("x")).code, "invalid_picture");
}

TEST(Pictures, TheLimitOfBytesIsThatOfTheDecodedData) {
  const std::string bytes = fixture("rgb-8.png");
  for (const std::string more : {"", "x", "xx", "xxx"}) {
    const std::string url = png_url(bytes + more);
    const auto size = static_cast<int64_t>(bytes.size() + more.size());
    loaded(url, {.bytes = size});
    expect_words(refused(url, {.bytes = size - 1}),
                 "more than " + std::to_string(size - 1) + " bytes");
  }
  for (const int64_t none : {0, -1})
    EXPECT_EQ(refused(png_url(bytes), {.bytes = none}).code, "picture_too_large");
}

TEST(Pictures, HundredMegabytesAreRefusedByTheirLength) {
  std::string url = "data:image/png;base64,";
  url.resize(100'000'000, 'A');
  const double start = thread_seconds();
  EXPECT_EQ(refused(url).code, "picture_too_large");
  std::fill(url.begin() + 5, url.end(), 'A');
  expect_words(refused(url), "no comma");
  EXPECT_LT(thread_seconds() - start, 5);  // 0.01 s
}

// Whatever a URL is changed to, there is an image or a reason.
TEST(Pictures, ChangedDataUrlsAreReadOrRefused) {
  std::mt19937 random(16);
  const auto below = [&](size_t count) { return count == 0 ? 0 : random() % count; };
  const std::string starts[] = {png_url(fixture("one-pixel.png")), png_url(fixture("gray-1.png")),
                                png_url(fixture("one-pixel.jpg")),
                                png_url(fixture("one-pixel.webp"))};
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string url = starts[below(4)];
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
      // One half of the changes is near the beginning, where the URL's own parts are.
      const size_t at = below(random() % 2 == 0 ? std::min<size_t>(url.size(), 40) : url.size());
      switch (random() % 5) {
        case 0:
          url.insert(at, 1, static_cast<char>(random()));
          break;
        case 1:
          url.erase(at, 1 + below(8));
          break;
        case 2:
          url.resize(at);
          break;
        case 3:
          url.insert(at, url.substr(below(url.size()), 16));
          break;
        default:
          if (at < url.size()) url[at] = kPlain[below(64)];
      }
    }
    if (!url.starts_with("data:")) url = "data:" + url;
    expect_the_same_in_place(url, {});
    const auto result = load_picture(url, {}, kParam);
    if (const auto* error = std::get_if<ApiError>(&result)) {
      ASSERT_EQ(error->status, 400);
      ASSERT_FALSE(error->message.empty());
    } else {
      ++read;
      ASSERT_GT(std::get<Image>(result).size.pixels(), 0);
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 2000);
}

}  // namespace
}  // namespace fovea::serve
