// SPDX-License-Identifier: Apache-2.0
// Errors that the header shows cost little: 100 ms and 64 MiB.
#include <gtest/gtest.h>

#include <fstream>

#include "base/thread_time.h"
#include "media/decode.h"
#include "media/test_fixtures.h"

namespace fovea {
namespace {

using fixtures::Blob;

int64_t memory_kib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != key + ":") continue;
    int64_t kib = 0;
    status >> kib;
    return kib;
  }
  return -1;
}

struct Cost {
  double ms = 0;
  int64_t growth_kib = 0;  // of the peak over what was held before
};

template <class Body>
Cost cost_of(const Body& body) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew from what is held
  const int64_t before_kib = memory_kib("VmRSS");
  const double start = thread_seconds();
  body();
  return {(thread_seconds() - start) * 1000, memory_kib("VmHWM") - before_kib};
}

constexpr int64_t kLimitKib = int64_t{64} * 1024;
constexpr double kLimitMs = 100;

TEST(Limits, TheMeasureSeesMemoryThatIsTaken) {
  const Cost cost = cost_of([] {
    std::vector<uint8_t> large(size_t{96} << 20, 1);
    EXPECT_EQ(large[large.size() / 2], 1);
  });
  EXPECT_GT(cost.growth_kib, 90 * 1024);
}

// Files on disk, with 150 MB behind the header that must not be read into memory.
TEST(Limits, HeaderErrorsAreCheap) {
  fixtures::TemporaryFolder folder;
  const Blob webp = {'R', 'I', 'F', 'F', 0, 0, 0, 8, 'W', 'E',  'B',  'P', 'V',  'P',  '8',
                     'X', 10,  0,   0,   0, 0, 0, 0, 0,   0xfe, 0xff, 0,   0xfe, 0xff, 0};
  const std::pair<const char*, Blob> cases[] = {
      {"large.png", fixtures::png_file(65535, 65535, 8, 6, {0})},
      {"large.jpg", fixtures::jpeg_with_size("cmyk-progressive.jpg", 65535, 65535)},
      {"large.webp", webp},
      {"zero.png", fixtures::png_file(0, 9, 8, 6, {0})},
      {"narrow.jpg", fixtures::jpeg_with_size("ycbcr-420.jpg", 60000, 2)},
      {"named.gif", fixtures::blob("GIF89a")},
      {"unknown", fixtures::blob("unknown!")},
  };
  for (const auto& item : cases) {
    const std::string name = item.first;
    const Blob& bytes = item.second;
    fixtures::store(folder.path(name), bytes);
    std::filesystem::resize_file(folder.path(name), 150 << 20);
    bool refused = false;
    const Cost cost = cost_of([&] { refused = !read_image(folder.path(name)); });
    EXPECT_TRUE(refused) << name;
    EXPECT_LT(cost.ms, kLimitMs) << name;
    EXPECT_LT(cost.growth_kib, kLimitKib) << name;
    const Cost in_memory = cost_of([&] { refused = !decode_image(bytes, name); });
    EXPECT_TRUE(refused) << name;
    EXPECT_LT(in_memory.ms, kLimitMs) << name;
    EXPECT_LT(in_memory.growth_kib, kLimitKib) << name;
  }
}

// A cut file of 178 megapixels is told by its markers, before memory for the pixels is taken.
TEST(Limits, ACutFileOfManyPixelsIsCheap) {
  Blob jpeg = fixtures::jpeg_with_size("cmyk-progressive.jpg", 13000, 13000);
  jpeg.resize(jpeg.size() - 2);
  Blob png = fixtures::png_file(13000, 13000, 8, 6, {0});
  png.resize(png.size() - 1);
  for (const Blob& bytes : {jpeg, png}) {
    bool refused = false;
    const Cost cost = cost_of([&] { refused = !decode_image(bytes, "cut"); });
    EXPECT_TRUE(refused);
    EXPECT_LT(cost.ms, kLimitMs);
    EXPECT_LT(cost.growth_kib, kLimitKib);
  }
}

TEST(Limits, DecodingHoldsTheImageAndLittleMore) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer keeps several bytes of its own for each byte touched";
#endif
  constexpr uint32_t kSide = 2000;
  for (const uint8_t color_type : {uint8_t{2}, uint8_t{6}}) {  // RGB, RGBA; 16 bits, the largest
    const size_t row_bytes = 1 + kSide * (color_type == 6 ? 8 : 6);
    const Blob bytes = fixtures::png_file(kSide, kSide, 16, color_type, Blob(row_bytes * kSide, 0));
    bool decoded = false;
    const Cost cost = cost_of([&] { decoded = bool(decode_image(bytes, "large")); });
    EXPECT_TRUE(decoded);
    EXPECT_LT(cost.growth_kib, kSide * kSide * 3 / 1024 + 4096);
  }
}

