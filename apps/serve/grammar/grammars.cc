// SPDX-License-Identifier: Apache-2.0
#include "serve/grammar/grammars.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/grammar/structure.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {
namespace {

Fault check_options(const AskOptions& options, const std::string& param) {
  const char* key = options.ignore_end ? "ignore_eos" : "min_tokens";
  if (!options.ignore_end && options.least_tokens == 0) return {};
  return wrong_param(key, fmt::format("an answer that {} gives its form ends where that ends; "
                                      "leave {} out",
                                      param, key));
}

}  // namespace

std::string form_param(const ChatCall& call) {
  const bool must =
      call.tool_choice == ToolChoice::kRequired || call.tool_choice == ToolChoice::kNamed;
  if (must) return "tool_choice";
  if (call.format == AnswerFormat::kText) return "tools";
  return call.api == Api::kChat ? "response_format" : "text.format";
}

ApiResult<Form> form_of(const ChatCall& call) {
  auto made = answer_structure(call);
  if (auto* error = std::get_if<ApiError>(&made)) return std::move(*error);
  Form form{std::move(std::get<std::string>(made)), form_param(call)};
  if (form.structure.empty()) return form;
  if (!has_grammars()) {
    if (form.param == "tools") return Form();  // strict tools are told to the model all the same
    return wrong_param(form.param,
                       "this server was built without grammars, so it cannot hold answers to a "
                       "form; leave it out",
                       "unsupported_value");
  }
  if (auto fault = check_options(call.request.options, form.param)) return std::move(*fault);
  return form;
}

TokenMask Grammars::find(const Form& form) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& one) { return one.structure == form.structure; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.end(), kept_, found);
  return found->compiled.mask();
}

ApiResult<TokenMask> Grammars::compile(const Form& form, const Engine& engine) {
  const std::lock_guard lock(compiling_);
  if (TokenMask mask = find(form)) return mask;  // another has compiled it meanwhile
  if (!compiler_) {
    const auto vocabulary = engine.vocabulary();
    if (!vocabulary) return api_error_of(vocabulary.error());
    compiler_ = std::make_unique<StructureCompiler>(*vocabulary);
  }
  auto compiled = compiler_->compile(form.structure);
  if (!compiled)
    return wrong_param(form.param, "cannot make a grammar of it: " + compiled.error().message);
  // JSON and calls are never empty; text with calls in it may be.
  if (compiled->may_be_empty() && form.param != "tools")
    return wrong_param(form.param, "cannot make a grammar of it: it would let the answer be empty");
  TokenMask mask = compiled->mask();
  keep(form.structure, std::move(*compiled));
  return mask;
}

void Grammars::keep(std::string structure, CompiledStructure compiled) {
  const std::lock_guard lock(mutex_);
  kept_.push_back({std::move(structure), std::move(compiled)});
  int64_t bytes = 0;
  for (const Kept& one : kept_) bytes += one.compiled.bytes();
  for (; kept_.size() > most_ || (bytes > most_bytes_ && !kept_.empty()); kept_.pop_front())
    bytes -= kept_.front().compiled.bytes();
}

}  // namespace fovea::serve
