// SPDX-License-Identifier: Apache-2.0
// The chunks of a PNG stream, read without decoding it.
#pragma once

#include "media/decoders.h"

namespace fovea {

// Goes over the whole stream to its end chunk and finds which way up the picture is, 1..8, from its
// eXIf chunk, an EXIF profile kept as text, or XMP; an error where the stream ends before.
Result<int> walk_png(Bytes bytes);

}  // namespace fovea
