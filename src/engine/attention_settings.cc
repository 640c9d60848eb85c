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

Status refuse(const Model& model, const AttentionSchedule& wanted, const char* whose) {
  return bad_input(fmt::format(
      "attention \"{}\": {} does not compute it in {}; leave it out, or choose the device cpu",
      wanted.text(), model.device->description(), whose));
}

Status check_formats(const Model& model, const AskOptions& options) {
  const auto formats = parse_key_formats(options.kv, model.config().text.num_layers);
  if (!formats) return formats.error();
  if (formats->is_f32()) return Done{};
  if (!model.pool)
    return bad_input(fmt::format(
        "kv {}: {} keeps keys and values as it computes them; leave it out, or choose the device "
        "cpu",
        options.kv, model.device->description()));
  if (!of_text(model, options)->is_dense())
    return bad_input(
        fmt::format("kv {}: keys and values are stored so where tokens attend to all; leave kv or "
                    "the text's attention {} out",
                    options.kv, options.text_attention));
  return Done{};
}

}  // namespace

Status check_attention(const Model& model, const AskOptions& options) {
  const auto tower = of_tower(model, options);
  if (!tower) return tower.error();
  if (!model.tower.has_kinds(*tower)) return refuse(model, *tower, "the tower");
  const auto text = of_text(model, options);
  if (!text) return text.error();
  if (!model.decoder.has_kinds(*text)) return refuse(model, *text, "the language model");
  return check_formats(model, options);
}

AttentionSchedule tower_attention(const Model& model, const AskOptions& options) {
  return *of_tower(model, options);
}

AttentionSchedule text_attention(const Model& model, const AskOptions& options) {
  return *of_text(model, options);
}

KeyFormats stored_formats(const Model& model, const AskOptions& options) {
  return *parse_key_formats(options.kv, model.config().text.num_layers);
}

}  // namespace fovea
