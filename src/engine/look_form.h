// SPDX-License-Identifier: Apache-2.0
// The forms that the looks of a glance+look plan take: code knows them by kind, people by name.
#pragma once

#include <string_view>

#include "fovea/result.h"

namespace fovea {

enum class LookForm {
  kMixed,  // fine cells behind the glance
  kCrops,  // rectangles, each an image of its own
  kOff     // none: the glance alone
};

std::string_view look_name(LookForm form);
Result<LookForm> find_look(std::string_view name);

}  // namespace fovea
