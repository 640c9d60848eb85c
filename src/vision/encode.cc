// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "ops/matmul.h"
#include "vision/device_tower.h"
#include "vision/vision.h"

namespace fovea {
namespace {

// So many patches at a time that chunks are about equal and none is much over or under.
int64_t chunk_of(int64_t patches) {
  constexpr int64_t kStep = 16;  // whole cells, and whole rows of a matrix product's kernel
  const int64_t chunks = (patches + TowerWork::kMaxChunk - 1) / TowerWork::kMaxChunk;
  const int64_t rows = (patches + chunks - 1) / chunks;
  return std::min(patches, (rows + kStep - 1) / kStep * kStep);
}

int64_t widest_row(const VisionConfig& config) {
  return std::max(3 * config.hidden_size, config.intermediate_size);
}

void check_input(const VisionConfig& config, const Patches& patches, Size canvas,
                 const TowerMemory& memory) {
  const auto count = static_cast<size_t>(patches.count);
  FOVEA_CHECK(patches.count >= 0 && patches.count % kPatchesPerCell == 0);
  const bool f32 = patches.format == PatchFormat::kFloat32;
  const size_t values = f32 ? patches.f32.size() : patches.bf16.size();
  FOVEA_CHECK(patches.places.size() == count && values == count * kPatchValues);
  FOVEA_CHECK(canvas.width_px >= kCellPx && canvas.height_px >= kCellPx);
  FOVEA_CHECK(memory.blocks.empty() ? memory.levels.empty() || memory.on_device
                                    : memory.blocks.size() == static_cast<size_t>(config.depth));
  for (const KeyValues& kv : memory.blocks)
    FOVEA_CHECK(kv.size() == memory.patches() && kv.kv_heads() == config.num_heads &&
                kv.head_dim() == config.head_dim);
}

// log(4^level): a patch of level l stands for 4^l of level 0. Of the patches in memory, then of
// those being encoded.
Buffer<float> size_biases(const TowerMemory& memory, const std::vector<PatchPlace>& places) {
  Buffer<float> biases(memory.levels.size() + places.size());
  const auto bias = [](int level) { return static_cast<float>(level * std::log(4.0)); };
  float* out = std::transform(memory.levels.begin(), memory.levels.end(), biases.begin(), bias);
  std::transform(places.begin(), places.end(), out,
                 [&bias](const PatchPlace& place) { return bias(place.level); });
  return biases;
}

// The keys and values of the block being worked on: those of the memory, or, where nothing is kept
// and nothing was, one set that all blocks use in turn.
class BlockMemory {
 public:
  BlockMemory(const VisionConfig& config, TowerMemory& memory, bool keep)
      : memory_(memory),
        keep_(keep),
        before_(memory.patches()),
        was_empty_(memory.blocks.empty()),
        passing_(config.num_heads, config.head_dim) {
    if (!keep || !was_empty_) return;
    for (int i = 0; i < config.depth; ++i)
      memory_.blocks.emplace_back(config.num_heads, config.head_dim);
  }

  KeyValues& of(int block) {
    return memory_.blocks.empty() ? passing_ : memory_.blocks[static_cast<size_t>(block)];
  }
  void after(int block) {
    if (!keep_) of(block).truncate(before_);
  }
  void finish(const std::vector<PatchPlace>& places) {
    if (!keep_) return;
    for (const PatchPlace& place : places) memory_.levels.push_back(place.level);
  }
  void undo() {
    for (KeyValues& kv : memory_.blocks) kv.truncate(before_);
    if (was_empty_) memory_.blocks.clear();
  }

