// SPDX-License-Identifier: Apache-2.0
// What the decoders share with decode.cc: one header probe and one decoder for each format.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

using Bytes = std::span<const uint8_t>;

// A size as a header states it, before anything is known to be sane.
struct HeaderSize {
  uint32_t width_px = 0;
  uint32_t height_px = 0;

  friend bool operator==(const HeaderSize&, const HeaderSize&) = default;
};

// The size from the header, or nothing where `bytes` end before it. They take no memory.
std::optional<HeaderSize> probe_jpeg(Bytes bytes);
std::optional<HeaderSize> probe_png(Bytes bytes);
std::optional<HeaderSize> probe_webp(Bytes bytes);

// Decode a picture whose header was probed and found within the limits; `size` is what it said.
// Errors hold the reason alone ("damaged PNG: ..."); decode.cc puts the name in front.
Result<Image> decode_jpeg(Bytes bytes, Size size);
Result<Image> decode_png(Bytes bytes, Size size);
Result<Image> decode_webp(Bytes bytes, Size size);

// The reason for a picture that is broken further in than its header.
inline Error damaged(const char* format, const std::string& what) {
  return bad_input(std::string("damaged ") + format + ": " + what + "; try a fresh copy of it");
}

inline bool starts_with(Bytes bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), prefix.size()) == prefix;
}

// libjpeg and libpng leave on errors by longjmp. A state keeps the place to jump to and the
// message; a step runs inside guarded() and owns nothing with a destructor, so that no frame that
// does is jumped over.
struct JumpState {
  std::jmp_buf jump;
  char message[200];
};

template <class State>
bool guarded(State& state, void (*step)(State&)) {
  if (setjmp(state.jump) != 0) return false;
  step(state);
  return true;
}

}  // namespace fovea
