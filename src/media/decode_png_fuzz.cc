// SPDX-License-Identifier: Apache-2.0
// Any bytes that begin as a PNG does give an image or an error. Most changes are given right
// checksums, or nothing behind the checksums would ever be tried.
#include <zlib.h>

#include "media/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fovea::fuzz_decoder({data, size}, fovea::Format::kPng);
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  const size_t changed_size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 16 == 0) return changed_size;
  for (size_t at = 8; changed_size >= at && changed_size - at >= 12;) {
    const size_t length = size_t{data[at]} << 24 | size_t{data[at + 1]} << 16 |
                          size_t{data[at + 2]} << 8 | data[at + 3];
    if (length > changed_size - at - 12) break;
    const uLong sum = crc32(0, data + at + 4, static_cast<uInt>(length + 4));
    for (unsigned i = 0; i < 4; ++i)
      data[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return changed_size;
}
