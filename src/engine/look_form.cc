// SPDX-License-Identifier: Apache-2.0
#include "engine/look_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/text.h"

namespace fovea {
namespace {

constexpr std::string_view kNames[] = {"mixed", "crops", "off"};  // by form

}  // namespace

std::string_view look_name(LookForm form) { return kNames[static_cast<size_t>(form)]; }

Result<LookForm> find_look(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames))
    return bad_input(fmt::format("look {}: use mixed, crops or off", in_quotes(name)));
  return static_cast<LookForm>(found - std::begin(kNames));
}

}  // namespace fovea
