// SPDX-License-Identifier: Apache-2.0
#include "profile/count.h"

#include <algorithm>

#include "patches/patches.h"

namespace fovea::app {
namespace {

constexpr int64_t kPixelBytes = 3;
constexpr int64_t kScoreBytes = sizeof(uint16_t);
constexpr int64_t kDetailBytes = sizeof(uint64_t);
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kMeasuredMaps = 2;  // information, salience
constexpr int64_t kWovenMaps = 5;     // coupling, three tensions, relevance

int64_t matrix_bytes(int64_t values, WeightFormat format) {
  if (format == WeightFormat::kF32) return 4 * values;
  if (format == WeightFormat::kBf16) return 2 * values;
  return values + kFloatBytes * values / Matrix::kBlock;
}

// What the operations of a layer hand on, for each row; keys and values are the memory's.
//   norm, qkv, rotary, attention, o + residual, norm, first half of the MLP, second + residual
Work count_layer_values(int64_t hidden, int64_t q, int64_t kv, int64_t inner, int64_t value_bytes) {
  const int64_t between = value_bytes * (2 * hidden + 3 * q + 2 * kv + inner);
  return {.read_bytes = 4 * kFloatBytes * hidden + between,
          .written_bytes = 2 * kFloatBytes * hidden + between};
}

Work times(const Work& work, int64_t count) {
  return {work.read_bytes * count, work.written_bytes * count, work.upload_bytes * count,
          work.flop * count};
}

int64_t pixels_of_level(Size canvas, int level) {
  const auto halved = [&](int side) { return (int64_t{side} + (1 << level) - 1) >> level; };
  return halved(canvas.width_px) * halved(canvas.height_px);
}

int64_t cells_of_all_levels(Size canvas) {
  int64_t cells = 0;
  for (int level = 0; level < level_count(canvas); ++level) cells += grid_at(canvas, level).cells();
  return cells;
}

int64_t pixels_of_all_levels(Size canvas) {
  int64_t pixels = 0;
  for (int level = 0; level < level_count(canvas); ++level)
    pixels += pixels_of_level(canvas, level);
  return pixels;
}

void count_picture(const Storage& storage, const RequestShape& request, PerStage<Work>& stages) {
  const auto at = [&](Stage stage) -> Work& { return stages[static_cast<size_t>(stage)]; };
  const int64_t canvas_bytes = kPixelBytes * request.canvas.pixels();
  at(Stage::kDecode) = {.read_bytes = request.file_bytes,
                        .written_bytes = kPixelBytes * request.image.pixels()};
  if (request.image != request.canvas)
    at(Stage::kCanvas) = {.read_bytes = kPixelBytes * request.image.pixels(),
                          .written_bytes = canvas_bytes};
  if (storage.is_on_device)
    at(Stage::kUpload) = {.written_bytes = canvas_bytes, .upload_bytes = canvas_bytes};
  if (!request.is_dense) {
    const int64_t levels_bytes = kPixelBytes * pixels_of_all_levels(request.canvas);
    const int64_t map_bytes = kScoreBytes * grid_at(request.canvas, 0).cells();
    const int64_t detail_bytes = kDetailBytes * cells_of_all_levels(request.canvas);
    at(Stage::kPyramid) = {.read_bytes = canvas_bytes,
                           .written_bytes = levels_bytes - canvas_bytes};
    at(Stage::kRelevance) = {
        .read_bytes = levels_bytes + (kMeasuredMaps + 1) * map_bytes,
        .written_bytes = detail_bytes + (kMeasuredMaps + kWovenMaps) * map_bytes};
    at(Stage::kPlan) = {.read_bytes = map_bytes + detail_bytes,
                        .written_bytes = static_cast<int64_t>(sizeof(Cell)) * request.cells};
  }
  const int64_t patch_values = int64_t{kPatchValues} / 2 * storage.patch_frames;
  at(Stage::kPatches) = {
      .read_bytes = kPixelBytes * kCellPx * kCellPx * request.cells,
      .written_bytes = kPatchesPerCell * request.cells * patch_values * storage.value_bytes};
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  upload_bytes += other.upload_bytes;
  flop += other.flop;
  return *this;
}

Storage storage_on(bool device, WeightFormat weights) {
  if (!device) return {.weights = weights};
  return {.weights = weights,
          .value_bytes = 2,
          .key_bytes = 2,
          .patch_frames = 1,
          .chunk_tokens = 4096,
          .is_on_device = true};
}

Work count_tower(const VisionConfig& config, const Storage& storage, const TowerPass& pass) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t value = storage.value_bytes;
  const int64_t patch_values = int64_t{kPatchValues} / 2 * storage.patch_frames;
  const int64_t keys = pass.kept + pass.patches;

  const int64_t embed_weights = patch_values * hidden;
  Work work{.read_bytes =
                matrix_bytes(embed_weights, storage.weights) + pass.patches * patch_values * value,
            .written_bytes = pass.patches * hidden * kFloatBytes,
            .flop = 2 * pass.patches * embed_weights};

