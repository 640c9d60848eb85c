// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a chat completion and of a response: a call whose answers have a known
// structure, or an error that names what is wrong.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "serve/grammar/structure.h"
#include "serve/openai/chat_request.h"

namespace {

template <class T>
void check_error(const fovea::serve::ApiResult<T>& result) {
  const auto* error = std::get_if<fovea::serve::ApiError>(&result);
  if (error == nullptr) return;
  FOVEA_CHECK(error->status >= 400 && error->status < 500 && !error->message.empty());
  FOVEA_CHECK(!fovea::serve::error_body(*error).empty());
}

void check(const fovea::serve::ApiResult<fovea::serve::ChatCall>& call) {
  check_error(call);
  if (const auto* taken = std::get_if<fovea::serve::ChatCall>(&call))
    check_error(fovea::serve::answer_structure(*taken));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  check(fovea::serve::parse_chat_call(body));
  check(fovea::serve::parse_responses_call(body));
  return 0;
}
