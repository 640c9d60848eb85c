// SPDX-License-Identifier: Apache-2.0
// Plans that were made elsewhere.
#pragma once

#include "fovea/answer.h"
#include "fovea/result.h"

namespace fovea {

// The plan with its cells in their order; an error names what cannot be on this canvas and within
// this budget (-1: none): another canvas, too many cells, none, one twice, one outside.
Result<Plan> settle_plan(const GivenPlan& given, Size canvas, int budget_tokens);

}  // namespace fovea
