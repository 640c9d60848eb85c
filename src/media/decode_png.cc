// SPDX-License-Identifier: Apache-2.0
// PNG by libpng. Metadata is never unpacked by it; rows are converted as they come, those of
// interlaced pictures straight to their places, so that one row is all the extra memory.
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "media/composite.h"
#include "media/decoders.h"
#include "media/orient.h"
#include "media/png_rows.h"
#include "media/png_walk.h"

namespace fovea {
namespace {

struct PngReader : JumpState {
  png_structp png;
  png_infop info;
  const uint8_t* at;
  size_t left;
  const uint8_t* pixels_end;  // behind the last packed byte of the pixels
  size_t row_bytes;           // of the widest row
  int rows_left;
  PngPixels* pixels;
  Image* image;
  uint8_t* row;  // one row of samples as libpng gives them
  bool no_memory;
};

[[noreturn]] void on_error(png_structp png, const char* message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof(reader->message) - 1);
  std::longjmp(reader->jump, 1);
}

void on_warning(png_structp, const char*) {}

// libpng says alike that memory has run out and that a file is broken.
void* take_memory(png_structp png, png_alloc_size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<PngReader*>(png_get_mem_ptr(png))->no_memory = true;
  return memory;
}

void give_memory(png_structp, void* memory) { std::free(memory); }

void read_from_memory(png_structp png, png_bytep target, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->left) png_error(png, "the file ends too early");
  std::memcpy(target, reader->at, count);
  reader->at += count;
  reader->left -= count;
}

void read_header(PngReader& reader) {
  png_set_read_fn(reader.png, &reader, read_from_memory);
  // The size was checked against limits of our own.
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
  png_set_packing(reader.png);  // 1, 2 and 4 bits: one sample a byte
}

// The colour that tRNS makes transparent; only the bits that the samples have count.
std::optional<std::array<uint16_t, 3>> transparent_key(const PngReader& reader, bool gray) {
  png_color_16p colour = nullptr;
  if (png_get_tRNS(reader.png, reader.info, nullptr, nullptr, &colour) == 0 || colour == nullptr)
    return std::nullopt;
  const int mask = (1 << png_get_bit_depth(reader.png, reader.info)) - 1;
  const auto masked = [&](int value) { return static_cast<uint16_t>(value & mask); };
  if (gray) return std::array<uint16_t, 3>{masked(colour->gray), 0, 0};
  return std::array<uint16_t, 3>{masked(colour->red), masked(colour->green), masked(colour->blue)};
}

void fill_gray_table(const PngReader& reader, PngPixels& pixels) {
  const int white = (1 << png_get_bit_depth(reader.png, reader.info)) - 1;
  pixels.table_size = white + 1;
  for (int i = 0; i <= white; ++i)
    pixels.table[static_cast<size_t>(i)].fill(static_cast<uint8_t>(i * 255 / white));
  if (const auto key = transparent_key(reader, true)) pixels.table[(*key)[0]].fill(255);
}

void fill_palette(const PngReader& reader, PngPixels& pixels) {
  png_colorp colours = nullptr;
  int colour_count = 0;
  png_get_PLTE(reader.png, reader.info, &colours, &colour_count);
  png_bytep alphas = nullptr;
  int alpha_count = 0;
  png_get_tRNS(reader.png, reader.info, &alphas, &alpha_count, nullptr);
  pixels.table_size = std::min(colour_count, 256);
  for (int i = 0; i < pixels.table_size; ++i) {
    const uint8_t alpha = alphas != nullptr && i < alpha_count ? alphas[i] : 255;
    pixels.table[static_cast<size_t>(i)] = {over_white(colours[i].red, alpha),
                                            over_white(colours[i].green, alpha),
                                            over_white(colours[i].blue, alpha)};
  }
}

void choose_conversion(PngReader& reader) {
  PngPixels& pixels = *reader.pixels;
  const bool deep = png_get_bit_depth(reader.png, reader.info) == 16;
  switch (png_get_color_type(reader.png, reader.info)) {
    case PNG_COLOR_TYPE_GRAY:
      pixels.samples = deep ? PngSamples::kGray16 : PngSamples::kTable;
      if (deep) pixels.key = transparent_key(reader, true);
      if (!deep) fill_gray_table(reader, pixels);
      break;
    case PNG_COLOR_TYPE_PALETTE:
      fill_palette(reader, pixels);
      break;
    case PNG_COLOR_TYPE_RGB:
      pixels.samples = deep ? PngSamples::kRgb16 : PngSamples::kRgb8;
      pixels.key = transparent_key(reader, false);
      break;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      pixels.samples = deep ? PngSamples::kGrayAlpha16 : PngSamples::kGrayAlpha8;
      break;
    default:
      pixels.samples = deep ? PngSamples::kRgba16 : PngSamples::kRgba8;
      break;
  }
}

