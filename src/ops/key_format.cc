// SPDX-License-Identifier: Apache-2.0
#include "ops/key_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "ops/key_format_cpu.h"

namespace fovea {
namespace {

constexpr std::array kFormats = {
    KeyFormatRow{"f32", "as they are computed", KeyFormat::kF32, 4, 0, 0},
    KeyFormatRow{"bf16", "the upper half of an f32", KeyFormat::kBf16, 2, 0, 0},
    KeyFormatRow{"int8", "whole numbers up to 127, with a scale for each token and head",
                 KeyFormat::kInt8, 1, 2, 127},
    KeyFormatRow{"fp8", "e4m3, with a scale for each token and head", KeyFormat::kFp8, 1, 2, 448},
};

Result<KeyFormat> find_key_format(std::string_view name) {
  std::string names;
  for (const KeyFormatRow& row : kFormats) {
    if (name == row.name) return row.format;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return bad_input(
      fmt::format("kv {}: there is no such format of keys and values; choose one of {}",
                  in_quotes(name), names));
}

}  // namespace

std::span<const KeyFormatRow> key_formats() { return kFormats; }

const KeyFormatRow& row_of(KeyFormat format) {
  return kFormats[static_cast<size_t>(format)];  // a test compares their order
}

void narrow_rows(KeyFormat format, const float* rows, int64_t stride, int64_t count, int head_dim,
                 std::byte* values, uint16_t* scales) {
  narrow_rows_cpu(format, rows, stride, count, head_dim, values, scales);
}

void widen_rows(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim, float* out) {
  widen_rows_cpu(format, rows, count, head_dim, out);
}

KeyFormats::KeyFormats(std::vector<KeyFormat> parts) {
  FOVEA_CHECK(!parts.empty());
  const bool one = std::all_of(parts.begin(), parts.end(),
                               [&](KeyFormat part) { return part == parts.front(); });
  if (one && parts.front() == KeyFormat::kF32) return;
  if (one) parts.resize(1);
  parts_ = std::move(parts);
}

KeyFormat KeyFormats::of(int layer, int layers) const {
  if (is_f32()) return KeyFormat::kF32;
  return parts_[static_cast<size_t>(layer) * parts_.size() / static_cast<size_t>(layers)];
}

std::string KeyFormats::text() const {
  std::string text;
  for (const KeyFormat part : parts_) {
    if (!text.empty()) text += ',';
    text += row_of(part).name;
  }
  return text;
}

Result<KeyFormats> parse_key_formats(std::string_view text, int layers) {
  if (text.empty()) return KeyFormats();
  std::vector<KeyFormat> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto part = find_key_format(text.substr(begin, end - begin));
    if (!part) return part.error();
    parts.push_back(*part);
    begin = end + 1;
    if (static_cast<int>(parts.size()) > layers)
      return bad_input(fmt::format(
          "kv has more formats than the language model has layers; give at most {}", layers));
  }
  return KeyFormats(std::move(parts));
}

}  // namespace fovea
