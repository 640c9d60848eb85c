// SPDX-License-Identifier: Apache-2.0
#include "media/decode.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "media/test_fixtures.h"

namespace fovea {
namespace {

using fixtures::Blob;

// Where two pictures differ by more than `tolerance`; empty where they do not.
std::string difference(const Image& image, const Image& expected, int tolerance) {
  if (image.size != expected.size)
    return std::to_string(image.size.width_px) + "x" + std::to_string(image.size.height_px);
  for (size_t i = 0; i < image.rgb.size(); ++i)
    if (std::abs(image.rgb[i] - expected.rgb[i]) > tolerance)
      return "value " + std::to_string(i) + " is " + std::to_string(image.rgb[i]) + ", not " +
             std::to_string(expected.rgb[i]);
  return "";
}

TEST(Decode, EveryPictureEqualsPillowUnderAnyName) {
  for (const std::string& name : fixtures::names()) {
    const Result<Image> image = read_image(fixtures::folder() + name);
    ASSERT_TRUE(image) << image.error().message;
    // Decoders of other versions may round a chroma sample or an alpha product the other way.
    EXPECT_EQ(difference(*image, fixtures::expected(name), 1), "") << name;
    const Blob bytes = fixtures::load(fixtures::folder() + name);
    const Result<Image> misnamed = decode_image(bytes, "picture.gif");
    ASSERT_TRUE(misnamed) << misnamed.error().message;
    EXPECT_EQ(difference(*misnamed, *image, 0), "") << name;
  }
}

TEST(Decode, OpaquePngIsExact) {
  for (const char* name : {"rgb-8.png", "rgb-16.png", "gray-1.png", "gray-16.png", "palette-4.png",
                           "rgb-8-interlaced.png", "gray-2-interlaced.png"}) {
    const Result<Image> image = read_image(fixtures::folder() + name);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(difference(*image, fixtures::expected(name), 0), "") << name;
  }
}

TEST(Decode, InterlacedSizesFromOneToNineEqualPlainOnes) {
  for (uint32_t width = 1; width <= 9; ++width) {
    for (uint32_t height = 1; height <= 9; ++height) {
      // Row y of pass p begins with filter 0; every pixel is (10x, 10y, x + 10y).
      constexpr uint32_t kPasses[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                          {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
      Blob raw;
      for (const auto& [x0, y0, dx, dy] : kPasses) {
        for (uint32_t y = y0; y < height && x0 < width; y += dy) {
          raw.push_back(0);
          for (uint32_t x = x0; x < width; x += dx)
            fixtures::append(raw, {static_cast<uint8_t>(10 * x), static_cast<uint8_t>(10 * y),
                                   static_cast<uint8_t>(x + 10 * y)});
        }
      }
      Blob bytes = fixtures::png_file(width, height, 8, 2, raw);
      bytes[28] = 1;  // Adam7
      const Blob header(bytes.begin() + 16, bytes.begin() + 29);
      const Blob chunk = fixtures::png_chunk("IHDR", header);
      std::copy(chunk.begin(), chunk.end(), bytes.begin() + 8);
      const Result<Image> image = decode_image(bytes, "interlaced");
      ASSERT_TRUE(image) << image.error().message;
      for (uint32_t y = 0; y < height; ++y)
        for (uint32_t x = 0; x < width; ++x)
          ASSERT_EQ(image->row(static_cast<int>(y))[3 * x + 2], x + 10 * y)
              << width << "x" << height << " at " << x << "," << y;
    }
  }
}

TEST(Decode, HugeIccAndTextOfJpegAreSkipped) {
  Blob bytes = fixtures::load(fixtures::folder() + "ycbcr-420.jpg");
  Blob segment = {0xff, 0xe2, 0xff, 0xff};
  fixtures::append(segment, fixtures::blob(std::string_view("ICC_PROFILE\0\1\377", 14)));
  segment.resize(2 + 0xffff, 0x5a);
  Blob comment = segment;
  comment[1] = 0xfe;
  Blob large(bytes.begin(), bytes.begin() + 2);
  for (int i = 0; i < 100; ++i) fixtures::append(large, i % 2 == 0 ? segment : comment);
  large.insert(large.end(), bytes.begin() + 2, bytes.end());
  fixtures::TemporaryFolder folder;
  fixtures::store(folder.path("large.jpg"), large);
  const Result<Image> image = read_image(folder.path("large.jpg"));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(difference(*image, fixtures::expected("ycbcr-420.jpg"), 1), "");
}

TEST(Decode, TwoFormatsAtOnceAreTakenAsTheFirstBytesSay) {
  const Blob png = fixtures::load(fixtures::folder() + "rgb-8.png");
  const Blob jpeg = fixtures::load(fixtures::folder() + "gray.jpg");
  const Blob webp = fixtures::load(fixtures::folder() + "lossless-alpha.webp");
  const auto first_of = [](Blob first, const Blob& second) {
    fixtures::append(first, second);
    return decode_image(first, "two");
  };
  EXPECT_EQ(difference(*first_of(png, jpeg), fixtures::expected("rgb-8.png"), 1), "");
  EXPECT_EQ(difference(*first_of(jpeg, webp), fixtures::expected("gray.jpg"), 1), "");
  EXPECT_EQ(difference(*first_of(webp, png), fixtures::expected("lossless-alpha.webp"), 1), "");
}

TEST(Decode, A256ScanJpegDecodesAndA257ScanOneDoesNot) {
  const Blob bytes = fixtures::load(fixtures::folder() + "progressive.jpg");
  // The first scan holds the DC values; writing them again changes nothing.
  const auto at_marker = [&](uint8_t marker, size_t from) {
    for (size_t at = from; at + 1 < bytes.size(); ++at)
      if (bytes[at] == 0xff && bytes[at + 1] == marker) return at;
    return bytes.size();
  };
  const size_t scan = at_marker(0xda, 0);
  const size_t scan_end = std::min(at_marker(0xc4, scan + 2), at_marker(0xda, scan + 2));
  int scans = 0;
  for (size_t at = scan; at < bytes.size(); at = at_marker(0xda, at + 2)) ++scans;
  ASSERT_GT(scans, 3);
  const auto with_scans = [&](int count) {
    Blob more(bytes.begin(), bytes.begin() + static_cast<long>(scan_end));
    for (int i = scans; i < count; ++i)
      more.insert(more.end(), bytes.begin() + static_cast<long>(scan),
                  bytes.begin() + static_cast<long>(scan_end));
    more.insert(more.end(), bytes.begin() + static_cast<long>(scan_end), bytes.end());
    return decode_image(more, "scans.jpg");
  };
  const Result<Image> most = with_scans(256);
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(difference(*most, fixtures::expected("progressive.jpg"), 1), "");
  const Result<Image> too_many = with_scans(257);
  ASSERT_FALSE(too_many);
  EXPECT_NE(too_many.error().message.find("257 scans"), std::string::npos);
}

TEST(ReadImage, AFifoThatComesInSmallPiecesIsReadToItsEnd) {
  const Blob bytes = fixtures::load(fixtures::folder() + "rgba-8.png");
  fixtures::TemporaryFolder folder;
  const std::string fifo = folder.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] {
    const int fd = ::open(fifo.c_str(), O_WRONLY);
    for (const uint8_t byte : bytes) EXPECT_EQ(::write(fd, &byte, 1), 1);
    ::close(fd);
  });
  const Result<Image> image = read_image(fifo);
  writer.join();
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(difference(*image, fixtures::expected("rgba-8.png"), 1), "");
}

TEST(ReadImage, ADashReadsStdin) {
  const int saved = ::dup(STDIN_FILENO);
  const int file = ::open((fixtures::folder() + "lossy.webp").c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  ::dup2(file, STDIN_FILENO);
  const Result<Image> image = read_image("-");
  const Result<Image> nothing_left = read_image("-");
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(file);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(difference(*image, fixtures::expected("lossy.webp"), 1), "");
  ASSERT_FALSE(nothing_left);
  EXPECT_NE(nothing_left.error().message.find("stdin: it is empty"), std::string::npos);
}

}  // namespace
}  // namespace fovea
