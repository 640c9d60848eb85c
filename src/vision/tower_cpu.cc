// SPDX-License-Identifier: Apache-2.0
// The tower on the CPU.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/stop_loops.h"
#include "ops/attention/eight/attention_eight.h"
#include "ops/attention/sparse/level_sum.h"
#include "ops/attention/sparse/random_features.h"
#include "ops/matmul.h"
#include "vision/device_tower.h"
#include "vision/row_order.h"
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
  FOVEA_CHECK(patches.count > 0 && patches.count % kPatchesPerCell == 0);
  FOVEA_CHECK(patches.format == PatchFormat::kFloat32);
  FOVEA_CHECK(patches.places.size() == count && patches.f32.size() == count * kPatchValues);
  FOVEA_CHECK(canvas.width_px >= kCellPx && canvas.height_px >= kCellPx);
  FOVEA_CHECK(memory.blocks.empty() ? memory.levels.empty()
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
      : memory_(memory), keep_(keep), before_(memory.patches()), was_empty_(memory.blocks.empty()) {
    if (!memory.pages) memory.pages = unbounded_pages(config.num_heads, config.head_dim);
    if (!was_empty_) return;
    if (keep)
      memory_.open(config);
    else
      passing_.emplace(memory.pages, config.num_heads, config.head_dim);
  }

  // Work that did not come to its end leaves the memory as it was.
  ~BlockMemory() {
    if (finished_) return;
    for (KeyValues& kv : memory_.blocks) kv.truncate(before_);
    if (was_empty_) memory_.blocks.clear();
  }
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  KeyValues& of(int block) {
    return passing_ ? *passing_ : memory_.blocks[static_cast<size_t>(block)];
  }
  void after(int block) {
    if (!keep_) of(block).truncate(before_);
  }
  void finish(const std::vector<PatchPlace>& places) {
    finished_ = true;
    if (!keep_) return;
    for (const PatchPlace& place : places) memory_.levels.push_back(place.level);
  }

 private:
  TowerMemory& memory_;
  const bool keep_;
  const int64_t before_;  // patches
  const bool was_empty_;
  bool finished_ = false;
  std::optional<KeyValues> passing_;
};

}  // namespace

TowerWork::TowerWork(const VisionConfig& config, int64_t patch_count)
    : patches(patch_count),
      chunk(chunk_of(patch_count)),
      hidden(static_cast<size_t>(patches * config.hidden_size)),
      queries(static_cast<size_t>(patches * config.hidden_size)),
      narrow(static_cast<size_t>(chunk * config.hidden_size)),
      wide(static_cast<size_t>(chunk * widest_row(config))) {}

namespace {

// Where each cell is a block of its own: so are the groups.
int64_t sparse_bytes(const VisionConfig& config, int64_t patches,
                     const AttentionSchedule& attention) {
  if (attention.is_dense()) return 0;
  const int64_t blocks = patches / kPatchesPerCell;
  const auto bytes_of = [](int64_t count, size_t each) {
    return count * static_cast<int64_t>(each);
  };
  const int64_t order =  // RowBlocks, and RowOrder's places
      bytes_of(patches, sizeof(int32_t) + sizeof(GridPlace) + sizeof(PatchPlace)) +
      bytes_of(blocks + 1, 2 * sizeof(int32_t));
  const bool chooses = attention.chooses_blocks();
  const int64_t choices = (chooses ? config.num_heads : 1) * blocks;
  // Of the others every second may be chosen; a stride has a range for each row.
  const int64_t ranges = choices * (attention.has(AttentionKind::kStrided) ? patches : blocks);
  int64_t bytes = order + bytes_of(choices + 1, sizeof(int64_t)) +
                  2 * bytes_of(ranges, sizeof(KeyRange));  // a vector that grows has room to spare
  if (attention.has(AttentionKind::kPerformer))
    bytes += feature_bytes(config.num_heads, config.head_dim, kRandomFeatures);
  if (attention.has(AttentionKind::kEight))
    bytes += attention_eight_bytes(patches, patches, config.hidden_size, config.hidden_size);
  if (attention.has(AttentionKind::kLevelSum))  // which has choices of three kinds
    bytes += level_sum_bytes(patches, blocks, config.hidden_size, config.hidden_size) +
             2 * (bytes_of(choices + 1, sizeof(int64_t)) + 2 * bytes_of(ranges, sizeof(KeyRange)));
  if (chooses ||
      attention.has(AttentionKind::kLinformer))  // mean queries, keys and values with their biases,
                                                 // and the scores of blocks
    bytes +=
        bytes_of(blocks * (3 * int64_t{config.hidden_size} + 1) + choices * blocks, sizeof(float));
  return bytes;
}

}  // namespace

