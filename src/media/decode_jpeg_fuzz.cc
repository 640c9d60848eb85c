// SPDX-License-Identifier: Apache-2.0
// Any bytes that begin as a JPEG does give an image or an error.
#include "media/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fovea::fuzz_decoder({data, size}, fovea::Format::kJpeg);
}
