// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo. Everything that can be told without decoding (size, scans, the end) is
// told by a walk over the markers first, so that a broken file costs no memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>  // jpeglib.h wants FILE
#include <cstring>
#include <new>
#include <vector>

// jpeglib.h after <cstdio>
#include <jerror.h>
#include <jpeglib.h>

#include "media/composite.h"
#include "media/decode.h"
#include "media/decoders.h"
#include "media/exif.h"
#include "media/jpeg_walk.h"
#include "media/orient.h"

namespace fovea {
namespace {

struct JpegReader : JumpState {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  Bytes bytes;
  Image* image;
  uint8_t* cmyk_row;  // [width][4], null where libjpeg writes RGB itself
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* reader = static_cast<JpegReader*>(info->client_data);
  static_assert(sizeof(reader->message) >= JMSG_LENGTH_MAX);
  (*info->err->format_message)(info, reader->message);
  std::longjmp(reader->jump, 1);
}

// libjpeg goes on after broken data with gray or noise; here only what leaves the pixels whole
// passes.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return;
    default:
      leave(info);
  }
}

void read_header(JpegReader& reader) {
  jpeg_create_decompress(&reader.info);
  jpeg_mem_src(&reader.info, reader.bytes.data(), reader.bytes.size());
  jpeg_read_header(&reader.info, TRUE);
  reader.info.out_color_space = reader.info.num_components == 4 ? JCS_CMYK : JCS_RGB;
}

// Four inks, stored inverted as Adobe's programs write them, whether or not a marker says so.
void cmyk_to_rgb(const uint8_t* cmyk, int width_px, uint8_t* rgb) {
  for (int x = 0; x < width_px; ++x, cmyk += 4, rgb += 3) {
    const uint32_t light = cmyk[3];
    for (int c = 0; c < 3; ++c)
      rgb[c] = static_cast<uint8_t>(light - multiply_unit(255U - cmyk[c], light));
  }
}

void read_rows(JpegReader& reader) {
  jpeg_decompress_struct& info = reader.info;
  Image& image = *reader.image;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    const auto y = static_cast<int>(info.output_scanline);
    if (reader.cmyk_row != nullptr) {
      JSAMPROW row = reader.cmyk_row;
      jpeg_read_scanlines(&info, &row, 1);
      cmyk_to_rgb(row, image.size.width_px, image.row(y));
      continue;
    }
    JSAMPROW rows[8];
    const int count = std::min(8, image.size.height_px - y);
    for (int i = 0; i < count; ++i) rows[i] = image.row(y + i);
    jpeg_read_scanlines(&info, rows, static_cast<JDIMENSION>(count));
  }
  jpeg_finish_decompress(&info);  // reads on to the end marker
}

Error refusal(const JpegReader& reader) {
  switch (reader.errors.msg_code) {
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
      return bad_input(
          fmt::format("{}; convert it, e.g. with `magick in.jpg out.png`", reader.message));
    case JERR_OUT_OF_MEMORY:
      throw std::bad_alloc();
    default:
      return damaged("JPEG", reader.message);
  }
}

// Frees what libjpeg holds, however the decoding went.
class JpegOwner {
 public:
  explicit JpegOwner(Bytes bytes) : reader_() {
    reader_.bytes = bytes;
    reader_.info.err = jpeg_std_error(&reader_.errors);
    reader_.info.client_data = &reader_;
    reader_.errors.error_exit = leave;
    reader_.errors.emit_message = on_message;
  }
  ~JpegOwner() { jpeg_destroy_decompress(&reader_.info); }
  JpegOwner(const JpegOwner&) = delete;
  JpegOwner& operator=(const JpegOwner&) = delete;

  JpegReader& reader() { return reader_; }

 private:
  JpegReader reader_;
};

}  // namespace

Result<Image> decode_jpeg(Bytes bytes, Size size) {
  const Result<JpegLayout> layout = walk_jpeg(bytes);
  if (!layout) return layout.error();
  if (layout->bits != 8)
    return bad_input(fmt::format("its samples have {} bits; fovea reads JPEG of 8 bits: convert it",
                                 layout->bits));
  if (layout->components != 1 && layout->components != 3 && layout->components != 4)
    return bad_input(fmt::format("it has {} components; fovea reads JPEG of 1, 3 or 4: convert it",
                                 layout->components));
  if (layout->scans > kMaxJpegScans)
    return bad_input(
        fmt::format("its {} scans are over the limit of {}; save it anew, e.g. with "
                    "`jpegtran -copy all`",
                    layout->scans, kMaxJpegScans));
  if (layout->scans > kJpegScansOfAnySize && layout->scans * size.pixels() > kMaxJpegScanPixels)
    return bad_input(fmt::format(
        "its {} scans of {}x{} px are {} pixels to go over, and beyond {} scans the limit is {}; "
        "save it anew, e.g. with `jpegtran -copy all`",
        layout->scans, size.width_px, size.height_px, layout->scans * size.pixels(),
        kJpegScansOfAnySize, kMaxJpegScanPixels));
  JpegOwner owner(bytes);
  JpegReader& reader = owner.reader();
  if (!guarded(reader, read_header)) return refusal(reader);
  if (reader.info.image_width != static_cast<JDIMENSION>(size.width_px) ||
      reader.info.image_height != static_cast<JDIMENSION>(size.height_px) ||
      reader.info.num_components != layout->components)
    return damaged("JPEG", "it has two headers that disagree");
  Image image(size);
  std::vector<uint8_t> cmyk_row(reader.info.num_components == 4 ? size_t{4} * size.width_px : 0);
  reader.image = &image;
  reader.cmyk_row = cmyk_row.empty() ? nullptr : cmyk_row.data();
  if (!guarded(reader, read_rows)) return refusal(reader);
  return orient(std::move(image), orientation_of(layout->exif, layout->xmp));
}

}  // namespace fovea
