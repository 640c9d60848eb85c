// SPDX-License-Identifier: Apache-2.0
#include "media/png_walk.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "media/exif.h"

namespace fovea {
namespace {

using namespace std::string_view_literals;

constexpr size_t kSignatureBytes = 8;
constexpr size_t kHeaderBytes = 13;
constexpr size_t kMaxTextBytes = size_t{1} << 20;  // of text that is unpacked

uint32_t u32(Bytes bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         bytes[at + 3];
}

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Takes everything up to a NUL off the front of `text`.
std::string_view take_field(std::string_view& text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

// Unpacks zlib data; empty where it is broken or larger than anything this needs.
std::string unpack(std::string_view packed) {
  std::string text(kMaxTextBytes, '\0');
  uLongf size = text.size();
  const int status = uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                bytes_of(packed).data(), packed.size());
  text.resize(status == Z_OK ? size : 0);
  return text;
}

// The chunks that may tell the orientation; the last of each kind counts.
struct Metadata {
  Bytes exif;
  Bytes profile;  // tEXt or zTXt, keyword and all
  bool profile_is_packed = false;
  Bytes xmp;  // iTXt, keyword and all
};

void take_metadata(std::string_view type, Bytes data, Metadata& metadata) {
  if (type == "eXIf") metadata.exif = data;
  if ((type == "tEXt" || type == "zTXt") && starts_with(data, "Raw profile type exif\0"sv)) {
    metadata.profile = data;
    metadata.profile_is_packed = type == "zTXt";
  }
  if (type == "iTXt" && starts_with(data, "XML:com.adobe.xmp\0"sv)) metadata.xmp = data;
}

// ImageMagick's profiles: a line break, "exif", the length, then hexadecimal lines.
std::vector<uint8_t> read_profile(const Metadata& metadata) {
  std::string_view text = text_of(metadata.profile);
  take_field(text);
  std::string unpacked;
  if (metadata.profile_is_packed) {
    if (text.empty() || text.front() != 0) return {};  // 0 stands for zlib
    text = unpacked = unpack(text.substr(1));
  }
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  std::vector<uint8_t> bytes;
  int high = -1;
  for (const char c : text) {
    if (c == '\n' || c == ' ' || c == '\r') continue;
    const size_t digit = "0123456789abcdef"sv.find(static_cast<char>(c | 0x20));
    if (digit == std::string_view::npos || bytes.size() >= kMaxTextBytes) return {};
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes.push_back(static_cast<uint8_t>(high << 4 | static_cast<int>(digit)));
      high = -1;
    }
  }
  return bytes;
}

int orientation_in(const Metadata& metadata) {
  std::vector<uint8_t> profile;
  Bytes exif = metadata.exif;
  if (exif.empty() && !metadata.profile.empty()) exif = profile = read_profile(metadata);

  std::string_view xmp = text_of(metadata.xmp);
  std::string unpacked;
  take_field(xmp);  // the keyword
  if (xmp.size() >= 2) {
    const bool packed = xmp[0] != 0;
    const bool known = xmp[1] == 0;
    xmp.remove_prefix(2);
    take_field(xmp);  // the language
    take_field(xmp);  // the keyword in it
    if (packed) xmp = unpacked = known ? unpack(xmp) : "";
  }
  return orientation_of(exif, bytes_of(xmp));
}

}  // namespace

std::optional<HeaderSize> probe_png(Bytes bytes) {
  if (bytes.size() < kSignatureBytes + 8 + kHeaderBytes) return std::nullopt;
  if (text_of(bytes.subspan(kSignatureBytes + 4, 4)) != "IHDR") return std::nullopt;
  return HeaderSize{u32(bytes, kSignatureBytes + 8), u32(bytes, kSignatureBytes + 12)};
}

Result<PngLayout> walk_png(Bytes bytes) {
  constexpr size_t kAroundData = 12;  // length, type, checksum
  PngLayout layout;
  Metadata metadata;
  bool animated = false;
  bool pixels_seen = false;
  bool next_frame_seen = false;  // what follows belongs to frames that are not read
  for (size_t at = kSignatureBytes; bytes.size() - at >= kAroundData;) {
    const size_t length = u32(bytes, at);
    if (length > bytes.size() - at - kAroundData) break;
    const std::string_view type = text_of(bytes.subspan(at + 4, 4));
    if (type == "IEND") {
      layout.orientation = orientation_in(metadata);
      return layout;
    }
    animated = animated || type == "acTL";
    if (type == "IDAT") {
      pixels_seen = true;
      layout.pixels_end = at + 8 + length;
    }
    next_frame_seen = next_frame_seen || (type == "fcTL" && animated && pixels_seen);
    if (!next_frame_seen) take_metadata(type, bytes.subspan(at + 8, length), metadata);
    at += kAroundData + length;
  }
  return damaged("PNG", fmt::format("its {} bytes end before the image does", bytes.size()));
}

}  // namespace fovea
