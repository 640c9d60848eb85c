// SPDX-License-Identifier: Apache-2.0
// What is refused, and that the one line of error says what it is and what to do.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "media/decode.h"
#include "media/test_fixtures.h"

namespace fovea {
namespace {

using fixtures::Blob;
using fixtures::blob;
using namespace std::string_view_literals;

// The error that refuses `bytes`; checks what every such error must be.
std::string refusal(const Blob& bytes, const ImageLimits& limits = {}) {
  const Result<Image> image = decode_image(bytes, "the name", limits);
  if (image) return "decoded";
  const std::string& message = image.error().message;
  EXPECT_EQ(image.error().kind, Error::Kind::kBadInput) << message;
  EXPECT_TRUE(message.starts_with("cannot read the name: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_NE(message.find("; "), std::string::npos) << "no advice: " << message;
  return message;
}

// ISO boxes begin with "ftyp", the main brand, a version and further brands.
Blob boxed(std::string_view brands) {
  Blob bytes = fixtures::big_endian(static_cast<uint32_t>(8 + brands.size()));
  fixtures::append(bytes, blob("ftyp"));
  fixtures::append(bytes, blob(brands));
  return bytes;
}

TEST(Refuse, OtherFormatsAreNamedWithWhatToDo) {
  const std::pair<Blob, const char*> cases[] = {
      {boxed("heic\0\0\0\0mif1heic"sv), "a HEIC image"},
      {boxed("mif1\0\0\0\0mif1heic"sv), "a HEIC image"},
      {boxed("avif\0\0\0\0mif1miaf"sv), "an AVIF image"},
      {boxed("mif1\0\0\0\0mif1avif"sv), "an AVIF image"},
      {boxed("isom\0\0\2\0isomiso2avc1mp41"sv), "an MP4 or QuickTime video"},
      {blob("GIF89a\1\0\1\0\0\0\0;"sv), "a GIF image"},
      {blob("GIF87a\1\0\1\0\0\0\0;"sv), "a GIF image"},
      {blob("BM\x3a\0\0\0\0\0\0\0\x36\0\0\0"sv), "a BMP image"},
      {blob("II*\0\x08\0\0\0"sv), "a TIFF image"},
      {blob("MM\0*\0\0\0\x08"sv), "a TIFF image"},
      {blob("<svg xmlns='http://www.w3.org/2000/svg'/>"), "an SVG drawing"},
      {blob("\xef\xbb\xbf<?xml version='1.0'?>\n<!-- by hand -->\n<SVG/>"), "an SVG drawing"},
      {blob("\xff\x0a\0\0"sv), "a JPEG XL image"},
      {blob("\0\0\0\x0cJXL \r\n\x87\n"sv), "a JPEG XL image"},
      {blob("\0\0\0\x0cjP  \r\n\x87\n"sv), "a JPEG 2000 image"},
      {blob("8BPS\0\1"sv), "a Photoshop image"},
      {blob("\0\0\1\0\1\0"sv), "a Windows icon"},
      {blob("%PDF-1.7"), "a PDF document"},
      {blob("RIFF\x10\0\0\0AVI LIST"sv), "an AVI video"},
      {blob("\x1a\x45\xdf\xa3\x01"), "a Matroska or WebM video"},
  };
  for (const auto& [bytes, what] : cases) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_NE(message.find("fovea reads JPEG, PNG and WebP: convert it"), std::string::npos)
        << message;
  }
}

TEST(Refuse, BytesOfNoImageAreNotShown) {
  const std::string no_image = "it does not begin as any known image does; fovea reads";
  EXPECT_NE(refusal({}).find("it is empty"), std::string::npos);
  const std::string secret = refusal(blob("root:x:0:0:root:/root:/bin/bash"));
  EXPECT_NE(secret.find(no_image), std::string::npos);
  for (const char* shown : {"root", "72", "6f"})
    EXPECT_EQ(secret.find(shown), std::string::npos) << secret;
  EXPECT_NE(refusal(blob("<!DOCTYPE html><html><svg/>")).find("a web page"), std::string::npos);
  EXPECT_NE(refusal({0x89, 'P'}).find(no_image), std::string::npos);
}

TEST(Refuse, TheNameIsShownOnOneLine) {
  const Result<Image> image = decode_image({}, "two\nlines\x1b[0m");
  ASSERT_FALSE(image);
  EXPECT_TRUE(image.error().message.starts_with("cannot read two\\x0alines\\x1b[0m: "))
      << image.error().message;
}

TEST(Refuse, WhatIsNotAFileToRead) {
  fixtures::TemporaryFolder folder;
  fixtures::store(folder.path("empty.png"), {});
  const auto message = [&](const std::string& path) {
    const Result<Image> image = read_image(path);
    EXPECT_FALSE(image);
    EXPECT_EQ(image.error().kind, Error::Kind::kBadInput);
    EXPECT_NE(image.error().message.find(path), std::string::npos);
    return image.error().message;
  };
  EXPECT_NE(message(folder.path("missing.jpg")).find("No such file"), std::string::npos);
  EXPECT_NE(message(folder.path("")).find("it is a folder"), std::string::npos);
  EXPECT_NE(message(folder.path("empty.png")).find("it is empty"), std::string::npos);
  EXPECT_NE(message(folder.path("empty.png/x")).find("Not a directory"), std::string::npos);
  EXPECT_NE(message("").find("No such file"), std::string::npos);
  EXPECT_NE(message("/dev/zero").find("it is a device"), std::string::npos);
  if (::geteuid() == 0) return;  // nothing is unreadable to root
  ASSERT_EQ(::chmod(folder.path("empty.png").c_str(), 0), 0);
  EXPECT_NE(message(folder.path("empty.png")).find("Permission denied"), std::string::npos);
}

Blob webp_header(std::string_view chunk, const Blob& header) {
  Blob bytes = blob("RIFF\0\1\0\0WEBP"sv);
  fixtures::append(bytes, blob(chunk));
  fixtures::append(bytes, {0, 1, 0, 0});
  fixtures::append(bytes, header);
  bytes.resize(264);
  return bytes;
}

TEST(Refuse, ZeroSizes) {
  for (const auto& [width, height] : {std::pair<uint16_t, uint16_t>{0, 5}, {5, 0}, {0, 0}}) {
    const std::string size = std::to_string(width) + "x" + std::to_string(height) + " px";
    EXPECT_NE(refusal(fixtures::png_file(width, height, 8, 2, {0})).find(size), std::string::npos);
    EXPECT_NE(refusal(fixtures::jpeg_with_size("gray.jpg", width, height)).find(size),
              std::string::npos);
    const Blob lossy = {
        0, 0, 0, 0x9d, 1, 0x2a, static_cast<uint8_t>(width), 0, static_cast<uint8_t>(height), 0};
    EXPECT_NE(refusal(webp_header("VP8 ", lossy)).find(size), std::string::npos);
  }
}

TEST(Refuse, SizesOverThePixelLimitAreToldWithTheLimit) {
  const auto expect_over = [](const Blob& bytes, const char* size, const char* pixels) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(size), std::string::npos) << message;
    EXPECT_NE(message.find(pixels), std::string::npos) << message;
    EXPECT_NE(message.find("178956970"), std::string::npos) << message;
    EXPECT_NE(message.find("raise max_pixels"), std::string::npos) << message;
  };
  expect_over(fixtures::png_file(65535, 65535, 8, 2, {0}), "65535x65535 px", "4294836225 pixels");
  expect_over(fixtures::jpeg_with_size("gray.jpg", 65535, 65535), "65535x65535 px", "4294836225");
  expect_over(webp_header("VP8X", {0, 0, 0, 0, 0xfe, 0xff, 0, 0xfe, 0xff, 0}), "65535x65535 px",
              "4294836225 pixels");
  expect_over(webp_header("VP8L", {0x2f, 0xff, 0xff, 0xff, 0xff}), "16384x16384 px", "268435456");
  expect_over(fixtures::png_file(0xffffffff, 0xffffffff, 8, 2, {0}), "4294967295x4294967295 px",
              "18446744065119617025 pixels");
}

TEST(Refuse, TheLimitItselfIsAllowed) {
  const Blob bytes = fixtures::load(fixtures::folder() + "rgb-8.png");
  EXPECT_TRUE(decode_image(bytes, "21x13", {.max_pixels = 273}));
  for (const int64_t limit : {int64_t{272}, int64_t{0}, int64_t{-1}})
    EXPECT_NE(refusal(bytes, {.max_pixels = limit}).find(" 273 pixels"), std::string::npos);
  EXPECT_TRUE(decode_image(bytes, "21x13", {.max_pixels = INT64_MAX}));
}

TEST(Refuse, SidesOverARatioOf200) {
  const Blob raw(size_t{20000} * 4, 0);
  EXPECT_NE(refusal(fixtures::png_file(1, 20000, 8, 2, raw)).find("1x20000 px, a side ratio over"),
            std::string::npos);
  EXPECT_NE(refusal(fixtures::jpeg_with_size("gray.jpg", 201, 1)).find("201x1 px"),
            std::string::npos);
  EXPECT_TRUE(decode_image(fixtures::png_file(1, 200, 8, 2, Blob(800, 0)), "1x200"));
}

TEST(Refuse, PaletteIndexOutOfRange) {
  const Blob three = fixtures::png_chunk("PLTE", {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_TRUE(decode_image(fixtures::png_file(4, 1, 2, 3, {0, 0b00011010}, three), "in range"));
  EXPECT_NE(refusal(fixtures::png_file(4, 1, 2, 3, {0, 0b00011011}, three))
                .find("colour 3 of a palette that holds 3"),
            std::string::npos);
  EXPECT_NE(refusal(fixtures::png_file(2, 1, 8, 3, {0, 0, 200}, three)).find("colour 200"),
            std::string::npos);
  EXPECT_NE(refusal(fixtures::png_file(1, 1, 8, 3, {0, 0})).find("damaged PNG"), std::string::npos);
}

TEST(Refuse, JpegKindsThatAreNotRead) {
  Blob twelve_bits = fixtures::load(fixtures::folder() + "gray.jpg");
  for (size_t at = 2; at < twelve_bits.size(); ++at)
    if (twelve_bits[at] == 0xff && twelve_bits[at + 1] == 0xc0) twelve_bits[at + 4] = 12;
  EXPECT_NE(refusal(twelve_bits).find("12 bits"), std::string::npos);
  Blob two_components = fixtures::load(fixtures::folder() + "gray.jpg");
  Blob lossless = two_components;
  for (size_t at = 2; at < lossless.size(); ++at) {
    if (lossless[at] != 0xff || lossless[at + 1] != 0xc0) continue;
    lossless[at + 1] = 0xc3;
    two_components[at + 9] = 2;
    break;
  }
  EXPECT_NE(refusal(two_components).find("2 components"), std::string::npos);
  EXPECT_NE(refusal(lossless).find("SOF type 0xc3; convert it"), std::string::npos);
}

TEST(Refuse, StoresNothingThatHindersTheNextPicture) {
  const Blob good = fixtures::load(fixtures::folder() + "progressive.jpg");
  Blob bad(good.begin(), good.begin() + static_cast<long>(good.size()) * 3 / 4);
  fixtures::append(bad, {0xff, 0xd9});  // the pixels end early
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(refusal(bad).find("damaged JPEG"), std::string::npos);
    EXPECT_TRUE(decode_image(good, "good"));
  }
}

}  // namespace
}  // namespace fovea
