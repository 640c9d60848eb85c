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
#include "engine/look_form.h"
#include "engine/model.h"
#include "fovea/fovea.h"
#include "gaze/cell_tree.h"
#include "memory/digest.h"
#include "vision/vision.h"

namespace fovea {

// Cells that went through the tower in one call.
struct Encoded {
  std::vector<Cell> cells;
  CellBlock crop;     // the same cells, where they are an image of their own
  bool kept = false;  // whether the tower's memory holds them
  std::shared_ptr<const VisualTokens> tokens;  // of this session, or shared with others
  int64_t number = 0;                          // of the encoding: another number, other tokens
  // What the tokens depend on: pixels, cells, and what they attend to. All zero: not known.
  Digest content;

  bool is_crop() const { return crop.cells() > 0; }
};

// What a question of a conversation looked at, where looks are crops: they stay in its message.
struct PastLook {
  Digest message;  // and all before it (digests_of)
  std::vector<Encoded> crops;
};

struct ImageView {
  std::string name;
  int64_t max_pixels = 0;
  std::optional<Image> image;  // decoded; kept where another canvas may be asked for
  std::optional<Prepared> prepared;
  CanvasLimits limits;                      // that `prepared` was made with
  std::optional<PictureMeasures> measured;  // what no question changes
  TowerMemory memory;                       // of the kept parts
  bool size_bias = false;
  AttentionSchedule attention;  // of the tower
  bool share = false;           // with other sessions, which are told apart by the salt
  std::string salt;
  std::optional<Digest> content;  // of the pixels
  // The glance, or the whole of a plan without one, then the looks. The first `shown` belong to the
  // present question; the others are left from an earlier one, and may do again.
  std::vector<Encoded> parts;
  size_t shown = 0;
  int64_t encodings = 0;
  std::vector<PastLook> past;  // the latest last

  std::span<const Encoded> shown_parts() const { return {parts.data(), shown}; }
};

// What one question made of a view.
struct Looked {
  SeeSettings settings;
  Choice choice;  // the plan's cells in the order of their tokens
  Stopwatch watch;
  int glance_tokens = 0;
  int encoded_tokens = 0;
  std::optional<LookForm> look;  // none for plans of other makers
  int look_tokens = 0;           // what the budget leaves for looks that are yet to be chosen
  int rounds = 0;                // so many looks at most
  bool asks_model = false;       // the looks follow what the model couples with the question
  std::vector<Saccade> saccades;
};

// How many tokens a question can make of a view at most, and whether the tower's memory keeps them.
struct MostTokens {
  int64_t count = 0;
  bool kept = false;
};
MostTokens most_tokens(const Model& model, const ImageView& view, const AskOptions& options,
                       size_t image);

// Makes the plan of a view as far as no question is needed for it: the glance, or all of a given
// plan (whose cells may be in any order) and of other makers' plans.
Result<Looked> plan_view(const Model& model, ImageView& view, const AskOptions& options,
                         size_t image);

// Encodes what plan_view() planned. False where it was stopped.
Result<bool> show_plan(const Model& model, ImageView& view, const AskOptions& options,
                       const std::function<bool()>& keep_going, Looked& looked);

// Shows some more cells of a view, encoding them where no earlier question has: behind what is
// shown already, which they attend to, or as an image of their own. False where it was stopped.
Result<bool> show_cells(const Model& model, ImageView& view, std::vector<Cell> cells, bool keep,
                        const std::function<bool()>& keep_going, Looked& looked);
Result<bool> show_crop(const Model& model, ImageView& view, const CellBlock& crop,
                       const std::function<bool()>& keep_going, Looked& looked);

// What was encoded of a view is encoded anew, and what earlier questions looked at is forgotten.
void forget_parts(ImageView& view);

// Keeps the crops that are shown with the message they stand in.
void keep_look(ImageView& view, const Digest& message);
// Those of an earlier message; none where it is not known.
std::span<const Encoded> past_crops(const ImageView& view, const Digest& message);

// For the trace, when there is time.
Look report(const Model& model, const ImageView& view, Looked looked);

}  // namespace fovea
