// SPDX-License-Identifier: Apache-2.0
#include "media/encode_png.h"

#include <png.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "fovea/new_file.h"
#include "media/decoders.h"

namespace fovea {
namespace {

// What libpng is told of a picture.
struct Picture {
  Size size;
  int bits;
  int color_type;
  const uint8_t* pixels;
  size_t stride_bytes;
};

Picture picture_of(const Image& image) {
  return {image.size, 8, PNG_COLOR_TYPE_RGB, image.rgb.data(), size_t{3} * image.size.width_px};
}

Picture picture_of(const Map& map) {
  return {{map.grid.cols, map.grid.rows},
          16,
          PNG_COLOR_TYPE_GRAY,
          reinterpret_cast<const uint8_t*>(map.score.data()),
          sizeof(uint16_t) * static_cast<size_t>(map.grid.cols)};
}

// Where the bytes go; append() returns 0 or an errno, and never throws.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual int append(const uint8_t* bytes, size_t count) noexcept = 0;
};

class MemorySink final : public Sink {
 public:
  int append(const uint8_t* bytes, size_t count) noexcept override {
    try {
      held.insert(held.end(), bytes, bytes + count);
      return 0;
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
  }
  std::vector<uint8_t> held;
};

class FileSink final : public Sink {
 public:
  explicit FileSink(NewFile& file) : file_(file) {}
  int append(const uint8_t* bytes, size_t count) noexcept override {
    return file_.append(bytes, count);
  }

 private:
  NewFile& file_;
};

struct PngWriter : JumpState {
  png_structp png;
  png_infop info;
  const Picture* picture;
  Sink* sink;
  int error_code;
};

[[noreturn]] void on_error(png_structp png, const char* message) {
  auto* writer = static_cast<PngWriter*>(png_get_error_ptr(png));
  std::strncpy(writer->message, message, sizeof(writer->message) - 1);
  std::longjmp(writer->jump, 1);
}

void on_warning(png_structp, const char*) {}

void write_to_sink(png_structp png, png_bytep bytes, size_t count) {
  auto* writer = static_cast<PngWriter*>(png_get_io_ptr(png));
  writer->error_code = writer->sink->append(bytes, count);
  if (writer->error_code != 0) png_error(png, "write failed");
}

void flush_nothing(png_structp) {}

void write_rows(PngWriter& writer) {
  const Picture& picture = *writer.picture;
  png_set_write_fn(writer.png, &writer, write_to_sink, flush_nothing);
  png_set_user_limits(writer.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_buffer_size(writer.png, size_t{1} << 16);
  // On photographs and drawn pictures the smallest files for their time: trying every filter takes
  // twice as long for a few per cent.
  png_set_compression_level(writer.png, 3);
  png_set_filter(writer.png, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(picture.size.width_px),
               static_cast<png_uint_32>(picture.size.height_px), picture.bits, picture.color_type,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  if (picture.bits == 16 && std::endian::native == std::endian::little) png_set_swap(writer.png);
  for (int y = 0; y < picture.size.height_px; ++y)
    png_write_row(writer.png, picture.pixels + picture.stride_bytes * static_cast<size_t>(y));
  png_write_end(writer.png, writer.info);
}

// 0, or the errno of what failed.
int encode(const Picture& picture, Sink& sink) {
  FOVEA_CHECK(picture.size.width_px >= 1 && picture.size.height_px >= 1);
  PngWriter writer{};
  writer.picture = &picture;
  writer.sink = &sink;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, on_error, on_warning);
  if (writer.png != nullptr) writer.info = png_create_info_struct(writer.png);
  const bool written = writer.info != nullptr && guarded(writer, write_rows);
  png_destroy_write_struct(&writer.png, &writer.info);
  if (written) return 0;
  return writer.error_code != 0 ? writer.error_code : ENOMEM;
}

std::vector<uint8_t> encode_to_memory(const Picture& picture) {
  MemorySink sink;
  if (encode(picture, sink) != 0) throw std::bad_alloc();  // only memory can fail here
  return std::move(sink.held);
}

Status encode_to_file(const Picture& picture, const std::string& path) {
  Result<NewFile> file = NewFile::create(path);
  if (!file) return file.error();
  FileSink sink(*file);
  if (const int error_code = encode(picture, sink)) return file->error(error_code);
  return file->commit();
}

}  // namespace

std::vector<uint8_t> encode_png(const Image& image) { return encode_to_memory(picture_of(image)); }
std::vector<uint8_t> encode_png(const Map& map) { return encode_to_memory(picture_of(map)); }

Status write_png(const std::string& path, const Image& image) {
  return encode_to_file(picture_of(image), path);
}

Status write_png(const std::string& path, const Map& map) {
  return encode_to_file(picture_of(map), path);
}

}  // namespace fovea
