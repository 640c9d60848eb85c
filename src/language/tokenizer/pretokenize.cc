// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/pretokenize.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "language/tokenizer/scan.h"

namespace fovea {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSteps = 16;

// What a ByteLevel step with use_regex splits by.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string type_of(const Json& json) {
  const Json type = json.is_object() ? json.value("type", Json()) : Json();
  return type.is_string() ? type.get<std::string>() : json.dump().substr(0, 64);
}

bool flag(const Json& json, const char* name, bool otherwise) {
  const Json value = json.value(name, Json());
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

// A plain text as an expression that matches it alone.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const bool plain = (c & 0x80) != 0 || std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

Result<Pretokenizer> Pretokenizer::make(const Json& json, bool fast) {
  Pretokenizer made;
  if (auto good = made.add(json, fast); !good) return good.error();
  if (!made.byte_level_)
    return bad_input("the pre_tokenizer has no ByteLevel step; fovea reads byte-level BPE");
  return made;
}

Status Pretokenizer::add(const Json& json, bool fast) {
  const std::string type = type_of(json);
  if (steps_.size() >= kMaxSteps)
    return bad_input(fmt::format("the pre_tokenizer has more than {} steps", kMaxSteps));
  if (type == "Sequence") {
    const Json steps = json.value("pretokenizers", Json());
    if (!steps.is_array() || steps.size() > kMaxSteps)
      return bad_input(
          fmt::format("the pre_tokenizer's Sequence is no list of at most {} steps", kMaxSteps));
    for (const Json& step : steps) {
      if (type_of(step) == "Sequence") return bad_input("the pre_tokenizer nests a Sequence");
      if (auto good = add(step, fast); !good) return good;
    }
    return Done{};
  }
  // What follows it would see the characters that stand for bytes instead of the text.
  if (byte_level_) return bad_input(fmt::format("the pre_tokenizer has {} after ByteLevel", type));
  if (type == "Split") return add_split(json, fast);
  if (type == "ByteLevel") {
    byte_level_ = true;
    if (flag(json, "add_prefix_space", true)) steps_.push_back({Step::Kind::kPrefixSpace});
    if (flag(json, "use_regex", true)) return add_pattern(kByteLevelPattern, true);
    return Done{};
  }
  return bad_input(
      fmt::format("the pre_tokenizer is {}; fovea reads Split, ByteLevel and Sequence", type));
}

Status Pretokenizer::add_split(const Json& json, bool fast) {
  const Json pattern = json.value("pattern", Json());
  const Json behavior = json.value("behavior", Json());
  if (!pattern.is_object() || pattern.size() != 1 || !pattern.begin()->is_string() ||
      (pattern.begin().key() != "Regex" && pattern.begin().key() != "String"))
    return bad_input("the pre_tokenizer's Split has no pattern, a Regex or a String");
  if ((behavior != "Isolated" && behavior != "Removed") || flag(json, "invert", false))
    return bad_input(
        fmt::format("the pre_tokenizer's Split has behavior {} and invert {}; fovea "
                    "reads Isolated and Removed, not inverted",
                    behavior.dump(), json.value("invert", Json()).dump()));
  const auto& text = pattern.begin()->get_ref<const std::string&>();
  const bool keep = behavior == "Isolated";
  if (pattern.begin().key() == "String") return add_pattern(quoted(text), keep);
  if (fast && keep && text == kQwenPattern) {
    steps_.push_back({Step::Kind::kQwen});
    return Done{};
  }
  return add_pattern(text, keep);
}

Status Pretokenizer::add_pattern(const std::string& pattern, bool keep_matches) {
  auto compiled = Pattern::compile(pattern);
  if (!compiled) return compiled.error();
  steps_.push_back({Step::Kind::kPattern, patterns_.size(), keep_matches});
  patterns_.push_back(std::move(*compiled));
  return Done{};
}

Status Pretokenizer::split(std::string_view text, PatternWork& work, const OnWord& on_word) const {
  Splitting splitting{{}, work, on_word};
  splitting.searches.reserve(patterns_.size());
  for (const Pattern& pattern : patterns_) splitting.searches.emplace_back(pattern);
  return split(splitting, 0, text);
}

Status Pretokenizer::split(Splitting& splitting, size_t step, std::string_view text) const {
  if (text.empty()) return Done{};
  if (step == steps_.size()) {
    splitting.on_word(text);
    return Done{};
  }
  switch (steps_[step].kind) {
    case Step::Kind::kPattern:
      return split_by_pattern(splitting, step, text);
    case Step::Kind::kPrefixSpace:
      if (text.front() == ' ') return split(splitting, step + 1, text);
      return split(splitting, step + 1, " " + std::string(text));
    case Step::Kind::kQwen:
      break;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = scan_qwen(text, begin);
    auto good = split(splitting, step + 1, text.substr(begin, end - begin));
    if (!good) return good;
    begin = end;
  }
  return Done{};
}

Status Pretokenizer::split_by_pattern(Splitting& splitting, size_t step,
                                      std::string_view text) const {
  Pattern::Search& search = splitting.searches[steps_[step].pattern];
  search.start(text, splitting.work);
  size_t done = 0;
  while (true) {
    const auto match = search.next();
    if (!match) return match.error();
    const size_t begin = match->found ? match->begin : text.size();
    // What lies between two matches is a word too.
    auto good = split(splitting, step + 1, text.substr(done, begin - done));
    if (!good) return good;
    if (!match->found) return Done{};
    if (steps_[step].keep_matches) {
      good = split(splitting, step + 1, text.substr(begin, match->end - begin));
      if (!good) return good;
    }
    done = match->end;
  }
}

}  // namespace fovea
