// SPDX-License-Identifier: Apache-2.0
// A chunked body. Beast's own reader stops the program on "0\r\n\r\n" that comes in pieces (an
// assertion that counts a byte too many), takes bare LF inside quotes and any number of extensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace fovea::serve {

class HttpChunks {
 public:
  enum class State { kMore, kWhole, kBad, kTooLarge, kTooManyFields };

  explicit HttpChunks(const HttpLimits& limits) : limits_(limits) {}

  // Takes what belongs to the body from the front of `input` and puts the chunks' bytes behind
  // `body`. Call it again when more has come.
  State take(std::string& input, std::string& body);

 private:
  enum class Part { kSize, kBytes, kEnd, kFields };  // of a chunk; behind the last one

  State take_part(std::string_view& input, std::string& body);
  State take_size(std::string_view line, const std::string& body);
  State take_field(std::string_view line);

  const HttpLimits& limits_;
  Part part_ = Part::kSize;
  uint64_t left_ = 0;       // bytes of this chunk that are to come
  size_t other_bytes_ = 0;  // of extensions, and of fields behind the last chunk
};

}  // namespace fovea::serve
