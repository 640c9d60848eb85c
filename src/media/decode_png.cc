// SPDX-License-Identifier: Apache-2.0
// PNG by libpng. Metadata is never unpacked by it; rows are converted as they come, those of
// interlaced pictures straight to their places, so that one row is all the extra memory.
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cstring>
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
  PngPixels* pixels;
  Image* image;
  uint8_t* row;  // one row of samples as libpng gives them
};

[[noreturn]] void on_error(png_structp png, const char* message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof(reader->message) - 1);
  std::longjmp(reader->jump, 1);
}

void on_warning(png_structp, const char*) {}

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

// Without png_set_interlace_handling, libpng gives the seven passes as seven small pictures.
void read_passes(PngReader& reader) {
  Image& image = *reader.image;
  const auto width = static_cast<png_uint_32>(image.size.width_px);
  const auto height = static_cast<png_uint_32>(image.size.height_px);
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
    const auto columns = static_cast<int>(PNG_PASS_COLS(width, pass));
    const auto rows = static_cast<int>(PNG_PASS_ROWS(height, pass));
    if (columns == 0) continue;
    const size_t first = PNG_COL_FROM_PASS_COL(0U, pass);
    for (int row = 0; row < rows; ++row) {
      png_read_row(reader.png, reader.row, nullptr);
      uint8_t* target = image.row(PNG_ROW_FROM_PASS_ROW(row, pass)) + 3 * first;
      convert_row(reader, columns, target, 1 << PNG_PASS_COL_SHIFT(pass));
    }
  }
}

void read_pixels(PngReader& reader) {
  Image& image = *reader.image;
  png_start_read_image(reader.png);
  if (png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_ADAM7) {
    read_passes(reader);
  } else if (reader.pixels->samples == PngSamples::kRgb8 && !reader.pixels->key) {
    for (int y = 0; y < image.size.height_px; ++y) png_read_row(reader.png, image.row(y), nullptr);
  } else {
    for (int y = 0; y < image.size.height_px; ++y) {
      png_read_row(reader.png, reader.row, nullptr);
      convert_row(reader, image.size.width_px, image.row(y), 1);
    }
  }
  png_read_end(reader.png, nullptr);  // checks what follows, to the end chunk
}

// Frees what libpng holds, however the decoding went.
class PngOwner {
 public:
  explicit PngOwner(Bytes bytes) : reader_() {
    reader_.at = bytes.data();
    reader_.left = bytes.size();
    reader_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader_, on_error, on_warning);
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
  const Result<int> orientation = walk_png(bytes);
  if (!orientation) return orientation.error();
  PngOwner owner(bytes);
  PngReader& reader = owner.reader();
  if (reader.info == nullptr) return failed("there is not enough memory to decode it");
  if (!guarded(reader, read_header)) return damaged("PNG", reader.message);
  PngPixels pixels;
  reader.pixels = &pixels;
  if (!guarded(reader, choose_conversion)) return damaged("PNG", reader.message);
  const size_t pixel_bytes = 8;  // the most a pixel takes
  Image image(size);
  std::vector<uint8_t> row(pixel_bytes * static_cast<size_t>(size.width_px));
  reader.image = &image;
  reader.row = row.data();
  if (!guarded(reader, read_pixels)) return damaged("PNG", reader.message);
  return orient(std::move(image), *orientation);
}

}  // namespace fovea
