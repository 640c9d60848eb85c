// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a client sends, whole and in two pieces: read the same way, to the last byte.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "serve/http/http_parser.h"

namespace {

using fovea::serve::HttpParser;

struct Read {
  HttpParser::State state = HttpParser::State::kHead;
  std::string path;
  std::string body;
};

Read read_in_pieces(const std::string& bytes, size_t cut) {
  fovea::serve::HttpLimits limits;
  limits.header_bytes = 1024;
  limits.body_bytes = 4096;
  HttpParser parser(limits);
  Read read;
  std::string input;
  for (const std::string& piece : {bytes.substr(0, cut), bytes.substr(cut)}) {
    input += piece;
    read.state = parser.take(input);
    if (read.state == HttpParser::State::kBad || read.state == HttpParser::State::kWhole) break;
  }
  if (read.state == HttpParser::State::kWhole) {
    const fovea::serve::HttpRequest request = parser.take_request();
    read.path = request.path;
    read.body = request.body;
    FOVEA_CHECK(read.body.size() <= limits.body_bytes);
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t cut = data[0] % size;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read whole = read_in_pieces(bytes, bytes.size());
  const Read pieces = read_in_pieces(bytes, std::min(cut, bytes.size()));
  FOVEA_CHECK(whole.state == pieces.state && whole.path == pieces.path &&
              whole.body == pieces.body);
  return 0;
}
