// SPDX-License-Identifier: Apache-2.0
// Tells picture formats apart by their first bytes; a file's name is never asked.
#pragma once

#include "media/decoders.h"

namespace fovea {

enum class Format { kJpeg, kPng, kWebp };

const char* format_name(Format format);

// The format, or the reason there is none: what the bytes are instead and what to do about it.
Result<Format> sniff_format(Bytes bytes);

}  // namespace fovea
