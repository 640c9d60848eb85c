// SPDX-License-Identifier: Apache-2.0
// What a session holds between questions.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/model.h"
#include "engine/prompt.h"
#include "engine/view.h"
#include "fovea/fovea.h"
#include "language/decoder.h"
#include "memory/forget/policies.h"

namespace fovea {

struct SessionState {
  explicit SessionState(std::shared_ptr<const Model> shared) : model(std::move(shared)) {
    if (model->pool) memory.pages = std::make_shared<Reservation>(model->pool);
  }

  std::shared_ptr<const Model> model;
  std::vector<ImageView> views;
  DecoderMemory memory;
  std::vector<TokenKey> kept;  // whose keys and values are in `memory`
  // Of the first of them, what a gaze head makes: queries of text, keys of a glance, nothing of
  // other tokens. Shorter than `kept` where tokens were not read for a look.
  std::vector<std::vector<float>> gaze_rows;
  AttentionSchedule text_attention;  // by which they were read
  ForgetSettings forget;             // by which keys of them were forgotten, where some were
  // ... for a prompt of which the first so many tokens say what was to be kept: another prompt has
  // no use for the rest.
  int64_t forgot_at = 0;
  bool busy = false;  // with a request; the scheduler's
};

// Adds an image that was not checked yet.
Status add_image(SessionState& state, Image image, int64_t max_pixels);

// What was computed may be half there. The images stay, and the next question pays for them again.
void forget_computed(SessionState& state);

}  // namespace fovea
