// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/read_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "language/template_options.h"

namespace fovea::serve {
namespace {

struct NumberOption {
  const char* key;
  NumberRange range;
  double AskOptions::*target;
};
constexpr NumberOption kNumbers[] = {
    {"temperature", {0, 2}, &AskOptions::temperature},
    {"top_p", {0, 1, /*above_least=*/true}, &AskOptions::top_p},
    {"min_p", {0, 1}, &AskOptions::min_p},
    {"frequency_penalty", {-2, 2}, &AskOptions::frequency_penalty},
    {"presence_penalty", {-2, 2}, &AskOptions::presence_penalty},
    {"repetition_penalty", {0, 100, /*above_least=*/true}, &AskOptions::repetition_penalty},
};

constexpr int kMostTokens = 1 << 30;

struct IntOption {
  const char* key;
  IntRange range;
  int AskOptions::*target;
};
constexpr IntOption kInts[] = {
    {"max_tokens", {1, kMostTokens}, &AskOptions::max_tokens},
    {"max_completion_tokens", {1, kMostTokens}, &AskOptions::max_tokens},  // the later one wins
    {"max_output_tokens", {1, kMostTokens}, &AskOptions::max_tokens},
    {"min_tokens", {0, kMostTokens}, &AskOptions::least_tokens},
    {"top_k", {-1, kMostTokens}, &AskOptions::top_k},
};

Fault read_lengths(const Fields& body, const ChatLimits& limits, AskOptions& options) {
  const bool given =
      body.has("max_tokens") || body.has("max_completion_tokens") || body.has("max_output_tokens");
  for (const IntOption& one : kInts)
    if (auto fault = body.read(one.key, one.range, options.*one.target)) return fault;
  if (!given) options.max_tokens = std::max(limits.default_tokens, options.least_tokens);
  if (options.least_tokens > options.max_tokens)
    return body.wrong("min_tokens", fmt::format("{} is more than the most tokens, {}",
                                                options.least_tokens, options.max_tokens));
  options.top_k = std::max(options.top_k, 0);  // -1 is all tokens, too
  return body.read("ignore_eos", options.ignore_end);
}

// Without a seed each request has one of its own: who samples twice wants two answers. The choices
// of a request have those that follow it.
Fault read_seed(const Fields& body, AskOptions& options) {
  if (!body.has("seed")) {
    std::random_device random;
    options.seed = uint64_t{random()} << 32 | random();
    return {};
  }
  int64_t seed = 0;
  if (auto fault = body.read("seed", {INT64_MIN, INT64_MAX}, seed)) return fault;
  options.seed = static_cast<uint64_t>(seed);
  return {};
}

Fault read_numbers(const Fields& body, AskOptions& options) {
  for (const NumberOption& one : kNumbers)
    if (auto fault = body.read(one.key, one.range, options.*one.target)) return fault;
  return read_seed(body, options);
}

// vLLM's priority is lower for what is handled earlier, the engine's is higher.
Fault read_priority(const Fields& body, Request& request) {
  int priority = 0;
  if (auto fault = body.read("priority", {INT_MIN, INT_MAX}, priority)) return fault;
  request.priority = -std::max(priority, -INT_MAX);  // INT_MIN has no negative
  return {};
}

Fault read_bias(const Fields& body, AskOptions& options) {
  constexpr NumberRange kRange{kBanBias, -kBanBias};
  auto object = body.object("logit_bias");
  if (auto* error = std::get_if<ApiError>(&object)) return *error;
  const Json* biases = std::get<Json*>(object);
  if (biases == nullptr) return {};
  for (const auto& [key, value] : biases->items()) {
    TokenBias token;
    const char* end = key.data() + key.size();
    const auto [parsed, fault] = std::from_chars(key.data(), end, token.id);
    if (fault != std::errc() || parsed != end || token.id < 0)
      return body.wrong("logit_bias", fmt::format("{} is no number of a token", in_quotes(key)));
    double bias = 0;
    if (auto wrong = read_number(value, "logit_bias." + key, kRange, bias)) return wrong;
    token.bias = static_cast<float>(bias);
    options.logit_bias.push_back(token);
  }
  return {};
}

Fault read_stop(const Fields& body, AskOptions& options) {
  constexpr size_t kMost = 4;
  Json* stop = body.find("stop");
  if (stop == nullptr) return {};
  if (stop->is_string()) *stop = Json::array({std::move(*stop)});
  if (!stop->is_array()) return wrong_type("stop", *stop, "a string or a list of strings");
  if (stop->size() > kMost)
    return body.wrong("stop", fmt::format("{} strings; give {} at most", stop->size(), kMost));
  for (const Json& one : *stop) {
    if (!one.is_string()) return wrong_type("stop", one, "strings");
    if (one.get_ref<const std::string&>().empty())
      return body.wrong("stop", "an empty string would end every answer; leave it out");
    options.stop.push_back(one.get<std::string>());
  }
  return {};
}

Fault read_stream(const Fields& body, ChatCall& call) {
  if (auto fault = body.read("stream", call.stream)) return fault;
  auto object = body.object("stream_options");
  if (auto* error = std::get_if<ApiError>(&object)) return *error;
  Json* options = std::get<Json*>(object);
  if (options == nullptr) return {};
  if (!call.stream) return body.wrong("stream_options", "they are of streams; set stream");
  return Fields(*options, "stream_options").read("include_usage", call.include_usage);
}

Fault read_template(const Fields& body, ChatCall& call) {
  auto object = body.object("chat_template_kwargs");
  if (auto* error = std::get_if<ApiError>(&object)) return *error;
  if (std::get<Json*>(object) == nullptr) return {};
  Json& given = *std::get<Json*>(object);
  const Fields kwargs(given, "chat_template_kwargs");
  AskOptions& options = call.request.options;
  bool thinks = false;
  if (auto fault = kwargs.read("enable_thinking", thinks)) return fault;
  if (kwargs.has("enable_thinking")) options.enable_thinking = thinks;
  given.erase("enable_thinking");
  for (const auto& [name, value] : given.items())
    if (is_reserved_template_name(name))
      return kwargs.wrong(name, "the name is the prompt's own; leave it out");
  if (!given.empty()) options.template_options = json_text(given);
  return {};
}

}  // namespace

Fault read_options(const Fields& body, const ChatLimits& limits, ChatCall& call) {
  AskOptions& options = call.request.options;
  if (auto fault = read_lengths(body, limits, options)) return fault;
  if (auto fault = read_numbers(body, options)) return fault;
  if (auto fault = read_bias(body, options)) return fault;
  if (auto fault = read_stop(body, options)) return fault;
  if (auto fault = read_stream(body, call)) return fault;
  if (auto fault = body.read("parallel_tool_calls", call.parallel_tool_calls)) return fault;
  if (auto fault = read_template(body, call)) return fault;
  if (auto fault = body.read("cache_salt", options.salt)) return fault;
  return read_priority(body, call.request);
}

Fault read_top_logprobs(const Fields& body, ChatCall& call) {
  constexpr int kMost = 20;
  if (auto fault = body.read("top_logprobs", {0, kMost}, call.top_logprobs)) return fault;
  call.request.options.likely_tokens = call.top_logprobs;
  return {};
}

Fault read_format(const Fields& format, ChatCall& call, const SchemaFinder& find_schema) {
  std::string type;
  if (!format.has("type")) return format.wrong("type", "it is missing; give a string");
  if (auto fault = format.read("type", type)) return fault;
  if (type == "text") return {};
  call.format = type == "json_object" ? AnswerFormat::kJsonObject : AnswerFormat::kJsonSchema;
  if (type == "json_object") return {};
  if (type != "json_schema")
    return format.wrong("type", fmt::format("{} is unknown; use text, json_object or json_schema",
                                            in_quotes(type)));
  auto schema = find_schema(format);
  if (auto* error = std::get_if<ApiError>(&schema)) return std::move(*error);
  call.schema = json_text(*std::get<Json*>(schema));
  return {};
}

ApiResult<Json*> need_schema(const Fields& fields) {
  auto schema = fields.object("schema");
  if (std::holds_alternative<ApiError>(schema) || std::get<Json*>(schema) != nullptr) return schema;
  return fields.wrong("schema", "it is missing; give a JSON Schema");
}

}  // namespace fovea::serve
