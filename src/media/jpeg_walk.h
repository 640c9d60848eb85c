// SPDX-License-Identifier: Apache-2.0
// The markers of a JPEG stream, read without decoding it.
#pragma once

#include "media/decoders.h"

namespace fovea {

struct JpegLayout {
  HeaderSize size;
  int bits = 0;
  int components = 0;
  int scans = 0;
  Bytes exif;  // of the first APP1 before the pixels that holds EXIF; a view into the stream
  Bytes xmp;   // of the last APP1 before the pixels that holds XMP
};

// Goes over the whole stream to its end marker; an error where it ends before.
Result<JpegLayout> walk_jpeg(Bytes bytes);

}  // namespace fovea
