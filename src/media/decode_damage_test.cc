// SPDX-License-Identifier: Apache-2.0
// Damage further in than the header: every cut, every checksum, random bytes.
#include <gtest/gtest.h>

#include <random>

#include "media/decode.h"
#include "media/test_fixtures.h"

namespace fovea {
namespace {

using fixtures::Blob;

// Bytes after the end of an image are not of it; these fixtures have some.
bool has_trailing_bytes(const std::string& name) { return name.starts_with("trailing"); }

TEST(Damage, EveryCutOfEveryPictureIsRefused) {
  for (const std::string& name : fixtures::names()) {
    const Blob bytes = fixtures::load(fixtures::folder() + name);
    const size_t whole = bytes.size() - (has_trailing_bytes(name) ? 14 : 0);
    ASSERT_TRUE(decode_image(std::span(bytes).first(whole), name)) << name;
    for (size_t cut = 0; cut < whole; ++cut) {
      // A copy of just these bytes, so that the sanitizers see a read beyond them.
      const Blob part(bytes.begin(), bytes.begin() + static_cast<long>(cut));
      const Result<Image> image = decode_image(part, name);
      ASSERT_FALSE(image) << name << " cut after " << cut << " of " << whole << " bytes";
      ASSERT_EQ(image.error().kind, Error::Kind::kBadInput) << image.error().message;
    }
  }
}

TEST(Damage, ACutJpegWithAnEndMarkerIsRefused) {
  for (const char* name :
       {"gray.jpg", "ycbcr-420.jpg", "ycbcr-444.jpg", "cmyk.jpg", "restart.jpg"}) {
    const Blob bytes = fixtures::load(fixtures::folder() + name);
    size_t scan = 0;
    while (bytes[scan] != 0xff || bytes[scan + 1] != 0xda) ++scan;
    Blob cut(bytes.begin(), bytes.begin() + static_cast<long>((scan + bytes.size()) / 2));
    fixtures::append(cut, {0xff, 0xd9});
    const Result<Image> image = decode_image(cut, name);
    ASSERT_FALSE(image) << name;
    EXPECT_NE(image.error().message.find("damaged JPEG"), std::string::npos)
        << image.error().message;
  }
}

TEST(Damage, AByteOfAnyPngChunkOrChecksumChangedIsRefused) {
  for (const std::string& name : fixtures::names(".png")) {
    const Blob bytes = fixtures::load(fixtures::folder() + name);
    size_t at = 8;
    while (at + 12 <= bytes.size()) {
      const size_t length = size_t{bytes[at + 2]} << 8 | bytes[at + 3];
      const std::string type(bytes.begin() + static_cast<long>(at) + 4,
                             bytes.begin() + static_cast<long>(at) + 8);
      for (const size_t changed : {at + 8 + length / 2, at + 8 + length, at + 11 + length}) {
        Blob bad = bytes;
        bad[changed] ^= 0x10;
        EXPECT_FALSE(decode_image(bad, name)) << name << " " << type << " byte " << changed - at;
      }
      at += 12 + length;
      if (type == "IEND") break;
    }
  }
}

TEST(Damage, PngPixelsThatEndEarlyAreRefused) {
  const Blob raw(size_t{12} * 37, 1);  // 12 of 13 rows
  EXPECT_FALSE(decode_image(fixtures::png_file(12, 13, 8, 2, raw), "short"));
  EXPECT_TRUE(decode_image(fixtures::png_file(12, 12, 8, 2, raw), "complete"));
}

// Whatever the bytes are, there is an image of the stated size or one line of error.
TEST(Damage, RandomChangesGiveAnImageOrAnError) {
  std::mt19937 random(20240611);
  int decoded = 0;
  int refused = 0;
  for (const std::string& name : fixtures::names()) {
    const Blob bytes = fixtures::load(fixtures::folder() + name);
    for (int round = 0; round < 40; ++round) {
      Blob changed = bytes;
      const unsigned changes = 1 + random() % 8;
      for (unsigned i = 0; i < changes; ++i)
        changed[random() % changed.size()] = static_cast<uint8_t>(random());
      const Result<Image> image = decode_image(changed, name, {.max_pixels = 1 << 20});
      if (image) {
        ++decoded;
        EXPECT_EQ(image->rgb.size(), static_cast<size_t>(image->size.pixels()) * 3);
      } else {
        ++refused;
        EXPECT_EQ(image.error().message.find('\n'), std::string::npos) << image.error().message;
      }
    }
  }
  EXPECT_GT(decoded, 0);
  EXPECT_GT(refused, decoded);
}

}  // namespace
}  // namespace fovea
