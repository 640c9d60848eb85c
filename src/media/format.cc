// SPDX-License-Identifier: Apache-2.0
#include "media/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace fovea {
namespace {

using namespace std::string_view_literals;

constexpr const char* kReads = "fovea reads JPEG, PNG and WebP";

// A format that is known by name only, and the command that makes a PNG of it.
struct Foreign {
  std::string_view magic;
  const char* what;
  const char* command;
};

constexpr const char* kVideoCommand = "ffmpeg -i in.mp4 -frames:v 1 out.png";

constexpr Foreign kForeign[] = {
    {"GIF87a"sv, "a GIF image", "magick 'in.gif[0]' out.png"},
    {"GIF89a"sv, "a GIF image", "magick 'in.gif[0]' out.png"},
    {"BM"sv, "a BMP image", "magick in.bmp out.png"},
    {"II*\0"sv, "a TIFF image", "magick 'in.tif[0]' out.png"},
    {"MM\0*"sv, "a TIFF image", "magick 'in.tif[0]' out.png"},
    {"II+\0"sv, "a TIFF image", "magick 'in.tif[0]' out.png"},
    {"MM\0+"sv, "a TIFF image", "magick 'in.tif[0]' out.png"},
    {"\0\0\0\x0cJXL \r\n\x87\n"sv, "a JPEG XL image", "djxl in.jxl out.png"},
    {"\xff\x0a"sv, "a JPEG XL image", "djxl in.jxl out.png"},
    {"\0\0\0\x0cjP  \r\n\x87\n"sv, "a JPEG 2000 image", "magick in.jp2 out.png"},
    {"\xff\x4f\xff\x51"sv, "a JPEG 2000 image", "magick in.j2k out.png"},
    {"8BPS"sv, "a Photoshop image", "magick 'in.psd[0]' out.png"},
    {"\0\0\1\0"sv, "a Windows icon", "magick 'in.ico[0]' out.png"},
    {"\x76\x2f\x31\x01"sv, "an OpenEXR image", "magick in.exr out.png"},
    {"#?RADIANCE"sv, "a Radiance HDR image", "magick in.hdr out.png"},
    {"qoif"sv, "a QOI image", "magick in.qoi out.png"},
    {"DDS "sv, "a DDS texture", "magick in.dds out.png"},
    {"P4\n"sv, "a PBM image", "magick in.pbm out.png"},
    {"P5\n"sv, "a PGM image", "magick in.pgm out.png"},
    {"P6\n"sv, "a PPM image", "magick in.ppm out.png"},
    {"%PDF-"sv, "a PDF document", "pdftoppm -png -r 150 in.pdf out"},
    {"\x1a\x45\xdf\xa3"sv, "a Matroska or WebM video", "ffmpeg -i in.mkv -frames:v 1 out.png"},
};

std::string_view text_of(Bytes bytes, size_t begin, size_t count) {
  if (begin >= bytes.size()) return {};
  return {reinterpret_cast<const char*>(bytes.data()) + begin,
          std::min(count, bytes.size() - begin)};
}

Error foreign(const char* what, const char* command) {
  return bad_input(fmt::format("it is {}; {}: convert it, e.g. with `{}`", what, kReads, command));
}

// Files of ISO boxes: the brands in the first box tell HEIC and AVIF from video.
Error name_boxed(Bytes bytes) {
  const size_t box_bytes = bytes[0] == 0 && bytes[1] == 0 ? size_t{bytes[2]} << 8 | bytes[3] : 64;
  bool heic = false;
  for (size_t at = 8; at + 4 <= std::min(box_bytes, bytes.size()); at += 4) {
    const std::string_view brand = text_of(bytes, at, 4);
    if (brand == "avif" || brand == "avis")
      return foreign("an AVIF image", "magick in.avif out.png");
    heic = heic || brand == "mif1" || brand == "msf1" || brand.starts_with("hei") ||
           brand == "hevc" || brand == "hevx";
  }
  if (heic) return foreign("a HEIC image", "magick in.heic out.png");
  return foreign("an MP4 or QuickTime video", kVideoCommand);
}

// SVG and web pages are text: the first tags tell.
std::optional<Error> name_text(Bytes bytes) {
  std::string head(text_of(bytes, 0, 4096));
  std::transform(head.begin(), head.end(), head.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const size_t first = head.find_first_not_of("\xef\xbb\xbf \t\r\n");
  if (first == std::string::npos || head[first] != '<') return std::nullopt;
  const size_t svg = std::min(head.find("<svg"), head.find("<!doctype svg"));
  const size_t page = std::min(head.find("<html"), head.find("<!doctype html"));
  if (svg < page) return foreign("an SVG drawing", "rsvg-convert in.svg -o out.png");
  if (page == std::string::npos) return std::nullopt;
  return bad_input(fmt::format("it is a web page; {}: save the picture itself", kReads));
}

Error name_foreign(Bytes bytes) {
  if (text_of(bytes, 4, 4) == "ftyp") return name_boxed(bytes);
  if (starts_with(bytes, "RIFF") && text_of(bytes, 8, 4) == "AVI ")
    return foreign("an AVI video", "ffmpeg -i in.avi -frames:v 1 out.png");
  if (starts_with(bytes, "\x1f\x8b"))
    return bad_input(fmt::format("it is gzip-compressed; {}: unpack it with `gunzip`", kReads));
  for (const Foreign& format : kForeign)
    if (starts_with(bytes, format.magic)) return foreign(format.what, format.command);
  if (std::optional<Error> text = name_text(bytes)) return *text;
  // What it holds is not shown: it may be a file of secrets that was named by mistake.
  return bad_input(fmt::format("it does not begin as any known image does; {}", kReads));
}

}  // namespace

const char* format_name(Format format) {
  switch (format) {
    case Format::kJpeg:
      return "JPEG";
    case Format::kPng:
      return "PNG";
    case Format::kWebp:
      return "WebP";
  }
  return "";
}

Result<Format> sniff_format(Bytes bytes) {
  if (bytes.empty()) return bad_input(fmt::format("it is empty (0 bytes); {}", kReads));
  if (starts_with(bytes, "\xff\xd8\xff"sv)) return Format::kJpeg;
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n"sv)) return Format::kPng;
  if (starts_with(bytes, "RIFF") && text_of(bytes, 8, 4) == "WEBP") return Format::kWebp;
  return name_foreign(bytes);
}

}  // namespace fovea
