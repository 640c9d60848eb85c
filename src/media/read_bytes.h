// SPDX-License-Identifier: Apache-2.0
// Reads files, pipes and stdin, and gives up early on bytes that will be refused anyway.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "media/decoders.h"

namespace fovea {

// Looks at the bytes so far: an error ends the reading, true says that the rest is wanted unseen,
// false that more is needed to tell.
using EarlyCheck = std::function<Result<bool>(Bytes)>;

// Everything in the file at `path` ("-": stdin), at most `max_bytes`. The file is read, not mapped,
// so that one that shrinks meanwhile is a truncated image and not a crash.
// Errors hold the reason alone, as those of the decoders do.
Result<std::vector<uint8_t>> read_bytes(const std::string& path, uint64_t max_bytes,
                                        const EarlyCheck& check);

}  // namespace fovea
