// SPDX-License-Identifier: Apache-2.0
// Parts of a schema that xgrammar would leave out without a word.
#pragma once

#include <string>

#include "serve/openai/read_json.h"

namespace fovea::serve {

// Refuses what no grammar would hold an answer to, and says of it which part it is; `param` leads
// to the schema. Names that are required and have no property get one. What is no schema inside
// (enum, const, default, examples) is left alone, and keywords that xgrammar does not know at all
// (not, if, uniqueItems) hold nothing, as docs/serve.md says.
Fault mend_schema(Json& schema, const std::string& param);

}  // namespace fovea::serve
