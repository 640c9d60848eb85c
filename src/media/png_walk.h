// SPDX-License-Identifier: Apache-2.0
// The chunks of a PNG stream, read without decoding it.
#pragma once

#include "media/decoders.h"

namespace fovea {

struct PngLayout {
  int orientation = 1;    // 1..8, from its eXIf chunk, an EXIF profile kept as text, or XMP
  size_t pixels_end = 0;  // behind the last packed byte of the pixels
};

// Goes over the whole stream to its end chunk; an error where the stream ends before.
Result<PngLayout> walk_png(Bytes bytes);

}  // namespace fovea
