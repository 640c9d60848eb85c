// SPDX-License-Identifier: Apache-2.0
// The calls that need no scheduler: each a body in, a body out.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/fovea.h"
#include "serve/api_error.h"
#include "serve/pictures/picture_room.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {

// GET /v1/models and /v1/models/ID.
std::string models_json(const std::string& name, const std::optional<Engine>& engine);
std::string model_json(const std::string& name, const std::optional<Engine>& engine);

// POST /tokenize and /detokenize, as vLLM has them.
ApiResult<std::string> tokenize_json(const Engine& engine, std::string_view body);
ApiResult<std::string> detokenize_json(const Engine& engine, std::string_view body);

// POST /fovea/see: what would be looked at in a picture, without a model. Ends early, with an error
// that nobody reads, where the client is `gone`.
ApiResult<std::string> see_json(std::string_view body, const PictureLimits& limits,
                                PictureRoom& room, const std::atomic<bool>& gone);

}  // namespace fovea::serve
