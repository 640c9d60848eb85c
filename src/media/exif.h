// SPDX-License-Identifier: Apache-2.0
// Which way up a picture is. Metadata is hostile until read: every offset is checked.
#pragma once

#include <optional>

#include "media/decoders.h"

namespace fovea {

// The Orientation of the first directory of an EXIF block (with or without its "Exif\0\0"), as it
// stands there; nothing where the block is broken or holds none.
std::optional<int64_t> exif_orientation(Bytes exif);

// The tiff:Orientation of an XMP packet; nothing where it holds none.
std::optional<int64_t> xmp_orientation(Bytes xmp);

// 1..8: what EXIF says, or else XMP, or else upright. A value that EXIF does not define is upright.
int orientation_of(Bytes exif, Bytes xmp);

}  // namespace fovea
