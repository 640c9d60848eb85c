// SPDX-License-Identifier: Apache-2.0
// A plan as `fovea see --json` writes it, read back.
#pragma once

#include <string_view>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

struct PlanFile {
  Plan plan;
  Size canvas;  // it was made for; 0x0: the file does not say
};

// Of the text only "cells", a list of [level,row,col] with one or more, must be there; "plan" names
// the maker, "canvas" is [width,height]. The order of the cells does not matter, and whether they
// lie in an image is not known here. The error is the reason alone.
Result<PlanFile> parse_plan(std::string_view text);

}  // namespace fovea
