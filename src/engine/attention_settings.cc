// SPDX-License-Identifier: Apache-2.0
#include "engine/attention_settings.h"

#include <fmt/format.h>

#include <string>

namespace fovea {
namespace {

Result<AttentionSchedule> of_tower(const Model& model, const AskOptions& options) {
  return parse_attention(options.tower_attention, AttentionPlace::kTower,
                         model.config().vision.depth);
}

Result<AttentionSchedule> of_text(const Model& model, const AskOptions& options) {
  return parse_attention(options.text_attention, AttentionPlace::kText,
                         model.config().text.num_layers);
}

Status check_one(const Model& model, const Result<AttentionSchedule>& wanted, bool has_kinds) {
  if (!wanted) return wanted.error();
  if (wanted->is_dense() || has_kinds) return Done{};
  return bad_input(
      fmt::format("attention \"{}\": {} computes dense attention alone; leave it out, "
                  "or choose the device cpu",
                  wanted->text(), model.device->description()));
}

}  // namespace

Status check_attention(const Model& model, const AskOptions& options) {
  if (auto checked = check_one(model, of_tower(model, options), model.tower.has_kinds()); !checked)
    return checked;
  return check_one(model, of_text(model, options), model.decoder.has_kinds());
}

AttentionSchedule tower_attention(const Model& model, const AskOptions& options) {
  return *of_tower(model, options);
}

AttentionSchedule text_attention(const Model& model, const AskOptions& options) {
  return *of_text(model, options);
}

}  // namespace fovea
