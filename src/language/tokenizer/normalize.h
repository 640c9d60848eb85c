// SPDX-License-Identifier: Apache-2.0
// Text -> the same text in Unicode's composed form (NFC).
#pragma once

#include <string>
#include <string_view>

#include "language/sourced_text.h"

namespace fovea {

// True where NFC would leave the text as it is, for sure; most text passes without further work.
bool is_surely_nfc(std::string_view text);

// NFC of valid UTF-8, as the `tokenizers` package computes it: characters that are younger than
// Unicode 9 take no part, whatever the installed library knows of them.
std::string nfc(std::string_view text);

// The same of a text with the sources of its bytes: what people's characters took part in is
// theirs.
SourcedText nfc(std::string_view text, std::string_view sources);

}  // namespace fovea