size_t tower_work_bytes(const VisionConfig& config, int64_t patches,
                        const AttentionSchedule& attention) {
  if (patches == 0) return 0;
  const int64_t hidden = config.hidden_size;
  const int64_t state = 2 * patches * hidden;
  const int64_t chunk = chunk_of(patches) * (hidden + widest_row(config));
  const int64_t angles = patches * config.head_dim;
  const int64_t keys_and_values = 2 * patches * hidden;
  return static_cast<size_t>(state + chunk + angles + keys_and_values) * sizeof(float) +
         static_cast<size_t>(sparse_bytes(config, patches, attention));
}

namespace {

class CpuTower : public DeviceTower {
 public:
  CpuTower(const VisionConfig& config, TowerWeights weights)
      : config_(config), weights_(std::move(weights)) {}

  Result<VisualTokens> encode(Threads& threads, const Patches& patches, Size canvas,
                              TowerMemory& memory, const EncodeOptions& options) override;
  Result<VisualTokens> download(VisualTokens tokens) override { return tokens; }
  size_t bytes() const override { return weights_.bytes(); }
  bool has_kind(AttentionKind /*kind*/) const override { return true; }

 private:
  const VisionConfig config_;
  const TowerWeights weights_;
};

Result<VisualTokens> CpuTower::encode(Threads& threads, const Patches& patches, Size canvas,
                                      TowerMemory& memory, const EncodeOptions& options) {
  check_input(config_, patches, canvas, memory);
  StopLoops stop(options.keep_going);
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
  // Where there are keys already attention is dense: they are in no order.
  const AttentionSchedule attention =
      memory.patches() == 0 ? options.attention : AttentionSchedule();
  const RowOrder order(attention, patches.places);
  order.sort(work.hidden.data(), config_.hidden_size);
  const RotaryAngles angles =
      rotary_angles(threads, order.places(), config_.head_dim, config_.rope_theta);
  const Buffer<float> biases =
      options.size_bias ? size_biases(memory, order.places()) : Buffer<float>();

  VisualTokens tokens;
  tokens.count = patches.count / kPatchesPerCell;
  tokens.width = config_.out_hidden_size;
  const auto merged = [&](const TowerMerger& merger) {
    Buffer<float> out(static_cast<size_t>(tokens.count) * tokens.width);
    run_merger(threads, merger, config_, work, out.data());
    order.unsort_cells(out.data(), tokens.width);
    return out;
  };
  BlockMemory blocks(config_, memory, options.keep);
  for (int i = 0; i < config_.depth; ++i) {
    if (!stop.keep_going()) return VisualTokens();
    // x = block(x)
    const BlockInput input{config_, angles, biases.data(), attention.of(i, config_.depth),
                           order.rows()};
    run_block(threads, weights_.blocks[static_cast<size_t>(i)], input, blocks.of(i), work);
    blocks.after(i);
    if (options.on_block && !stop.stopped()) {
      order.unsort_patches(work.hidden.data(), config_.hidden_size);
      options.on_block(i, work.hidden.data());
      order.sort(work.hidden.data(), config_.hidden_size);
    }
    // deepstack = deepstack_merger(x), after the blocks that have a tap
    for (size_t tap = 0; tap < config_.deepstack_taps.size(); ++tap)
      if (config_.deepstack_taps[tap].layer == i)
        tokens.deepstack.push_back(merged(weights_.deepstack[tap]));
  }
  // features = merger(x)
  tokens.features = merged(weights_.merger);
  if (stop.stopped()) return VisualTokens();
  blocks.finish(order.places());
  return tokens;
}

}  // namespace

void make_cpu_tower(const std::shared_ptr<Accelerator>& /*device*/, const VisionConfig& config,
                    TowerWeights& weights, Result<std::shared_ptr<DeviceTower>>& result) {
  result = std::shared_ptr<DeviceTower>(std::make_shared<CpuTower>(config, std::move(weights)));
}

}  // namespace fovea