// 256 MiB of zeros pack into about 1 MiB; neither text nor profile is unpacked.
TEST(Limits, HugePngTextAndProfileAreSkippedInLittleMemory) {
  z_stream stream{};
  ASSERT_EQ(deflateInit(&stream, 1), Z_OK);
  Blob packed;
  {
    const Blob zeros(1 << 20, 0);
    Blob out(1 << 16);
    for (int i = 0; i < 256; ++i) {
      stream.next_in = const_cast<Bytef*>(zeros.data());
      stream.avail_in = static_cast<uInt>(zeros.size());
      do {
        stream.next_out = out.data();
        stream.avail_out = static_cast<uInt>(out.size());
        ASSERT_NE(deflate(&stream, i == 255 ? Z_FINISH : Z_NO_FLUSH), Z_STREAM_ERROR);
        packed.insert(packed.end(), out.begin(), out.end() - stream.avail_out);
      } while (stream.avail_out == 0);
    }
  }
  deflateEnd(&stream);
  const auto with_packed = [&](std::string_view head) {
    Blob data = fixtures::blob(head);
    fixtures::append(data, packed);
    return data;
  };
  using namespace std::string_view_literals;
  Blob before = fixtures::png_chunk("iCCP", with_packed("profile\0\0"sv));
  fixtures::append(before, fixtures::png_chunk("zTXt", with_packed("Comment\0\0"sv)));
  fixtures::append(before, fixtures::png_chunk("zTXt", with_packed("Raw profile type exif\0\0"sv)));
  fixtures::append(before,
                   fixtures::png_chunk("iTXt", with_packed("XML:com.adobe.xmp\0\1\0\0\0"sv)));
  fixtures::append(before, fixtures::png_chunk("tEXt", Blob(20 << 20, 'x')));
  const Blob bytes = fixtures::png_file(2, 1, 8, 2, {0, 1, 2, 3, 4, 5, 6}, before);
  before.clear();
  bool right = false;
  const Cost cost = cost_of([&] {
    const Result<Image> image = decode_image(bytes, "huge text");
    right = image && image->rgb == Blob{1, 2, 3, 4, 5, 6};
  });
  EXPECT_TRUE(right);
  EXPECT_LT(cost.growth_kib, kLimitKib);
}

// 128 MiB of zeros behind the pixels pack into about 128 KiB.
TEST(Limits, PixelsThatGoOnBehindTheLastRowAreNotUnpacked) {
  const Blob bomb = fixtures::zlib_packed([] {
    Blob raw(size_t{128} << 20, 0);
    raw[1] = 9;
    return raw;
  }());
  for (const uint8_t interlaced : {uint8_t{0}, uint8_t{1}}) {
    Blob header = fixtures::big_endian(1);
    fixtures::append(header, fixtures::big_endian(1));
    fixtures::append(header, {8, 2, 0, 0, interlaced});
    Blob bytes = fixtures::blob("\x89PNG\r\n\x1a\n");
    fixtures::append(bytes, fixtures::png_chunk("IHDR", header));
    fixtures::append(bytes, fixtures::png_chunk("IDAT", bomb));
    fixtures::append(bytes, fixtures::png_chunk("IEND", {}));
    std::string said;
    const Cost cost = cost_of([&] {
      const Result<Image> image = decode_image(bytes, "bomb");
      said = image ? "decoded" : image.error().message;
    });
    EXPECT_NE(said.find("its last row has 3 bytes"), std::string::npos) << said;
    EXPECT_LT(cost.ms, kLimitMs);
    EXPECT_LT(cost.growth_kib, kLimitKib);
  }
  // A little too much, as some programs write, is passed over.
  Blob raw(50'000, 7);
  raw[0] = 0;
  const Result<Image> image = decode_image(fixtures::png_file(1, 1, 8, 2, raw), "more");
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->rgb, (Blob{7, 7, 7}));
}

// The fixture with its first scan `more` times more; each of them says the same again.
Blob jpeg_with_scans(Blob bytes, int more) {
  size_t begin = 2;
  while (!(bytes[begin] == 0xff && bytes[begin + 1] == 0xda)) ++begin;
  size_t end = begin + 2;
  while (!(bytes[end] == 0xff && bytes[end + 1] != 0 &&
           !(bytes[end + 1] >= 0xd0 && bytes[end + 1] <= 0xd7)))
    ++end;
  const Blob scan(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                  bytes.begin() + static_cast<std::ptrdiff_t>(end));
  Blob scans;
  for (int i = 0; i < more; ++i) fixtures::append(scans, scan);
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(end), scans.begin(), scans.end());
  return bytes;
}

TEST(Limits, ManyScansAreForSmallPictures) {
  const std::string name = "cmyk-progressive.jpg";
  const Blob small = jpeg_with_scans(fixtures::load(fixtures::folder() + name), 100);
  const Result<Image> image = decode_image(small, name);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->rgb, decode_image(fixtures::load(fixtures::folder() + name), name)->rgb);

  const Blob large = jpeg_with_scans(fixtures::jpeg_with_size(name, 4000, 3000), 100);
  std::string said;
  const Cost cost = cost_of([&] {
    const Result<Image> refused = decode_image(large, name);
    said = refused ? "decoded" : refused.error().message;
  });
  EXPECT_NE(said.find("scans of 4000x3000 px"), std::string::npos) << said;
  EXPECT_NE(said.find("268435456"), std::string::npos) << said;
  EXPECT_LT(cost.ms, kLimitMs);
  EXPECT_LT(cost.growth_kib, kLimitKib);
}

}  // namespace
}  // namespace fovea
