// SPDX-License-Identifier: Apache-2.0
#include "serve/check_look.h"

#include <string_view>

#include "engine/look_form.h"
#include "gaze/gaze.h"
#include "memory/forget/policies.h"
#include "ops/attention/sparse/schedule.h"
#include "ops/key_format.h"
#include "relevance/relevance.h"

namespace fovea::serve {
namespace {

// How many layers the model has is the engine's to check.
constexpr int kMostLayers = 1024;

// How messages of the engine begin that are about one key.
struct Beginning {
  std::string_view message;
  const char* param;
};
constexpr Beginning kBeginnings[] = {
    {"logit_bias ", "logit_bias"},
    {"a fixation ", "fovea.fixations"},
    {"fixation ", "fovea.fixations"},
    // More kinds than layers, or a device that has none.
    {"attention ", "fovea"},
    {"keep ", "fovea.keep"},
    {"forget ", "fovea.forget"},
    {"kv ", "fovea.kv"},
    {"relook ", "fovea.relook"},
    {"coupling map", "fovea.regions"},
    {"template_options", "chat_template_kwargs"},
    {"tools", "tools"},
    {"tool_calls", "messages"},
};

// Where no token could be chosen: the form has come to a place from which it does not go on, or
// biases forbid all that it allows.
void name_dead_end(ApiError& error, const std::string& form) {
  if (!error.message.starts_with("choosing token ")) return;
  const size_t colon = error.message.find(": ");
  if (colon == std::string::npos) return;
  if (error.message.find("logit_bias", colon) != std::string::npos) {
    error.param = "logit_bias";
  } else if (!form.empty()) {
    error.param = form;
    error.message.resize(colon);
    error.message += ": the form that " + form + " gives allows nothing there; check its schema";
  }
}

}  // namespace

std::optional<ApiError> check_look(const AskOptions& options) {
  if (const auto maker = find_maker(options.plan); !maker)
    return wrong_param("fovea.plan", maker.error().message);
  if (!options.look.empty())
    if (const auto form = find_look(options.look); !form)
      return wrong_param("fovea.look", form.error().message);
  if (!options.balance.empty())
    if (const auto balance = find_balance(options.balance); !balance)
      return wrong_param("fovea.balance", balance.error().message);
  if (const auto read =
          parse_attention(options.tower_attention, AttentionPlace::kTower, kMostLayers);
      !read)
    return wrong_param("fovea.attention", read.error().message);
  if (const auto read = parse_attention(options.text_attention, AttentionPlace::kText, kMostLayers);
      !read)
    return wrong_param("fovea.attention_text", read.error().message);
  if (const auto read = forget_settings(options.keep, "", 0); !read)
    return wrong_param("fovea.keep", read.error().message);
  if (const auto read = forget_settings(options.keep, options.forget, 0); !read)
    return wrong_param("fovea.forget", read.error().message);
  if (const auto read = parse_key_formats(options.kv, kMostLayers); !read)
    return wrong_param("fovea.kv", read.error().message);
  return std::nullopt;
}

std::optional<ApiError> check_see(const SeeOptions& options) {
  if (const auto maker = find_maker(options.plan); !maker)
    return wrong_param("plan", maker.error().message);
  if (!options.balance.empty())
    if (const auto balance = find_balance(options.balance); !balance)
      return wrong_param("balance", balance.error().message);
  return std::nullopt;
}

ApiError see_error_of(const Error& error) {
  ApiError made = api_error_of(error);
  const std::string_view message = error.message;
  if (made.status == 400 &&
      (message.starts_with("fixation ") || message.starts_with("a fixation ")))
    made.param = "fixations";
  return made;
}

ApiError named_error_of(const Error& error, const std::string& form) {
  ApiError made = api_error_of(error);
  if (made.status != 400 || !made.param.empty()) return made;
  for (const Beginning& one : kBeginnings)
    if (error.message.starts_with(one.message)) made.param = one.param;
  name_dead_end(made, form);
  return made;
}

}  // namespace fovea::serve