  const int64_t block_weights = 4 * hidden * hidden + 2 * hidden * inner;
  Work block = times(count_layer_values(hidden, hidden, hidden, inner, value), pass.patches);
  block += {.read_bytes = matrix_bytes(block_weights, storage.weights) +
                          2 * keys * hidden * storage.key_bytes,
            .written_bytes = 2 * pass.patches * hidden * storage.key_bytes,
            .flop = 2 * pass.patches * block_weights + 4 * hidden * pass.patches * keys};
  work += times(block, config.depth);

  const int64_t merged = config.merged_size();
  const int64_t out = config.out_hidden_size;
  const int64_t cells = pass.patches / kPatchesPerCell;
  const int64_t merger_weights = merged * merged + merged * out;
  const Work merger{.read_bytes = matrix_bytes(merger_weights, storage.weights) +
                                  cells * merged * (kFloatBytes + 2 * value),
                    .written_bytes = cells * (2 * merged + out) * value,
                    .flop = 2 * cells * merger_weights};
  work += times(merger, 1 + static_cast<int64_t>(config.deepstack_taps.size()));
  return work;
}

Work count_decoder(const TextConfig& config, const Storage& storage, const DecoderPass& pass) {
  const int64_t hidden = config.hidden_size;
  const int64_t q = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv = int64_t{config.num_kv_heads} * config.head_dim;
  const int64_t inner = config.intermediate_size;
  const int64_t n = pass.tokens;
  int64_t chunks = 0;
  int64_t keys_read = 0;
  for (int64_t end = 0; end < n; ++chunks) {
    end = std::min(n, end + storage.chunk_tokens);
    keys_read += pass.kept + end;
  }

  const int64_t layer_weights = 2 * hidden * (q + kv) + 3 * hidden * inner;
  Work layer = times(count_layer_values(hidden, q, kv, inner, storage.value_bytes), n);
  layer += {.read_bytes = chunks * matrix_bytes(layer_weights, storage.weights) +
                          2 * keys_read * kv * storage.key_bytes,
            .written_bytes = 2 * n * kv * storage.key_bytes,
            .flop = 2 * n * layer_weights + 4 * q * (n * pass.kept + n * (n + 1) / 2)};
  Work work = times(layer, pass.layers);
  work += {.read_bytes = matrix_bytes(n * hidden, storage.weights),
           .written_bytes = n * hidden * kFloatBytes};
  if (pass.logits) {
    const int64_t head = int64_t{config.vocab_size} * hidden;
    work += {.read_bytes = matrix_bytes(head, storage.weights) + hidden * kFloatBytes,
             .written_bytes = config.vocab_size * kFloatBytes,
             .flop = 2 * head};
  }
  return work;
}

Work count_token(const TextConfig& config, const Storage& storage, int64_t prompt_tokens,
                 int64_t index) {
  Work work = count_decoder(config, storage,
                            {.tokens = 1,
                             .kept = prompt_tokens + index - 1,
                             .layers = config.num_layers,
                             .logits = true});
  work.read_bytes += config.vocab_size * kFloatBytes;  // drawing from them
  return work;
}

PerStage<Work> count_request(const ModelConfig& config, const Storage& storage,
                             const RequestShape& request) {
  PerStage<Work> stages{};
  count_picture(storage, request, stages);
  const auto at = [&](Stage stage) -> Work& { return stages[static_cast<size_t>(stage)]; };
  for (const TowerPass& pass : request.tower)
    at(Stage::kTower) += count_tower(config.vision, storage, pass);
  for (const DecoderPass& pass : request.read)
    at(Stage::kRead) += count_decoder(config.text, storage, pass);
  for (const DecoderPass& pass : request.prefill)
    at(Stage::kPrefill) += count_decoder(config.text, storage, pass);
  at(Stage::kSample).read_bytes = config.text.vocab_size * kFloatBytes;
  for (int64_t i = 1; i < request.answer_tokens; ++i)
    at(Stage::kTokens) += count_token(config.text, storage, request.prompt_tokens, i);
  return stages;
}

Work sum_of(const PerStage<Work>& stages) {
  Work sum;
  for (const Work& work : stages) sum += work;
  return sum;
}

RequestShape dense_of(const RequestShape& request, Size canvas, const ModelConfig& config) {
  RequestShape dense = request;
  dense.canvas = canvas;
  dense.is_dense = true;
  dense.cells = grid_at(canvas, 0).cells();
  dense.tower = {{.patches = kPatchesPerCell * dense.cells}};
  dense.read.clear();
  dense.prompt_tokens = request.text_before + dense.cells + request.text_after;
  dense.prefill = {
      {.tokens = dense.prompt_tokens, .layers = config.text.num_layers, .logits = true}};
  return dense;
}

double limit_ms(const Work& work, const DeviceCeilings& ceilings) {
  const auto over = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
  const auto pairs = static_cast<double>(std::min(work.read_bytes, work.written_bytes));
  const auto reads = static_cast<double>(work.read_bytes) - pairs;
  const auto writes = static_cast<double>(work.written_bytes) - pairs;
  const double memory_ms = over(2 * pairs + writes, ceilings.copy_bytes_per_ms) +
                           over(reads, ceilings.read_bytes_per_ms);
  const double upload_ms =
      over(static_cast<double>(work.upload_bytes), ceilings.upload_bytes_per_ms);
  return std::max(
      {memory_ms, upload_ms, over(static_cast<double>(work.flop), ceilings.product_flop_per_ms)});
}

}  // namespace fovea::app
