// SPDX-License-Identifier: Apache-2.0
// What the stages of a request move and compute, counted from sizes: at least that, whoever does
// it. Every operation reads its inputs once and writes its outputs once; products read their
// weights once for each chunk of rows. Biases and norms, less than a thousandth, are left out, and
// so is arithmetic beside products and attention.
#pragma once

#include <cstdint>
#include <vector>

#include "device/profile.h"
#include "fovea/words.h"
#include "ops/matrix.h"
#include "profile/stages.h"
#include "weights/config.h"

namespace fovea::app {

struct Work {
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  int64_t upload_bytes = 0;  // from the host's memory to a device's
  int64_t flop = 0;

  Work& operator+=(const Work& other);
  int64_t bytes() const { return read_bytes + written_bytes; }
};

// How values are kept.
struct Storage {
  WeightFormat weights = WeightFormat::kF32;
  int value_bytes = 4;        // of patches, and between operations; the residual stream is f32
  int key_bytes = 4;          // of a value of keys and values
  int patch_frames = 2;       // that a patch of a still image has
  int chunk_tokens = 512;     // that the decoder reads at once
  bool is_on_device = false;  // pixels go there first
};
Storage storage_on(bool device, WeightFormat weights);

// Patches that went through the tower at once, behind those whose keys and values it kept.
struct TowerPass {
  int64_t patches = 0;
  int64_t kept = 0;
};

// Tokens that went through the decoder, behind those it kept.
struct DecoderPass {
  int64_t tokens = 0;
  int64_t kept = 0;
  int layers = 0;
  bool logits = false;  // after the last
};

// A request with one image, as far as counting needs it.
struct RequestShape {
  int64_t file_bytes = 0;
  Size image;
  Size canvas;
  int64_t cells = 0;
  bool is_dense = false;  // cells of level 0 alone, as other engines have them: no levels, no maps
  std::vector<TowerPass> tower;
  std::vector<DecoderPass> read;     // before the first look
  std::vector<DecoderPass> prefill;  // with looks
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;
  int64_t text_before = 0;  // tokens of the prompt before the image, and after it
  int64_t text_after = 0;
};

Work count_tower(const VisionConfig& config, const Storage& storage, const TowerPass& pass);
Work count_decoder(const TextConfig& config, const Storage& storage, const DecoderPass& pass);
// Reading the index-th token of an answer (from 1) and drawing the next.
Work count_token(const TextConfig& config, const Storage& storage, int64_t prompt_tokens,
                 int64_t index);
PerStage<Work> count_request(const ModelConfig& config, const Storage& storage,
                             const RequestShape& request);
Work sum_of(const PerStage<Work>& stages);

// The same request with every cell of level 0, on the canvas that plan would have.
RequestShape dense_of(const RequestShape& request, Size canvas, const ModelConfig& config);

// What the work takes at a machine's ceilings, in ms: its memory's, the way's to the device, or its
// arithmetic's, whichever is longest. A byte read for each byte written goes as copies do, the rest
// as reads.
double limit_ms(const Work& work, const DeviceCeilings& ceilings);

}  // namespace fovea::app
