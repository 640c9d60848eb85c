// SPDX-License-Identifier: Apache-2.0
#include "media/read_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/read_file.h"

namespace fovea {
namespace {

constexpr size_t kFirstStep = size_t{1} << 16;  // holds the header of nearly every image

}  // namespace

Result<std::vector<uint8_t>> read_bytes(const std::string& path, uint64_t max_bytes,
                                        const EarlyCheck& check) {
  auto file = InputFile::open(path, Takes::kStdin);
  if (!file) return file.error();
  // One byte more than the file is said to hold shows its end without another step.
  const auto hint = static_cast<uint64_t>(file->size() + 1);
  std::vector<uint8_t> bytes;
  uint64_t step = kFirstStep;
  bool sane = false;
  for (bool ended = false; !ended;) {
    const size_t held = bytes.size();
    bytes.resize(static_cast<size_t>(step));
    const auto got = file->read(std::as_writable_bytes(std::span(bytes)).subspan(held));
    if (!got) return got.error();
    ended = held + *got < bytes.size();
    bytes.resize(held + *got);
    if (!sane) {
      const Result<bool> checked = check(bytes);
      if (!checked) return checked.error();
      sane = *checked;
    }
    if (bytes.size() > max_bytes)
      return bad_input(
          fmt::format("it goes on after {} bytes, the most an image within the pixel "
                      "limit may take; raise max_pixels",
                      max_bytes));
    const uint64_t larger = sane ? std::max(hint, 2 * step) : 2 * step;
    step = std::min(larger, max_bytes + 1);
  }
  return bytes;
}

}  // namespace fovea
