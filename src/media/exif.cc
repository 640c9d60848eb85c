// SPDX-License-Identifier: Apache-2.0
#include "media/exif.h"

#include <string_view>

namespace fovea {
namespace {

using namespace std::string_view_literals;

constexpr uint32_t kOrientationTag = 0x0112;

// A TIFF stream: numbers in the byte order its first two bytes state.
class Tiff {
 public:
  Tiff(Bytes bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  bool holds(uint64_t at, uint64_t count) const {
    return at <= bytes_.size() && count <= bytes_.size() - at;
  }
  uint32_t u16(uint64_t at) const { return number(at, 2); }
  uint32_t u32(uint64_t at) const { return number(at, 4); }

 private:
  uint32_t number(uint64_t at, unsigned count) const {
    uint32_t value = 0;
    for (unsigned i = 0; i < count; ++i) {
      const uint32_t byte = bytes_[static_cast<size_t>(at + (big_endian_ ? i : count - 1 - i))];
      value = value << 8 | byte;
    }
    return value;
  }

  Bytes bytes_;
  bool big_endian_;
};

// The value of a directory entry: the first number of an integer type, wherever it lies.
std::optional<int64_t> entry_value(const Tiff& tiff, uint64_t entry) {
  enum Type : uint32_t { kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9 };
  const uint32_t type = tiff.u16(entry + 2);
  const bool is_short = type == kShort || type == kSignedShort;
  if (!is_short && type != kLong && type != kSignedLong) return std::nullopt;
  const uint64_t size = uint64_t{tiff.u32(entry + 4)} * (is_short ? 2 : 4);
  if (size == 0) return std::nullopt;
  const uint64_t at = size > 4 ? tiff.u32(entry + 8) : entry + 8;
  if (!tiff.holds(at, size)) return std::nullopt;
  return is_short ? tiff.u16(at) : tiff.u32(at);
}

}  // namespace

std::optional<int64_t> exif_orientation(Bytes exif) {
  constexpr std::string_view kPrefix = "Exif\0\0"sv;
  for (int i = 0; i < 2 && starts_with(exif, kPrefix); ++i) exif = exif.subspan(kPrefix.size());
  const bool big_endian = starts_with(exif, "MM");
  if (!big_endian && !starts_with(exif, "II")) return std::nullopt;
  const Tiff tiff(exif, big_endian);
  // Some writers swap the bytes of the version; it is 42 either way.
  if (!tiff.holds(0, 8) || (tiff.u16(2) != 0x002a && tiff.u16(2) != 0x2a00)) return std::nullopt;
  const uint64_t directory = tiff.u32(4);
  if (!tiff.holds(directory, 2)) return std::nullopt;
  const uint32_t entries = tiff.u16(directory);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + uint64_t{12} * i;
    if (!tiff.holds(entry, 12)) return std::nullopt;
    if (tiff.u16(entry) != kOrientationTag) continue;
    if (const std::optional<int64_t> value = entry_value(tiff, entry)) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> xmp_orientation(Bytes xmp) {
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('>')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') return rest.front() - '0';
  }
  return std::nullopt;
}

int orientation_of(Bytes exif, Bytes xmp) {
  std::optional<int64_t> value = exif_orientation(exif);
  if (!value) value = xmp_orientation(xmp);
  return value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
}

}  // namespace fovea
