// SPDX-License-Identifier: Apache-2.0
// The pattern of Qwen's tokenizers, by hand: several times faster than a regular expression, and
// equal to it (scan_test.cc).
#pragma once

#include <cstddef>
#include <string_view>

namespace fovea {

inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Where the match of kQwenPattern that starts at `begin` ends. Every character starts one, so the
// matches cover the text. Valid UTF-8, begin < text.size().
size_t scan_qwen(std::string_view text, size_t begin);

}  // namespace fovea
