// SPDX-License-Identifier: Apache-2.0
#include "profile/request.h"

#include <algorithm>

#include "patches/patches.h"

namespace fovea::app {
namespace {

int64_t cells_of(const Area& crop) { return crop.size.pixels() / (kCellPx * kCellPx); }

std::vector<TowerPass> tower_passes(const Look& look) {
  std::vector<TowerPass> passes;
  const auto patches = [](int64_t cells) { return kPatchesPerCell * cells; };
  const int64_t all = look.plan.tokens();
  if (look.glance_tokens > 0) passes.push_back({patches(look.glance_tokens), 0});
  for (const Saccade& saccade : look.saccades) {
    for (const Area& crop : saccade.crops) passes.push_back({patches(cells_of(crop)), 0});
    if (saccade.crops.empty() && saccade.end > saccade.begin)
      passes.push_back({patches(saccade.end - saccade.begin), patches(saccade.begin)});
  }
  // A plan that no question changed, or what a given one has behind its glance.
  if (look.saccades.empty() && all > look.glance_tokens)
    passes.push_back({patches(all - look.glance_tokens), patches(look.glance_tokens)});
  return passes;
}

// The layers that text goes through when the model says where to look (engine/read.cc).
int layers_to_couple(const ModelConfig& config) {
  if (config.gaze.size > 0) return config.gaze.layer;
  const int layers = config.text.num_layers;
  return std::max(layers / 3 + 1, 2 * layers / 3);
}

bool took_time(const Trace& trace, const std::string& stage) {
  return std::any_of(trace.times.begin(), trace.times.end(),
                     [&](const StageTime& time) { return time.stage == stage; });
}

// Reads the prompt over the glance where the model was asked, then with each look: what was read
// before stays, up to where the text after the image begins.
void add_decoder_passes(const Look& look, bool asked, const ModelConfig& config,
                        RequestShape& request) {
  constexpr int64_t kTextOfCrop = 2;  // a crop is an image of its own: its start and its end
  const int layers = config.text.num_layers;
  int64_t kept = 0;
  if (asked) {
    kept = request.text_before + look.glance_tokens;
    request.read.push_back({kept, 0, layers, false});
    request.read.push_back({request.text_after, kept, layers_to_couple(config), false});
  }
  const size_t rounds = std::max<size_t>(1, look.saccades.size());
  int64_t crops = 0;
  for (size_t round = 0; round < rounds; ++round) {
    int64_t shown = look.plan.tokens();
    if (!look.saccades.empty()) {
      shown = look.saccades[round].end;
      crops += static_cast<int64_t>(look.saccades[round].crops.size());
    }
    const int64_t image_end = request.text_before + shown + kTextOfCrop * crops;
    // Where a further look follows the model, the text is a piece by itself.
    const bool apart = asked && round + 1 < rounds;
    if (apart) {
      request.prefill.push_back({image_end - kept, kept, layers, false});
      request.prefill.push_back({request.text_after, image_end, layers, true});
    } else {
      request.prefill.push_back({image_end - kept + request.text_after, kept, layers, true});
    }
    kept = image_end;
  }
  request.prompt_tokens = kept + request.text_after;
}

}  // namespace

RequestShape shape_of(const Answer& answer, const ModelConfig& config, int64_t file_bytes) {
  const Trace& trace = answer.trace;
  const Look& look = trace.looks.front();
  RequestShape request;
  request.file_bytes = file_bytes;
  request.image = look.image;
  request.canvas = look.canvas;
  request.cells = look.plan.tokens();
  request.tower = tower_passes(look);
  const std::vector<int>& ids = trace.prompt_ids;
  const auto first = std::find(ids.begin(), ids.end(), config.image_token_id);
  const auto last = std::find(ids.rbegin(), ids.rend(), config.image_token_id);
  request.text_before = first - ids.begin();
  request.text_after = last - ids.rbegin();
  request.answer_tokens = trace.usage.answer_tokens;
  add_decoder_passes(look, took_time(trace, "read"), config, request);
  return request;
}

}  // namespace fovea::app
