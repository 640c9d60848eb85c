// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http_chunks.h"

#include <algorithm>
#include <charconv>

namespace fovea::serve {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

}  // namespace

HttpChunks::State HttpChunks::take(std::string& input, std::string& body) {
  std::string_view rest = input;
  State state = State::kMore;
  for (size_t before = rest.size() + 1; state == State::kMore && rest.size() < before;) {
    before = rest.size();
    state = take_part(rest, body);
  }
  input.erase(0, input.size() - rest.size());
  return state;
}

// Takes nothing where the part is not all there.
HttpChunks::State HttpChunks::take_part(std::string_view& input, std::string& body) {
  if (part_ == Part::kBytes) {
    const size_t size = std::min<uint64_t>(left_, input.size());
    body += input.substr(0, size);
    input.remove_prefix(size);
    left_ -= size;
    if (left_ == 0) part_ = Part::kEnd;
    return State::kMore;
  }
  // One limit for a line that has ended and one that has not, with room for its CR: what becomes of
  // a request must not depend on the pieces that it comes in.
  const size_t end = std::min(input.find('\n'), input.size());
  if (end > limits_.header_bytes + 1) return State::kTooManyFields;
  if (end == input.size()) return State::kMore;
  if (end == 0 || input[end - 1] != '\r') return State::kBad;
  const std::string_view line = input.substr(0, end - 1);
  input.remove_prefix(end + 1);
  if (part_ == Part::kSize) return take_size(line, body);
  if (part_ == Part::kFields) return take_field(line);
  part_ = Part::kSize;
  return line.empty() ? State::kMore : State::kBad;
}

HttpChunks::State HttpChunks::take_size(std::string_view line, const std::string& body) {
  const char* const end = line.data() + line.size();
  const auto [behind, error] = std::from_chars(line.data(), end, left_, 16);
  if (error != std::errc() || (behind != end && *behind != ';')) return State::kBad;
  if (std::any_of(behind, end, is_control)) return State::kBad;
  other_bytes_ += static_cast<size_t>(end - behind);
  if (other_bytes_ > limits_.header_bytes) return State::kTooManyFields;
  if (left_ > limits_.body_bytes - body.size()) return State::kTooLarge;
  part_ = left_ == 0 ? Part::kFields : Part::kBytes;
  return State::kMore;
}

// They are left out: nobody here asks for them, and none may change what the head has said.
HttpChunks::State HttpChunks::take_field(std::string_view line) {
  if (line.empty()) return State::kWhole;
  other_bytes_ += line.size();
  if (other_bytes_ > limits_.header_bytes) return State::kTooManyFields;
  const bool is_field = line.find(':') != std::string_view::npos && line[0] != ':' &&
                        line[0] != ' ' && line[0] != '\t';
  if (!is_field || std::any_of(line.begin(), line.end(), is_control)) return State::kBad;
  return State::kMore;
}

}  // namespace fovea::serve
