// SPDX-License-Identifier: Apache-2.0
// What the media tests share: the pictures of tests/fixtures/images and small builders of files.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/words.h"
#include "places.h"

namespace fovea::fixtures {

using Blob = std::vector<uint8_t>;

inline Blob blob(std::string_view text) { return {text.begin(), text.end()}; }

inline std::string folder() { return source_dir() + "/tests/fixtures/images/"; }

inline Blob load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void store(const std::string& path, const Blob& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file) << path;
}

// The names of all pictures, or of those that end in `extension`.
std::vector<std::string> names(std::string_view extension = "");

// The pixels a picture must decode to.
inline Image expected(const std::string& name) {
  const Blob bytes = load(folder() + name + ".ppm");
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::string magic;
  Size size;
  int largest = 0;
  text >> magic >> size.width_px >> size.height_px >> largest;
  text.get();
  Image image(size);
  text.read(reinterpret_cast<char*>(image.rgb.data()),
            static_cast<std::streamsize>(image.rgb.size()));
  EXPECT_TRUE(text && magic == "P6" && largest == 255) << name;
  return image;
}

inline void append(Blob& out, const Blob& more) { out.insert(out.end(), more.begin(), more.end()); }

inline Blob big_endian(uint32_t value) {
  return {static_cast<uint8_t>(value >> 24), static_cast<uint8_t>(value >> 16),
          static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
}

inline Blob png_chunk(std::string_view type, const Blob& data) {
  Blob out = big_endian(static_cast<uint32_t>(data.size()));
  Blob body = blob(type);
  append(body, data);
  append(out, body);
  append(out,
         big_endian(static_cast<uint32_t>(crc32(0, body.data(), static_cast<uInt>(body.size())))));
  return out;
}

inline Blob zlib_packed(const Blob& data) {
  uLongf size = compressBound(data.size());
  Blob out(size);
  EXPECT_EQ(compress(out.data(), &size, data.data(), data.size()), Z_OK);
  out.resize(size);
  return out;
}

// A PNG of `raw` rows (each with its filter byte), with chunks of the caller's before the pixels.
inline Blob png_file(uint32_t width, uint32_t height, uint8_t depth, uint8_t color_type,
                     const Blob& raw, const Blob& before = {}) {
  Blob header = big_endian(width);
  append(header, big_endian(height));
  append(header, {depth, color_type, 0, 0, 0});
  Blob out = blob("\x89PNG\r\n\x1a\n");
  append(out, png_chunk("IHDR", header));
  append(out, before);
  append(out, png_chunk("IDAT", zlib_packed(raw)));
  append(out, png_chunk("IEND", {}));
  return out;
}

// A JPEG of this fixture whose frame header says another size.
inline Blob jpeg_with_size(const std::string& name, uint16_t width, uint16_t height) {
  Blob bytes = load(folder() + name);
  for (size_t at = 2; at + 9 < bytes.size();
       at += 2 + (size_t{bytes[at + 2]} << 8 | bytes[at + 3])) {
    if (bytes[at + 1] < 0xc0 || bytes[at + 1] > 0xc2) continue;
    bytes[at + 5] = static_cast<uint8_t>(height >> 8);
    bytes[at + 6] = static_cast<uint8_t>(height);
    bytes[at + 7] = static_cast<uint8_t>(width >> 8);
    bytes[at + 8] = static_cast<uint8_t>(width);
    return bytes;
  }
  ADD_FAILURE() << "no frame in " << name;
  return bytes;
}

// A folder of this test's own that goes away with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fovea-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                             std::filesystem::directory_iterator()));
  }

 private:
  std::string path_;
};

}  // namespace fovea::fixtures
