// SPDX-License-Identifier: Apache-2.0
#include "media/exif.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "media/test_fixtures.h"

namespace fovea {
namespace {

using fixtures::Blob;
using namespace std::string_view_literals;

// A TIFF block with one entry in its directory.
Blob block(bool big_endian, uint16_t tag, uint16_t type, uint32_t count, const Blob& value) {
  Blob bytes = fixtures::blob(big_endian ? "MM\0*\0\0\0\x08\0\1"sv : "II*\0\x08\0\0\0\1\0"sv);
  const auto put = [&](uint32_t number, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
      bytes.push_back(static_cast<uint8_t>(number >> 8 * (big_endian ? size - 1 - i : i)));
  };
  put(tag, 2);
  put(type, 2);
  put(count, 4);
  fixtures::append(bytes, value);
  put(0, 4);
  return bytes;
}

TEST(Exif, OrientationInBothByteOrdersAndAllIntegerTypes) {
  for (uint8_t value = 0; value <= 9; ++value) {
    for (const uint16_t type : {3, 8}) {
      EXPECT_EQ(exif_orientation(block(true, 0x112, type, 1, {0, value, 0, 0})), value);
      EXPECT_EQ(exif_orientation(block(false, 0x112, type, 1, {value, 0, 0, 0})), value);
    }
    for (const uint16_t type : {4, 9}) {
      EXPECT_EQ(exif_orientation(block(true, 0x112, type, 1, {0, 0, 0, value})), value);
      EXPECT_EQ(exif_orientation(block(false, 0x112, type, 1, {value, 0, 0, 0})), value);
    }
  }
}

TEST(Exif, ThePrefixMayStandOnceOrTwice) {
  const Blob plain = block(false, 0x112, 3, 1, {6, 0, 0, 0});
  Blob once = fixtures::blob("Exif\0\0"sv);
  Blob twice = once;
  fixtures::append(once, plain);
  fixtures::append(twice, once);
  EXPECT_EQ(exif_orientation(once), 6);
  EXPECT_EQ(exif_orientation(twice), 6);
}

TEST(Exif, AnArrayIsReadWhereItsOffsetSays) {
  Blob bytes = block(false, 0x112, 3, 3, {26, 0, 0, 0});  // three shorts, beyond the directory
  EXPECT_EQ(exif_orientation(bytes), std::nullopt);
  fixtures::append(bytes, {7, 0, 1, 0, 2, 0});
  EXPECT_EQ(exif_orientation(bytes), 7);
}

TEST(Exif, WhatIsNotAnOrientationGivesNone) {
  EXPECT_EQ(exif_orientation({}), std::nullopt);
  EXPECT_EQ(exif_orientation(fixtures::blob("II*\0"sv)), std::nullopt);
  EXPECT_EQ(exif_orientation(block(false, 0x111, 3, 1, {6, 0, 0, 0})), std::nullopt);
  EXPECT_EQ(exif_orientation(block(false, 0x112, 2, 1, {6, 0, 0, 0})), std::nullopt);
  EXPECT_EQ(exif_orientation(block(false, 0x112, 3, 0, {6, 0, 0, 0})), std::nullopt);
  EXPECT_EQ(exif_orientation(block(false, 0x112, 3, 0xffffffff, {6, 0, 0, 0})), std::nullopt);
  EXPECT_EQ(exif_orientation(block(false, 0x112, 4, 0x80000001, {6, 0, 0, 0})), std::nullopt);
  Blob far = block(false, 0x112, 3, 1, {6, 0, 0, 0});
  for (size_t i = 4; i < 8; ++i) far[i] = 0xff;  // the directory lies beyond 4 GiB
  EXPECT_EQ(exif_orientation(far), std::nullopt);
  Blob many = block(false, 0x111, 3, 1, {6, 0, 0, 0});
  many[8] = many[9] = 0xff;  // 65535 entries, one there
  EXPECT_EQ(exif_orientation(many), std::nullopt);
}

TEST(Exif, XmpCountsOnlyWhereExifHasNone) {
  const Blob attribute = fixtures::blob("<rdf tiff:Orientation=\"6\"/>");
  const Blob element = fixtures::blob("tiff:Orientation tiff:Orientation>8</tiff:Orientation>");
  EXPECT_EQ(xmp_orientation(attribute), 6);
  EXPECT_EQ(xmp_orientation(element), 8);
  EXPECT_EQ(xmp_orientation(fixtures::blob("tiff:Orientation=\"")), std::nullopt);
  EXPECT_EQ(xmp_orientation(fixtures::blob("tiff:Orientation=\"x\"")), std::nullopt);
  EXPECT_EQ(xmp_orientation({}), std::nullopt);
  EXPECT_EQ(orientation_of({}, attribute), 6);
  EXPECT_EQ(orientation_of(block(false, 0x112, 3, 1, {3, 0, 0, 0}), attribute), 3);
  EXPECT_EQ(orientation_of(block(false, 0x112, 3, 1, {9, 0, 0, 0}), attribute), 1);
  EXPECT_EQ(orientation_of({}, fixtures::blob("tiff:Orientation=\"0\"")), 1);
}

TEST(Exif, RandomBlocksAreReadWithinTheirBounds) {
  std::mt19937 random(42);
  for (int round = 0; round < 20000; ++round) {
    Blob bytes = block(random() % 2 == 0, 0x112, static_cast<uint16_t>(random() % 14),
                       random() % 4 == 0 ? random() : random() % 6, {6, 0, 0, 0});
    for (unsigned i = random() % 4; i > 0; --i)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    bytes.resize(random() % (bytes.size() + 1));
    bytes.shrink_to_fit();
    const int orientation = orientation_of(bytes, {});
    EXPECT_TRUE(orientation >= 1 && orientation <= 8);
  }
}

}  // namespace
}  // namespace fovea
