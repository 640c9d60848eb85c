// SPDX-License-Identifier: Apache-2.0
// How a request has attention computed, and what it reads stored, in the terms of the rooms that do
// so.
#pragma once

#include "engine/model.h"
#include "fovea/answer.h"
#include "ops/attention/sparse/schedule.h"
#include "ops/key_format.h"

namespace fovea {

// What a person may have given wrong, and what the device does not have.
Status check_attention(const Model& model, const AskOptions& options);

// Of options that were checked.
AttentionSchedule tower_attention(const Model& model, const AskOptions& options);
AttentionSchedule text_attention(const Model& model, const AskOptions& options);
// How the language model's keys and values are stored.
KeyFormats stored_formats(const Model& model, const AskOptions& options);

}  // namespace fovea
