// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace fovea {
namespace {

bool is_dense(const SparseSettings& part) { return part.kind == AttentionKind::kDense; }

Error bad_share(std::string_view part, std::string_view why) {
  return bad_input(fmt::format("attention {}: {}", in_quotes(part), why));
}

// All of the digits.
template <class Number>
bool read_number(std::string_view digits, Number& number) {
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && stopped == end && std::isfinite(number);
}

// "0.5/0.3/0.2"
bool read_weights(std::string_view text, LevelWeights& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t end = i + 1 < weights.size() ? text.find('/') : text.size();
    if (end == std::string_view::npos || !read_number(text.substr(0, end), weights[i]))
      return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

// "hierarchical:0.1", "level-sum:0.1:0.5/0.3/0.2", or a name alone.
Result<SparseSettings> parse_part(std::string_view part, AttentionPlace place) {
  const size_t colon = part.find(':');
  const auto kind = find_attention_kind(part.substr(0, colon), place);
  if (!kind) return kind.error();
  SparseSettings settings{.kind = *kind};
  if (colon == std::string_view::npos) return settings;
  if (!row_of(*kind).by_blocks) {
    std::vector<std::string_view> names;
    for (const AttentionKindRow& row : attention_kinds(place))
      if (row.by_blocks) names.emplace_back(row.name);
    return bad_share(part, fmt::format("only {} takes a share", fmt::join(names, " or ")));
  }
  const std::string_view behind = part.substr(colon + 1);
  const size_t second = behind.find(':');
  if (!read_number(behind.substr(0, second), settings.share) ||
      !(settings.share > 0 && settings.share <= 1))
    return bad_share(part, "the share of the blocks is a number above 0 and up to 1");
  if (second == std::string_view::npos) return settings;
  if (*kind != AttentionKind::kLevelSum) return bad_share(part, "only level-sum takes weights");
  if (!read_weights(behind.substr(second + 1), settings.level_weights))
    return bad_share(part, "the weights are three numbers: fine/medium/coarse");
  return settings;
}

}  // namespace

AttentionSchedule::AttentionSchedule(std::vector<SparseSettings> parts) {
  FOVEA_CHECK(!parts.empty());
  if (std::all_of(parts.begin(), parts.end(), fovea::is_dense)) return;
  const bool one = std::all_of(parts.begin(), parts.end(),
                               [&](const SparseSettings& part) { return part == parts.front(); });
  if (one) parts.resize(1);
  parts_ = std::move(parts);
}

bool AttentionSchedule::has(AttentionKind kind) const {
  if (is_dense()) return kind == AttentionKind::kDense;
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const SparseSettings& part) { return part.kind == kind; });
}

bool AttentionSchedule::chooses_blocks() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const SparseSettings& part) { return row_of(part.kind).by_blocks; });
}

SparseSettings AttentionSchedule::of(int layer, int layers) const {
  if (is_dense()) return {};
  const auto index = static_cast<size_t>(layer) * parts_.size() / static_cast<size_t>(layers);
  return parts_[index];
}

std::string AttentionSchedule::text() const {
  std::string text;
  for (const SparseSettings& part : parts_) {
    if (!text.empty()) text += ',';
    text += row_of(part.kind).name;
    const bool weighs = part.level_weights != kEqualLevels;
    if (part.share > 0 || weighs) text += fmt::format(":{}", part.share);
    if (weighs) text += fmt::format(":{}", fmt::join(part.level_weights, "/"));
  }
  return text;
}

Result<AttentionSchedule> parse_attention(std::string_view text, AttentionPlace place, int layers) {
  if (text.empty()) return AttentionSchedule();
  const char* const whose = place == AttentionPlace::kTower ? "the tower" : "the language model";
  std::vector<SparseSettings> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto part = parse_part(text.substr(begin, end - begin), place);
    if (!part) return part.error();
    parts.push_back(*part);
    begin = end + 1;
    if (static_cast<int>(parts.size()) > layers)
      return bad_input(fmt::format("attention has more kinds than {} has layers; give at most {}",
                                   whose, layers));
  }
  return AttentionSchedule(std::move(parts));
}

}  // namespace fovea
