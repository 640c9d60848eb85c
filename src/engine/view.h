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
#include "gaze/cell_tree.h"
#include "vision/vision.h"

namespace fovea {

// Cells that went through the tower in one call.
struct Encoded {
  std::vector<Cell> cells;
  CellBlock crop;     // the same cells, where they are an image of their own
  bool kept = false;  // whether the tower's memory holds them
  VisualTokens tokens;
  int64_t number = 0;  // of the encoding: another number, other tokens

  bool is_crop() const { return crop.cells() > 0; }
};

struct ImageView {
  std::string name;
  int64_t max_pixels = 0;
  std::optional<Image> image;  // decoded; kept where another canvas may be asked for
  std::optional<Prepared> prepared;
  CanvasLimits limits;                // that `prepared` was made with
  std::optional<Relevance> measured;  // information and salience, which no question changes
  TowerMemory memory;                 // of the kept parts
  bool size_bias = false;
  // The glance, or the whole of a plan without one, then the looks. The first `shown` belong to the
  // present question; the others are left from an earlier one, and may do again.
  std::vector<Encoded> parts;
  size_t shown = 0;
  int64_t encodings = 0;

  std::span<const Encoded> shown_parts() const { return {parts.data(), shown}; }
};

// What one question made of a view.
struct Looked {
  SeeOptions options;
  Choice choice;  // the plan's cells in the order of their tokens
  Stopwatch watch;
  int glance_tokens = 0;
  int encoded_tokens = 0;
  std::string look;         // "mixed", "crops", "off"; empty for plans of other makers
  int look_tokens = 0;      // what the budget leaves for looks that are yet to be chosen
  int rounds = 0;           // so many looks at most
  bool asks_model = false;  // the looks follow what the model couples with the question
  std::vector<Saccade> saccades;
};

// Makes the plan of a view and encodes what of it no question is needed for: the glance, or all of
// a given plan (whose cells may be in any order) and of other makers' plans. `keep_going` false
// ends it early, with tokens that are not to be used.
Result<Looked> glance_at(const Model& model, ImageView& view, const AskOptions& options,
                         size_t image, const std::function<bool()>& keep_going);

// Shows some more cells of a view, encoding them where no earlier question has: behind what is
// shown already, which they attend to, or as an image of their own. False where it was stopped.
bool show_cells(const Model& model, ImageView& view, std::vector<Cell> cells, bool keep,
                const std::function<bool()>& keep_going, Looked& looked);
bool show_crop(const Model& model, ImageView& view, const CellBlock& crop,
               const std::function<bool()>& keep_going, Looked& looked);

// For the trace, when there is time.
Look report(const Model& model, const ImageView& view, Looked looked);

}  // namespace fovea