 private:
  TowerMemory& memory_;
  const bool keep_;
  const int64_t before_;  // patches
  const bool was_empty_;
  KeyValues passing_;
};

}  // namespace

TowerWork::TowerWork(const VisionConfig& config, int64_t patch_count)
    : patches(patch_count),
      chunk(chunk_of(patch_count)),
      hidden(static_cast<size_t>(patches * config.hidden_size)),
      queries(static_cast<size_t>(patches * config.hidden_size)),
      narrow(static_cast<size_t>(chunk * config.hidden_size)),
      wide(static_cast<size_t>(chunk * widest_row(config))) {}

size_t tower_work_bytes(const VisionConfig& config, int64_t patches) {
  if (patches == 0) return 0;
  const int64_t hidden = config.hidden_size;
  const int64_t state = 2 * patches * hidden;
  const int64_t chunk = chunk_of(patches) * (hidden + widest_row(config));
  const int64_t angles = patches * config.head_dim;
  const int64_t keys_and_values = 2 * patches * hidden;
  return static_cast<size_t>(state + chunk + angles + keys_and_values) * sizeof(float);
}

VisualTokens Tower::encode_on_device(const Patches& patches, Size canvas, TowerMemory& memory,
                                     const EncodeOptions& options) const {
  if (options.keep_going && !options.keep_going()) return {};
  Result<VisualTokens> tokens = device_->encode(patches, canvas, memory, options);
  if (!tokens) return accelerator_->fail(tokens.error()), VisualTokens();
  if (options.keep)
    for (const PatchPlace& place : patches.places) memory.levels.push_back(place.level);
  return *std::move(tokens);
}

VisualTokens Tower::download(VisualTokens tokens) const {
  if (!tokens.on_device) return tokens;
  Result<VisualTokens> here = device_->download(tokens);
  if (!here) return accelerator_->fail(here.error()), VisualTokens();
  return *std::move(here);
}

VisualTokens Tower::encode(Threads& threads, const Patches& patches, Size canvas,
                           TowerMemory& memory, const EncodeOptions& options) const {
  check_input(config_, patches, canvas, memory);
  if (patches.count == 0) return {};
  if (device_) return encode_on_device(patches, canvas, memory, options);
  FOVEA_CHECK(patches.format == PatchFormat::kFloat32);
  TowerWork work(config_, patches.count);
  // x = patch_embed(patch) + position + level_embedding[level]
  matmul(threads, patches.f32.data(), patches.count,
         {.weights = &weights_.patch_embed.weight,
          .bias = weights_.patch_embed.bias.data(),
          .y = work.hidden.data()});
  add_positions(threads, patches.places, canvas, weights_.positions.data(),
                config_.position_grid_side, config_.hidden_size, work.hidden.data());
  add_levels(threads, patches.places, weights_.levels.data(), config_.levels, config_.hidden_size,
             work.hidden.data());
  const RotaryAngles angles =
      rotary_angles(threads, patches.places, config_.head_dim, config_.rope_theta);
  const Buffer<float> biases =
      options.size_bias ? size_biases(memory, patches.places) : Buffer<float>();
  const BlockInput input{config_, angles, biases.data()};

  VisualTokens tokens;
  tokens.count = patches.count / kPatchesPerCell;
  tokens.width = config_.out_hidden_size;
  const auto merged = [&](const TowerMerger& merger) {
    Buffer<float> out(static_cast<size_t>(tokens.count) * tokens.width);
    run_merger(threads, merger, config_, work, out.data());
    return out;
  };
  BlockMemory blocks(config_, memory, options.keep);
  for (int i = 0; i < config_.depth; ++i) {
    if (options.keep_going && !options.keep_going()) return blocks.undo(), VisualTokens();
    // x = block(x)
    run_block(threads, weights_.blocks[static_cast<size_t>(i)], input, blocks.of(i), work);
    blocks.after(i);
    if (options.on_block) options.on_block(i, work.hidden.data());
    // deepstack = deepstack_merger(x), after the blocks that have a tap
    for (size_t tap = 0; tap < config_.deepstack_taps.size(); ++tap)
      if (config_.deepstack_taps[tap].layer == i)
        tokens.deepstack.push_back(merged(weights_.deepstack[tap]));
  }
  blocks.finish(patches.places);
  // features = merger(x)
  tokens.features = merged(weights_.merger);
  return tokens;
}

}  // namespace fovea
