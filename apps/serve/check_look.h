// SPDX-License-Identifier: Apache-2.0
// Which key of a request the engine refuses.
#pragma once

#include <optional>
#include <string>

#include "fovea/answer.h"
#include "fovea/fovea.h"
#include "serve/api_error.h"

namespace fovea::serve {

// Names of plans, looks and balances, before the engine is asked with them.
std::optional<ApiError> check_look(const AskOptions& options);

// The same for what is seen without a question, whose keys stand in the body itself.
std::optional<ApiError> check_see(const SeeOptions& options);
ApiError see_error_of(const Error& error);

// What the engine says of a request whose keys are right by themselves. `form` is the key that
// gives its answers a form; empty: none does.
ApiError named_error_of(const Error& error, const std::string& form = "");

}  // namespace fovea::serve
