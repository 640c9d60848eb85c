// SPDX-License-Identifier: Apache-2.0
// WebP by libwebp: the first frame on its canvas, opaque pixels straight into the image.
#include <fmt/format.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "media/composite.h"
#include "media/decoders.h"
#include "media/exif.h"
#include "media/orient.h"

namespace fovea {
namespace {

uint32_t little_endian(Bytes bytes, size_t at, unsigned count) {
  uint32_t value = 0;
  for (unsigned i = 0; i < count; ++i) value |= uint32_t{bytes[at + i]} << (8 * i);
  return value;
}

struct DemuxerDelete {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, DemuxerDelete>;

constexpr size_t kDemuxerBytes = 4096;  // and more

const char* status_text(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "its pixel data ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses a feature that libwebp does not know";
    default:
      return "its pixel data is broken";
  }
}

// Decodes one frame into memory of `size_bytes` with `stride_bytes` from row to row.
Result<Done> decode_frame(const WebPData& frame, WEBP_CSP_MODE mode, uint8_t* target,
                          size_t stride_bytes, size_t size_bytes) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return failed("libwebp is of another version");
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = target;
  config.output.u.RGBA.stride = static_cast<int>(stride_bytes);
  config.output.u.RGBA.size = size_bytes;
  const VP8StatusCode status = WebPDecode(frame.bytes, frame.size, &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != VP8_STATUS_OK) return damaged("WebP", status_text(status));
  return Done{};
}

Status draw_opaque(const WebPIterator& frame, Image& image) {
  const size_t stride_bytes = size_t{3} * image.size.width_px;
  const size_t offset_bytes = stride_bytes * frame.y_offset + size_t{3} * frame.x_offset;
  return decode_frame(frame.fragment, MODE_RGB, image.rgb.data() + offset_bytes, stride_bytes,
                      image.rgb.size() - offset_bytes);
}

Status draw_over_white(const WebPIterator& frame, Image& image) {
  const size_t stride_bytes = size_t{4} * frame.width;
  std::vector<uint8_t> rgba(stride_bytes * frame.height);
  Status status = decode_frame(frame.fragment, MODE_RGBA, rgba.data(), stride_bytes, rgba.size());
  if (!status) return status;
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* source = rgba.data() + stride_bytes * y;
    uint8_t* target = image.row(frame.y_offset + y) + size_t{3} * frame.x_offset;
    for (int x = 0; x < frame.width; ++x, source += 4, target += 3)
      for (int c = 0; c < 3; ++c) target[c] = over_white(source[c], source[3]);
  }
  return status;
}

// Where the first frame leaves the canvas bare, a picture with alpha shows white, others black.
Result<Image> draw_first_frame(WebPDemuxer* demuxer, bool has_alpha, Size size) {
  WebPIterator frame;
  if (WebPDemuxGetFrame(demuxer, 1, &frame) == 0)
    return damaged("WebP", "it holds no complete frame");
  const std::unique_ptr<WebPIterator, void (*)(WebPIterator*)> release(&frame,
                                                                       WebPDemuxReleaseIterator);
  if (frame.width < 1 || frame.height < 1 || frame.x_offset < 0 || frame.y_offset < 0 ||
      frame.x_offset > size.width_px - frame.width ||
      frame.y_offset > size.height_px - frame.height)
    return damaged("WebP", fmt::format("its first frame, {}x{} px at {},{}, leaves the canvas",
                                       frame.width, frame.height, frame.x_offset, frame.y_offset));
  Image image(size);
  if (has_alpha && (frame.width != size.width_px || frame.height != size.height_px))
    std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{255});
  const bool composite = has_alpha && frame.has_alpha != 0;
  const Status drawn = composite ? draw_over_white(frame, image) : draw_opaque(frame, image);
  if (!drawn) return drawn.error();
  return image;
}

// The payload of the first chunk of a kind, a view into the stream.
Bytes chunk_of(WebPDemuxer* demuxer, const char* kind) {
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(demuxer, kind, 1, &chunk) == 0) return {};
  const Bytes bytes(chunk.chunk.bytes, chunk.chunk.size);
  WebPDemuxReleaseChunkIterator(&chunk);
  return bytes;
}

}  // namespace

std::optional<HeaderSize> probe_webp(Bytes bytes) {
  constexpr size_t kLossyBytes = 30;  // container, chunk header, frame header
  constexpr size_t kLosslessBytes = 25;
  constexpr size_t kExtendedBytes = 30;
  if (bytes.size() < kLosslessBytes) return std::nullopt;
  const Bytes chunk = bytes.subspan(12);
  if (starts_with(chunk, "VP8 ") && bytes.size() >= kLossyBytes)
    return HeaderSize{little_endian(bytes, 26, 2) & 0x3fff, little_endian(bytes, 28, 2) & 0x3fff};
  if (starts_with(chunk, "VP8L")) {
    const uint32_t bits = little_endian(bytes, 21, 4);
    return HeaderSize{(bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1};
  }
  if (starts_with(chunk, "VP8X") && bytes.size() >= kExtendedBytes)
    return HeaderSize{little_endian(bytes, 24, 3) + 1, little_endian(bytes, 27, 3) + 1};
  return std::nullopt;
}

Result<Image> decode_webp(Bytes bytes, Size size) {
  const uint64_t stated_bytes = uint64_t{little_endian(bytes, 4, 4)} + 8;
  if (stated_bytes > bytes.size())
    return damaged(
        "WebP", fmt::format("its header states {} bytes, it has {}", stated_bytes, bytes.size()));
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(bytes.data(), bytes.size(), &features);
  if (status != VP8_STATUS_OK) return damaged("WebP", status_text(status));
  const WebPData data{bytes.data(), bytes.size()};
  Demuxer demuxer(WebPDemux(&data));
  // It gives nothing for broken chunks and for want of memory alike. The latter is thrown here, or
  // is over by now.
  if (!demuxer) {
    void* const room = std::malloc(kDemuxerBytes);
    if (room == nullptr) throw std::bad_alloc();
    std::free(room);
    demuxer.reset(WebPDemux(&data));
  }
  if (!demuxer) return damaged("WebP", "its chunks do not fit together");
  if (WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH) != static_cast<uint32_t>(size.width_px) ||
      WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT) != static_cast<uint32_t>(size.height_px))
    return damaged("WebP", "its frame is not of the size that its header states");
  Result<Image> image = draw_first_frame(demuxer.get(), features.has_alpha != 0, size);
  if (!image) return image;
  return orient(std::move(*image),
                orientation_of(chunk_of(demuxer.get(), "EXIF"), chunk_of(demuxer.get(), "XMP ")));
}

}  // namespace fovea
