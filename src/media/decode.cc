// SPDX-License-Identifier: Apache-2.0
#include "media/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>

#include "base/utf8.h"
#include "media/decoders.h"
#include "media/format.h"
#include "media/image_size.h"
#include "media/read_bytes.h"

namespace fovea {
namespace {

// Pixels may take 8 bytes each (16-bit RGBA that does not compress); metadata may be large too.
constexpr uint64_t kBytesPerPixel = 8;
constexpr uint64_t kMetadataBytes = uint64_t{256} << 20;

Error cannot_read(const std::string& name, const Error& reason) {
  const std::string shown = name.empty() ? "''" : printable(name);
  return {reason.kind, fmt::format("cannot read {}: {}", shown, reason.message)};
}

std::optional<HeaderSize> probe(Format format, Bytes bytes) {
  switch (format) {
    case Format::kJpeg:
      return probe_jpeg(bytes);
    case Format::kPng:
      return probe_png(bytes);
    case Format::kWebp:
      return probe_webp(bytes);
  }
  return std::nullopt;
}

Result<Size> check_size(Format format, HeaderSize size, const ImageLimits& limits) {
  const uint64_t width_px = size.width_px;
  const uint64_t height_px = size.height_px;
  const uint64_t pixels = width_px * height_px;
  const std::string says =
      fmt::format("its {} header says {}x{} px", format_name(format), width_px, height_px);
  if (pixels == 0) return bad_input(says + "; an image has at least 1x1");
  if (pixels > static_cast<uint64_t>(std::max<int64_t>(limits.max_pixels, 0)))
    return bad_input(fmt::format("{}, {} pixels, over the limit of {}; raise max_pixels", says,
                                 pixels, limits.max_pixels));
  if (std::max(width_px, height_px) > kMaxSideRatio * std::min(width_px, height_px))
    return bad_input(fmt::format(
        "{}, a side ratio over the limit of {}; crop it or cut it in parts", says, kMaxSideRatio));
  if (std::max(width_px, height_px) > uint64_t{std::numeric_limits<int>::max()})
    return bad_input(says + ", more than any picture has; check the file");
  return Size{static_cast<int>(width_px), static_cast<int>(height_px)};
}

// What the bytes so far show: an error, or whether they already hold a header that is fine.
Result<bool> check_header(Bytes bytes, const ImageLimits& limits) {
  const Result<Format> format = sniff_format(bytes);
  if (!format) return format.error();
  const std::optional<HeaderSize> size = probe(*format, bytes);
  if (!size) return false;
  const Result<Size> checked = check_size(*format, *size, limits);
  if (!checked) return checked.error();
  return true;
}

Result<Size> read_size(Format format, Bytes bytes, const ImageLimits& limits) {
  const std::optional<HeaderSize> header = probe(format, bytes);
  if (!header) return damaged(format_name(format), "its header does not state a size");
  return check_size(format, *header, limits);
}

Result<Image> decode(Bytes bytes, const ImageLimits& limits) {
  const Result<Format> format = sniff_format(bytes);
  if (!format) return format.error();
  const Result<Size> size = read_size(*format, bytes, limits);
  if (!size) return size.error();
  switch (*format) {
    case Format::kJpeg:
      return decode_jpeg(bytes, *size);
    case Format::kPng:
      return decode_png(bytes, *size);
    case Format::kWebp:
      return decode_webp(bytes, *size);
  }
  return failed("unknown format");
}

std::string name_of(const std::string& path) { return path == "-" ? "stdin" : path; }

// Memory that cannot be had is an error like any other.
template <class Body>
auto without_exceptions(const std::string& name, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return cannot_read(name, failed("there is not enough memory for its pixels; make it smaller"));
}

}  // namespace

Result<Size> image_size(Bytes bytes, const ImageLimits& limits) {
  return without_exceptions("the image", [&]() -> Result<Size> {
    const Result<Format> format = sniff_format(bytes);
    if (!format) return format.error();
    return read_size(*format, bytes, limits);
  });
}

Result<Image> decode_image(Bytes bytes, const std::string& name, const ImageLimits& limits) {
  return without_exceptions(name, [&]() -> Result<Image> {
    Result<Image> image = decode(bytes, limits);
    if (!image) return cannot_read(name, image.error());
    return image;
  });
}

Result<std::vector<uint8_t>> read_image_file(const std::string& path, const ImageLimits& limits) {
  const std::string name = name_of(path);
  return without_exceptions(name, [&]() -> Result<std::vector<uint8_t>> {
    constexpr uint64_t kMostPixels = uint64_t{1} << 56;
    const auto max_pixels = static_cast<uint64_t>(std::max<int64_t>(limits.max_pixels, 0));
    const uint64_t max_bytes = std::min(max_pixels, kMostPixels) * kBytesPerPixel + kMetadataBytes;
    const auto check = [&](Bytes bytes) { return check_header(bytes, limits); };
    Result<std::vector<uint8_t>> bytes = read_bytes(path, max_bytes, check);
    if (!bytes) return cannot_read(name, bytes.error());
    return bytes;
  });
}

Result<Image> read_image(const std::string& path, const ImageLimits& limits) {
  const Result<std::vector<uint8_t>> bytes = read_image_file(path, limits);
  if (!bytes) return bytes.error();
  return decode_image(*bytes, name_of(path), limits);
}

}  // namespace fovea