void convert_row(PngReader& reader, int count, uint8_t* rgb, int step) {
  const int bad_index = png_to_rgb(*reader.pixels, reader.row, count, rgb, step);
  if (bad_index < 0) return;
  std::snprintf(reader.message, sizeof(reader.message),
                "a pixel has colour %d of a palette that holds %d", bad_index,
                reader.pixels->table_size);
  std::longjmp(reader.jump, 1);
}

// With the last row libpng unpacks all that is left, to find the end of the packed data; a few
// kilobytes may hold gigabytes of zeros. A row takes hardly more bytes packed than plain, and a
// little is allowed for blocks without data.
constexpr size_t kMostPackedPerPlain = 2;
constexpr size_t kPackedRest = size_t{64} << 10;

void read_row(PngReader& reader, uint8_t* row) {
  if (--reader.rows_left == 0 && reader.at < reader.pixels_end) {
    const auto packed = static_cast<size_t>(reader.pixels_end - reader.at);
    if (packed > kMostPackedPerPlain * reader.row_bytes + kPackedRest) {
      std::snprintf(reader.message, sizeof(reader.message),
                    "its last row has %zu bytes, and %zu bytes of packed pixels are left for it",
                    reader.row_bytes, packed);
      std::longjmp(reader.jump, 1);
    }
  }
  png_read_row(reader.png, row, nullptr);
}

struct PassSize {
  int columns;
  int rows;
};
PassSize pass_size(Size size, int pass) {
  const auto width = static_cast<png_uint_32>(size.width_px);
  const auto height = static_cast<png_uint_32>(size.height_px);
  return {static_cast<int>(PNG_PASS_COLS(width, pass)),
          static_cast<int>(PNG_PASS_ROWS(height, pass))};
}

// Without png_set_interlace_handling, libpng gives the seven passes as seven small pictures.
void read_passes(PngReader& reader) {
  Image& image = *reader.image;
  reader.rows_left = 0;
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
    const auto [columns, rows] = pass_size(image.size, pass);
    reader.rows_left += columns > 0 ? rows : 0;
  }
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
    const auto [columns, rows] = pass_size(image.size, pass);
    if (columns == 0) continue;
    const size_t first = PNG_COL_FROM_PASS_COL(0U, pass);
    for (int row = 0; row < rows; ++row) {
      read_row(reader, reader.row);
      uint8_t* target = image.row(PNG_ROW_FROM_PASS_ROW(row, pass)) + 3 * first;
      convert_row(reader, columns, target, 1 << PNG_PASS_COL_SHIFT(pass));
    }
  }
}

void read_pixels(PngReader& reader) {
  Image& image = *reader.image;
  png_start_read_image(reader.png);
  reader.row_bytes = png_get_rowbytes(reader.png, reader.info);
  reader.rows_left = image.size.height_px;
  if (png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_ADAM7) {
    read_passes(reader);
  } else if (reader.pixels->samples == PngSamples::kRgb8 && !reader.pixels->key) {
    for (int y = 0; y < image.size.height_px; ++y) read_row(reader, image.row(y));
  } else {
    for (int y = 0; y < image.size.height_px; ++y) {
      read_row(reader, reader.row);
      convert_row(reader, image.size.width_px, image.row(y), 1);
    }
  }
  png_read_end(reader.png, nullptr);  // checks what follows, to the end chunk
}

Error refusal(const PngReader& reader) {
  if (reader.no_memory) throw std::bad_alloc();
  return damaged("PNG", reader.message);
}

// Frees what libpng holds, however the decoding went.
class PngOwner {
 public:
  explicit PngOwner(Bytes bytes) : reader_() {
    reader_.at = bytes.data();
    reader_.left = bytes.size();
    reader_.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reader_, on_error, on_warning,
                                           &reader_, take_memory, give_memory);
    if (reader_.png != nullptr) reader_.info = png_create_info_struct(reader_.png);
  }
  ~PngOwner() { png_destroy_read_struct(&reader_.png, &reader_.info, nullptr); }
  PngOwner(const PngOwner&) = delete;
  PngOwner& operator=(const PngOwner&) = delete;

  PngReader& reader() { return reader_; }

 private:
  PngReader reader_;
};

}  // namespace

Result<Image> decode_png(Bytes bytes, Size size) {
  const Result<PngLayout> layout = walk_png(bytes);
  if (!layout) return layout.error();
  PngOwner owner(bytes);
  PngReader& reader = owner.reader();
  reader.pixels_end = bytes.data() + layout->pixels_end;
  if (reader.info == nullptr) throw std::bad_alloc();
  if (!guarded(reader, read_header)) return refusal(reader);
  PngPixels pixels;
  reader.pixels = &pixels;
  if (!guarded(reader, choose_conversion)) return refusal(reader);
  const size_t pixel_bytes = 8;  // the most a pixel takes
  Image image(size);
  std::vector<uint8_t> row(pixel_bytes * static_cast<size_t>(size.width_px));
  reader.image = &image;
  reader.row = row.data();
  if (!guarded(reader, read_pixels)) return refusal(reader);
  return orient(std::move(image), layout->orientation);
}

}  // namespace fovea
