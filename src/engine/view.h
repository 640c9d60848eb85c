// SPDX-License-Identifier: Apache-2.0
// One image of a session: what was computed of it, and the visual tokens of its present plan.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "engine/front_end.h"
#include "engine/model.h"
#include "fovea/fovea.h"
#include "vision/vision.h"

namespace fovea {

// Cells that went through the tower in one call.
struct Encoded {
  std::vector<Cell> cells;
  VisualTokens tokens;
  int64_t number = 0;  // of the encoding: another number, other tokens
};

struct ImageView {
  std::string name;
  int64_t max_pixels = 0;
  std::optional<Image> image;  // decoded; kept where another canvas may be asked for
  std::optional<Prepared> prepared;
  CanvasLimits limits;  // that `prepared` was made with
  TowerMemory memory;   // of the glance and the look
  bool size_bias = false;
  Encoded glance;  // the whole plan, for plans without a look
  Encoded look;
  int64_t encodings = 0;

  int tokens() const { return glance.tokens.count + look.tokens.count; }
};

// What one question made of a view.
struct Looked {
  SeeOptions options;
  Choice choice;
  Stopwatch watch;
  int glance_tokens = 0;
  int encoded_tokens = 0;
};

// Makes the plan of a view (or takes the given one, in any order) and encodes what of it is not
// encoded yet. `keep_going` false ends it early, with tokens that are not to be used.
Result<Looked> look(const Model& model, ImageView& view, const AskOptions& options,
                    std::span<const Point> fixations, const Plan* given,
                    const std::function<bool()>& keep_going);

// For the trace, when there is time.
Look report(const Model& model, const ImageView& view, Looked looked);

}  // namespace fovea
