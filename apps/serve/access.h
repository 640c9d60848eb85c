// SPDX-License-Identifier: Apache-2.0
// Who may ask: keys, and pages in a browser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea::serve {

// The keys in a file, one a line; an error where there is none, or one that no header can hold.
Result<std::vector<std::string>> read_keys(const std::string& path);
// The same of a text; `name` is what the error calls it.
Result<std::vector<std::string>> keys_of(const std::string& text, const std::string& name);

// Which of the keys `authorization` ("Bearer KEY") has, by its number; -1: none. How long it takes
// depends on the lengths alone, so that nobody can guess a key letter by letter.
int find_key(std::string_view authorization, const std::vector<std::string>& keys);

// Whether a page of this origin ("http://localhost:3000") was served by this machine.
bool is_local_origin(std::string_view origin);

// Whether a request's Host is an address or localhost, not another name: a page elsewhere whose own
// name was made to resolve to this machine sends that name.
bool is_local_host(std::string_view host);

}  // namespace fovea::serve
