// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace fovea::serve {
namespace {

constexpr std::string_view kOpenTag = "<tool_call>";
constexpr std::string_view kCloseTag = "</tool_call>";
constexpr std::string_view kSpaces = " \t\r\n";

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// FNV-1a: ids must differ within a conversation, and be no secret.
uint64_t hash_of(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

std::string id_of(std::string_view seed, int call) {
  const std::string text = fmt::format("{}/{}", seed, call);
  const uint64_t first = hash_of(text, 14695981039346656037u);
  const uint64_t second = hash_of(text, first);
  return fmt::format("call_{:016x}{:08x}", first, static_cast<uint32_t>(second >> 32));
}

// A JSON string's text; empty where it is none.
std::string string_in(std::string_view json) {
  const auto parsed = parse_ordered_json(json);
  return parsed && parsed->is_string() ? parsed->get<std::string>() : "";
}

// Arguments that are no object: models write them as a string that holds JSON, or leave them out.
std::string arguments_in(std::string_view json) {
  if (json.starts_with('"'))
    if (std::string text = string_in(json); !text.empty()) return text;
  return json.empty() || json == "null" || json == "\"\"" ? "{}" : std::string(json);
}

std::string without_tags(std::string text) {
  for (const std::string_view tag : {kOpenTag, kCloseTag}) {
    std::string left;
    size_t begin = 0;
    for (size_t at; (at = text.find(tag, begin)) != std::string::npos; begin = at + tag.size())
      left.append(text, begin, at - begin);
    text = left.append(text, begin);
  }
  return text;
}

}  // namespace

ToolCallParser::ToolCallParser(std::string_view id_seed, bool one_call)
    : id_seed_(id_seed), one_call_(one_call) {}

std::vector<AnswerPiece> ToolCallParser::add(std::string_view text) {
  held_ += text;
  read_on();
  return std::exchange(pieces_, {});
}

std::vector<AnswerPiece> ToolCallParser::finish() {
  over_ = true;
  read_on();
  if (state_ == State::kCall) {
    end_open_member();
    cut_short_ = call_.named && !call_.dropped;
    if (!call_.named) say(trim(without_tags(call_.body)));
  }
  if (calls_ == 0 && !spaces_.empty()) piece_of(-1).text += spaces_;
  return std::exchange(pieces_, {});
}

void ToolCallParser::read_on() {
  bool sure = true;
  while (at_ < held_.size() && sure) sure = step();
  held_.erase(0, at_);
  at_ = 0;
}

ToolCallParser::Tag ToolCallParser::tag_here() const {
  const std::string_view text = std::string_view(held_).substr(at_);
  if (text.starts_with(kOpenTag)) return Tag::kOpen;
  if (text.starts_with(kCloseTag)) return Tag::kClose;
  const bool may_be = kOpenTag.starts_with(text) || kCloseTag.starts_with(text);
  return may_be && !over_ ? Tag::kUnsure : Tag::kNone;
}

bool ToolCallParser::step() {
  switch (state_) {
    case State::kText:
      return step_text();
    case State::kCall:
      return step_call();
    default:
      return step_after();
  }
}

bool ToolCallParser::step_text() {
  const size_t end = std::min(held_.find('<', at_), held_.size());
  say(std::string_view(held_).substr(at_, end - at_));
  at_ = end;
  if (at_ == held_.size()) return true;
  const Tag tag = tag_here();
  if (tag == Tag::kNone) say({&held_[at_++], 1});
  if (tag == Tag::kOpen) {
    at_ += kOpenTag.size();
    begin_call();
  } else if (tag == Tag::kClose) {
    at_ += kCloseTag.size();
  }
  return tag != Tag::kUnsure;
}

bool ToolCallParser::step_call() {
  const char c = held_[at_];
  // No string of JSON holds a line break: a tag behind one ends a string that was left open.
  const bool may_end = c == '<' && (!call_.in_string || call_.before == '\n');
  const Tag tag = may_end ? tag_here() : Tag::kNone;
  if (tag == Tag::kUnsure) return false;
  if (tag == Tag::kNone && take(c)) {
    ++at_;
  } else {  // it is looked at again, as text
    end_open_member();
    end_call();
  }
  return true;
}

// Behind the object there may be a bracket too many, another object, or the text without a tag.
bool ToolCallParser::step_after() {
  at_ = std::min(held_.find_first_not_of(" \t\r\n}],", at_), held_.size());
  if (at_ == held_.size()) return true;
  if (held_[at_] == '{')
    begin_call();
  else
    state_ = State::kText;
  return true;
}

void ToolCallParser::begin_call() {
  call_ = {};
  state_ = State::kCall;
}

// Its object has ended, or what cannot be of one follows.
void ToolCallParser::end_call() {
  if (call_.named) {
    if (!call_.has_arguments) add_arguments("{}");
    state_ = State::kAfterCall;
    return;
  }
  state_ = State::kText;
  say(trim(without_tags(std::move(call_.body))));
}

bool ToolCallParser::take(char c) {
  Call& call = call_;
  if (call.depth == 0 && c != '{' && !is_space(c)) return false;
  if (!call.named) call.body += c;
  call.before = c;
  if (call.depth == 0) {
    call.depth = c == '{' ? 1 : 0;
    return true;
  }
  if (call.in_string || c == '"' || call.depth > 1) {
    take_value_character(c);
    return true;
  }
  if (c == '}') {
    end_member();
    end_call();
  } else if (c == ',') {
    end_member();
  } else if (c == ':' && !call.in_value) {
    call.key = string_in(trim(call.part));
    call.part.clear();
    call.in_value = true;
  } else {
    take_value_character(c);
  }
  return true;
}

// A character of a key, too: it is read like a value.
void ToolCallParser::take_value_character(char c) {
  Call& call = call_;
  const bool first = call.part.empty() && !call.streams;
  if (first && is_space(c)) return;
  const bool is_arguments = call.in_value && call.key == "arguments" && !call.has_arguments;
  if (first && is_arguments && c == '{' && call.named) call.streams = call.has_arguments = true;
  const int depth = call.depth;
  if (call.in_string) {
    call.in_string = call.escaped || c != '"';
    call.escaped = !call.escaped && c == '\\';
  } else {
    call.in_string = c == '"';
    if (c == '{' || c == '[') ++call.depth;
    if (c == '}' || c == ']') call.depth = std::max(1, call.depth - 1);
  }
  if (!call.streams) {
    call.part += c;
  } else if (depth > 1 || call.depth > 1) {  // behind the object there are only spaces
    add_arguments({&c, 1});
  }
}

// A key and its value are complete.
void ToolCallParser::end_member() {
  Call& call = call_;
  const std::string_view value = trim(call.part);
  if (call.key == "arguments" && !call.has_arguments) {
    call.arguments = arguments_in(value);
    call.has_arguments = true;
    if (call.named) add_arguments(call.arguments);
  } else if (call.key == "name" && !call.named) {
    if (std::string name = string_in(value); !name.empty()) name_call(std::move(name));
  }
  call.part.clear();
  call.key.clear();
  call.in_value = false;
  call.streams = false;
}

// What is complete though its object is not, since the text ends or a tag follows.
void ToolCallParser::end_open_member() {
  if (call_.in_value && !call_.in_string && call_.depth == 1) end_member();
}

void ToolCallParser::say(std::string_view text) {
  const size_t end = text.find_last_not_of(kSpaces) + 1;  // 0 where there are only spaces
  if (end > 0) piece_of(-1).text.append(std::exchange(spaces_, {})).append(text, 0, end);
  spaces_ += text.substr(end);
}

void ToolCallParser::name_call(std::string name) {
  spaces_.clear();  // before the call
  call_.named = true;
  call_.dropped = one_call_ && calls_ == 1;
  if (call_.dropped) return;
  ++calls_;
  AnswerPiece& piece = pieces_.emplace_back();
  piece.call = calls_ - 1;
  piece.id = id_of(id_seed_, piece.call);
  piece.name = std::move(name);
  if (call_.has_arguments) piece.text = std::move(call_.arguments);
}

void ToolCallParser::add_arguments(std::string_view text) {
  if (!call_.dropped) piece_of(calls_ - 1).text += text;
}

AnswerPiece& ToolCallParser::piece_of(int call) {
  if (pieces_.empty() || pieces_.back().call != call) pieces_.push_back({.call = call});
  return pieces_.back();
}

SaidAndCalled split_tool_calls(std::string_view text, std::string_view id_seed, bool one_call) {
  ToolCallParser parser(id_seed, one_call);
  SaidAndCalled all;
  const auto take = [&](std::vector<AnswerPiece> pieces) {
    for (AnswerPiece& piece : pieces) {
      if (!piece.id.empty()) all.calls.push_back({std::move(piece.id), std::move(piece.name), ""});
      (piece.call < 0 ? all.text : all.calls.back().arguments) += piece.text;
    }
  };
  take(parser.add(text));
  take(parser.finish());
  all.cut_short = parser.cut_short();
  return all;
}

}  // namespace fovea::serve
