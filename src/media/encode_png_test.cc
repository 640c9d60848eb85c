// SPDX-License-Identifier: Apache-2.0
#include "media/encode_png.h"

#include <gtest/gtest.h>
#include <png.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "media/decode.h"
#include "media/test_fixtures.h"

namespace fovea {
namespace {

using fixtures::Blob;

Image noise(Size size, unsigned seed) {
  std::mt19937 random(seed);
  Image image(size);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  return image;
}

Map noise_map(Grid grid, unsigned seed) {
  std::mt19937 random(seed);
  Map map(grid);
  for (uint16_t& score : map.score) score = static_cast<uint16_t>(random());
  return map;
}

// All 16 bits, by libpng's own reader, which aborts on an error.
Map read_gray16(const Blob& bytes) {
  struct Cursor {
    const uint8_t* at;
  } cursor{bytes.data()};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_read_fn(png, &cursor, [](png_structp reader, png_bytep target, size_t count) {
    auto* from = static_cast<Cursor*>(png_get_io_ptr(reader));
    std::copy_n(from->at, count, target);
    from->at += count;
  });
  png_read_png(png, info, PNG_TRANSFORM_SWAP_ENDIAN, nullptr);
  EXPECT_EQ(png_get_bit_depth(png, info), 16);
  EXPECT_EQ(png_get_color_type(png, info), PNG_COLOR_TYPE_GRAY);
  Map map({static_cast<int>(png_get_image_height(png, info)),
           static_cast<int>(png_get_image_width(png, info))});
  const png_bytepp rows = png_get_rows(png, info);
  for (int row = 0; row < map.grid.rows; ++row)
    std::memcpy(&map.at(row, 0), rows[row], sizeof(uint16_t) * static_cast<size_t>(map.grid.cols));
  png_destroy_read_struct(&png, &info, nullptr);
  return map;
}

TEST(EncodePng, AnImageComesBackAsItWas) {
  for (const Size size : {Size{1, 1}, {3, 1}, {1, 5}, {64, 64}, {333, 127}}) {
    const Image image = noise(size, 3);
    const Result<Image> back = decode_image(encode_png(image), "encoded");
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->size, size);
    EXPECT_EQ(back->rgb, image.rgb);
  }
}

TEST(EncodePng, AMapComesBackWithAll16Bits) {
  for (const Grid grid : {Grid{1, 1}, {1, 9}, {7, 2}, {32, 33}}) {
    const Map map = noise_map(grid, 5);
    const Map back = read_gray16(encode_png(map));
    EXPECT_EQ(back.grid, grid);
    EXPECT_EQ(back.score, map.score);
  }
}

TEST(EncodePng, TheSameImageGivesTheSameBytes) {
  EXPECT_EQ(encode_png(noise({50, 40}, 1)), encode_png(noise({50, 40}, 1)));
}

TEST(WritePng, AFileHoldsWhatMemoryHolds) {
  fixtures::TemporaryFolder folder;
  const Image image = noise({40, 30}, 9);
  const Map map = noise_map({4, 6}, 9);
  ASSERT_TRUE(write_png(folder.path("image.png"), image));
  ASSERT_TRUE(write_png(folder.path("map.png"), map));
  EXPECT_EQ(fixtures::load(folder.path("image.png")), encode_png(image));
  EXPECT_EQ(fixtures::load(folder.path("map.png")), encode_png(map));
  EXPECT_EQ(folder.files(), 2U) << "something was left beside them";
}

TEST(WritePng, AnOlderFileIsReplacedAndALinkIsFollowed) {
  fixtures::TemporaryFolder folder;
  fixtures::store(folder.path("old.png"), Blob(100000, 1));
  std::filesystem::create_symlink("old.png", folder.path("link.png"));
  const Image image = noise({8, 8}, 2);
  ASSERT_TRUE(write_png(folder.path("link.png"), image));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link.png")));
  EXPECT_EQ(fixtures::load(folder.path("old.png")), encode_png(image));
}

TEST(WritePng, AFailureSaysWhyAndLeavesNothing) {
  fixtures::TemporaryFolder folder;
  const Image image = noise({300, 300}, 4);
  const auto message = [&](const std::string& path, Error::Kind kind) {
    const Status status = write_png(path, image);
    EXPECT_FALSE(status) << path;
    EXPECT_EQ(status.error().kind, kind) << path;
    EXPECT_NE(status.error().message.find("cannot write " + path), std::string::npos);
    return status.error().message;
  };
  const auto bad = Error::Kind::kBadInput;
  EXPECT_NE(message(folder.path("no/such/x.png"), bad).find("make its folder first"),
            std::string::npos);
  EXPECT_NE(message(folder.path(""), bad).find("Is a directory"), std::string::npos);
  EXPECT_NE(message("", bad).find("No such file"), std::string::npos);
  EXPECT_NE(message("/dev/full", Error::Kind::kFailed).find("No space left"), std::string::npos);
  EXPECT_EQ(folder.files(), 0U);
}

}  // namespace
}  // namespace fovea
