// SPDX-License-Identifier: Apache-2.0
#include "media/jpeg_walk.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

namespace fovea {
namespace {

using namespace std::string_view_literals;

enum Marker : uint8_t {
  kTemporary = 0x01,
  kHuffmanTables = 0xc4,
  kExtension = 0xc8,
  kArithmeticTables = 0xcc,
  kFirstFrame = 0xc0,
  kLastFrame = 0xcf,
  kFirstRestart = 0xd0,
  kStart = 0xd8,
  kEnd = 0xd9,
  kScan = 0xda,
  kApp1 = 0xe1,
};

struct Segment {
  uint8_t marker = 0;
  Bytes payload;
};

bool is_frame(uint8_t marker) {
  return marker >= kFirstFrame && marker <= kLastFrame && marker != kHuffmanTables &&
         marker != kExtension && marker != kArithmeticTables;
}

// Yields segments in order and passes over compressed data, stuffed bytes and restarts in between.
class Walker {
 public:
  explicit Walker(Bytes bytes) : bytes_(bytes) {}

  // Nothing where the bytes end, or a segment's length goes beyond them.
  std::optional<Segment> next() {
    while (at_ + 2 <= bytes_.size()) {
      const void* found = std::memchr(bytes_.data() + at_, 0xff, bytes_.size() - at_ - 1);
      if (found == nullptr) break;
      at_ = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes_.data()) + 1;
      const uint8_t marker = bytes_[at_];
      if (marker == 0xff) continue;  // padding: the second one may start the marker
      ++at_;
      if (marker == kEnd) return Segment{marker, {}};
      if (marker == 0 || marker == kTemporary || (marker >= kFirstRestart && marker <= kStart))
        continue;
      return with_payload(marker);
    }
    at_ = bytes_.size();
    return std::nullopt;
  }

 private:
  std::optional<Segment> with_payload(uint8_t marker) {
    if (bytes_.size() - at_ < 2) return std::nullopt;
    const size_t length = size_t{bytes_[at_]} << 8 | bytes_[at_ + 1];
    if (length < 2 || length > bytes_.size() - at_) return std::nullopt;
    const Bytes payload = bytes_.subspan(at_ + 2, length - 2);
    at_ += length;
    return Segment{marker, payload};
  }

  Bytes bytes_;
  size_t at_ = 2;  // behind the start marker; never beyond the end
};

constexpr size_t kFrameBytes = 6;  // bits, height, width, components

HeaderSize frame_size(Bytes frame) {
  const auto u16 = [&](size_t at) { return uint32_t{frame[at]} << 8 | frame[at + 1]; };
  return {u16(3), u16(1)};
}

void take_metadata(Bytes payload, JpegLayout& layout) {
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  if (starts_with(payload, "Exif\0\0"sv) && layout.exif.empty()) layout.exif = payload;
  if (starts_with(payload, kXmp)) layout.xmp = payload.subspan(kXmp.size());
}

}  // namespace

std::optional<HeaderSize> probe_jpeg(Bytes bytes) {
  Walker walker(bytes);
  while (const std::optional<Segment> segment = walker.next()) {
    if (segment->marker == kEnd || segment->marker == kScan) return std::nullopt;
    if (is_frame(segment->marker) && segment->payload.size() >= kFrameBytes)
      return frame_size(segment->payload);
  }
  return std::nullopt;
}

Result<JpegLayout> walk_jpeg(Bytes bytes) {
  JpegLayout layout;
  Walker walker(bytes);
  while (const std::optional<Segment> segment = walker.next()) {
    const Bytes payload = segment->payload;
    if (segment->marker == kEnd) return layout;
    if (segment->marker == kScan) ++layout.scans;
    if (is_frame(segment->marker) && payload.size() >= kFrameBytes && layout.components == 0) {
      layout.size = frame_size(payload);
      layout.bits = payload[0];
      layout.components = payload[5];
    }
    if (segment->marker == kApp1 && layout.scans == 0) take_metadata(payload, layout);
  }
  return damaged("JPEG", fmt::format("its {} bytes end before the image does", bytes.size()));
}

}  // namespace fovea
