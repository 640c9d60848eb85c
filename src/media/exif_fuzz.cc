// SPDX-License-Identifier: Apache-2.0
// Any bytes taken for EXIF or XMP give an orientation of 1..8.
#include "base/check.h"
#include "media/exif.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fovea::Bytes bytes(data, size);
  const int by_exif = fovea::orientation_of(bytes, {});
  const int by_xmp = fovea::orientation_of({}, bytes);
  FOVEA_CHECK(by_exif >= 1 && by_exif <= 8);
  FOVEA_CHECK(by_xmp >= 1 && by_xmp <= 8);
  return 0;
}
