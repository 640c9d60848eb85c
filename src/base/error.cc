// SPDX-License-Identifier: Apache-2.0
// Every message of the library and the program is made here.
#include <utility>

#include "base/utf8.h"
#include "fovea/result.h"

namespace fovea {
namespace {

constexpr size_t kLongestMessage = 500;  // characters

}  // namespace

Error::Error(Kind its_kind, std::string_view its_message)
    : kind(its_kind), message(printable_line(its_message, kLongestMessage)) {}

}  // namespace fovea
