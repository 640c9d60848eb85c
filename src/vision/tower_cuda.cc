// SPDX-License-Identifier: Apache-2.0
#include "vision/tower_cuda.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "patches/patches.h"
#include "vision/positions_cuda.h"

namespace fovea {
namespace {

int widest_row(const VisionConfig& config) {
  return std::max({3 * config.hidden_size, config.intermediate_size, config.hidden_size});
}

// What the kernels can take.
Status check_sizes(const VisionConfig& config) {
  const auto refuse = [](const char* name, int value, const char* rule) {
    return bad_input(std::string("a GPU cannot run this model: vision_config.") + name + " is " +
                     std::to_string(value) + ", which is not " + rule + "; use device cpu");
  };
  for (const auto& [name, value] : {std::pair("hidden_size", config.hidden_size),
                                    std::pair("intermediate_size", config.intermediate_size),
                                    std::pair("hidden_size / num_heads", config.head_dim),
                                    std::pair("out_hidden_size", config.out_hidden_size)})
    if (value % 8 != 0) return refuse(name, value, "a multiple of 8");
  if (config.head_dim > 128)
    return refuse("hidden_size / num_heads", config.head_dim, "at most 128");
  if (config.merged_size() > kMaxNormCols)
    return refuse("hidden_size", config.hidden_size, "at most 2048");
  return Done{};
}

NormJob norm_of(const DeviceNorm& norm, const VisionConfig& config, const float* x, int rows,
                bf16* y) {
  NormJob job;
  job.x = x;
  job.rows = rows;
  job.cols = norm.size;
  job.weight = norm.weight.data();
  job.bias = norm.bias.data();
  job.eps = static_cast<float>(config.layer_norm_eps);
  job.y = y;
  return job;
}

}  // namespace

Result<std::shared_ptr<CudaTower>> CudaTower::make(const std::shared_ptr<CudaAccelerator>& device,
                                                   const VisionConfig& config,
                                                   const TowerWeights& weights) {
  if (auto sizes = check_sizes(config); !sizes) return sizes.error();
  const CudaAccelerator::Lock lock(*device);
  std::shared_ptr<CudaTower> tower(new CudaTower(device, config));
  Stream& stream = device->stream();
  WeightUploads uploads(stream);  // while kernels are chosen
  if (auto done = tower->weights_.upload(uploads, config, weights); !done) return done.error();
  if (auto done = tower->matmuls_.open(device->kernels(), 0); !done) return done.error();
  if (auto done = tower->attention_.open(stream.get()); !done) return done.error();
  if (auto done = tower->sparse_.open(); !done) return done.error();
  tower->attention_kernels_ = device->kernels();
  if (auto done = tower->warm_up(kEmulated ? 0 : 512); !done) return done.error();
  if (auto done = uploads.finish(); !done) return done.error();
  return tower;
}

Status CudaTower::warm_up(int rows) {
  if (rows == 0 || device_->kernels() == KernelChoice::kPortable) return Done{};
  if (auto grown = grow(rows); !grown) return grown;
  cudaStream_t stream = device_->stream().get();
  cudaMemsetAsync(work_.narrow.data(), 0, work_.narrow.bytes(), stream);
  const DeviceTowerBlock& block = weights_.blocks.front();
  bf16* narrow = work_.narrow.data();
  bf16* wide = work_.wide.data();
  float* x = work_.hidden.data();
  for (int count = 16; count <= rows; count += count < 256 ? 16 : 64) {
    matmuls_.run(stream, block.qkv.times(narrow, count, MatmulFinish::kStore, wide));
    matmuls_.run(stream, block.proj.times(narrow, count, MatmulFinish::kAdd, x));
    matmuls_.run(stream, block.fc1.times(narrow, count, MatmulFinish::kGeluTanh, wide));
    matmuls_.run(stream, block.fc2.times(wide, count, MatmulFinish::kAdd, x));
    for (const DeviceMerger* merger :
         {&weights_.merger, weights_.deepstack.empty() ? nullptr : &weights_.deepstack.front()})
      if (merger != nullptr) merge(*merger, count, work_.tokens.data());
  }
  return device_->stream().wait();
}

Status CudaTower::grow(int rows) {
  if (rows <= work_.rows) return Done{};
  graphs_.clear();
  work_.rows = 0;
  // In steps, since graphs do not outlive it: passes of several images grow little by little.
  constexpr int kStep = kEmulated ? 4 : 1024;
  rows = (rows + kStep - 1) / kStep * kStep;
  const auto count = static_cast<size_t>(rows);
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  const auto half = static_cast<size_t>(config_.head_dim / 2);
  const size_t taps = 1 + config_.deepstack_taps.size();
  Status made = work_.patches.at_least(count * kPatchValues);
  if (made) made = work_.places.at_least(count);
  if (made) made = work_.cos.at_least(count * half);
  if (made) made = work_.sin.at_least(count * half);
  if (made) made = work_.hidden.zeros_at_least(count * hidden);
  if (made) made = work_.narrow.at_least(count * hidden);
  if (made) made = work_.wide.zeros_at_least(count * static_cast<size_t>(widest_row(config_)));
  if (made)
    made = work_.tokens.zeros_at_least(taps * (count / kPatchesPerCell) *
                                       static_cast<size_t>(config_.out_hidden_size));
  if (made) made = work_.passing.keys.at_least(count * hidden);
  if (made) made = work_.passing.values.at_least(count * hidden);
  if (made) made = work_.row_places.at_least(count);
  if (!made) return made;
  work_.rows = rows;
  return Done{};
}

Result<CudaTower::Input> CudaTower::input(int rows) {
  if (auto grown = grow(rows); !grown) return grown.error();
  return Input{work_.patches.data(), work_.places.data()};
}

AttentionShape CudaTower::shape_of(const Pass& pass) const {
  AttentionShape shape;
  shape.sequences = pass.sequences;
  shape.max_q_count = pass.max_count;
  shape.max_key_count = pass.max_keys;
  shape.heads = shape.kv_heads = config_.num_heads;
  shape.head_dim = config_.head_dim;
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)));
  return shape;
}

// Tells the device what it has to know of a pass: what each sequence sees, and where each row's
// keys and values go.
Status CudaTower::place_rows(std::span<const TowerRequest> requests, Pass& pass) {
  std::vector<AttentionSequence> sequences;
  pass.sequences = static_cast<int>(requests.size());
  pass.kept = std::any_of(requests.begin(), requests.end(),
                          [](const TowerRequest& request) { return request.memory != nullptr; });
  for (const TowerRequest& request : requests) {
    FOVEA_CHECK((request.memory != nullptr) == pass.kept);
    TowerKeyValues& memory = pass.kept ? *request.memory : work_.passing;
    // Sequences without memory share what passes, each its own part of it.
    const int64_t part = pass.kept ? 0 : int64_t{pass.rows} * config_.hidden_size;
    AttentionSequence sequence;
    sequence.q_begin = pass.rows;
    sequence.q_count = request.count;
    sequence.keys = memory.keys.data() + part;
    sequence.values = memory.values.data() + part;
    sequence.capacity = pass.kept ? memory.capacity : request.count;
    sequence.key_count = request.kept + request.count;
    sequence.key_bias = request.key_bias;
    sequences.push_back(sequence);
    pass.rows += request.count;
    pass.max_count = std::max(pass.max_count, request.count);
    pass.max_keys = std::max(pass.max_keys, sequence.key_count);
  }
  if (requests.front().order != nullptr)
    if (auto done = place_order(requests.front(), sequences.front(), pass); !done) return done;
  const bool biased =
      std::any_of(sequences.begin(), sequences.end(),
                  [](const AttentionSequence& one) { return one.key_bias != nullptr; });
  if (!pass.kept && !biased && pass.rows == pass.sequences * pass.max_count) pass.even = sequences;
  pass.fused = !pass.kept && pass.order == nullptr &&
               attention_rotary_takes(shape_of(pass), attention_, attention_kernels_);
  if (pass.fused && pass.is_alone()) return Done{};
  if (!pass.fused)
    if (auto done = place_keys(requests, pass); !done) return done;
  if (work_.sequences.size() < sequences.size()) graphs_.clear();
  return staging_.upload<AttentionSequence>(device_->stream(), sequences, work_.sequences);
}

Status CudaTower::place_keys(std::span<const TowerRequest> requests, const Pass& pass) {
  std::vector<RowPlace> places;
  for (const TowerRequest& request : requests) {
    TowerKeyValues& memory = pass.kept ? *request.memory : work_.passing;
    const int64_t part = pass.kept ? 0 : static_cast<int64_t>(places.size()) * config_.hidden_size;
    const int capacity = pass.kept ? memory.capacity : request.count;
    for (int i = 0; i < request.count; ++i)
      places.push_back(
          {memory.keys.data() + part, memory.values.data() + part, capacity, request.kept + i});
  }
  return staging_.upload<RowPlace>(device_->stream(), places, work_.row_places);
}

// x = patch_embed(patch) + position + level_embedding[level]
void CudaTower::embed(std::span<const TowerRequest> requests, const Pass& pass) {
  cudaStream_t stream = device_->stream().get();
  const bf16* patches = work_.patches.data();
  float* hidden = work_.hidden.data();
  if (pass.frames == 1) {
    matmuls_.run(stream,
                 weights_.still_embed.times(patches, pass.rows, MatmulFinish::kStoreFloat, hidden));
  } else {
    const auto& halves = weights_.patch_embed;
    MatmulJob job = halves[0].times(patches, pass.rows, MatmulFinish::kStoreFloat, hidden);
    job.x_stride = kPatchValues;
    matmuls_.run(stream, job);
    job = halves[1].times(patches + halves[0].k, pass.rows, MatmulFinish::kAdd, hidden);
    job.x_stride = kPatchValues;
    matmuls_.run(stream, job);
  }
  const PlaceTables tables{weights_.positions.data(), config_.position_grid_side,
                           weights_.levels.data(), config_.levels, config_.hidden_size};
  int row = 0;
  for (const TowerRequest& request : requests) {
    add_places_cuda(stream, work_.places.data() + row, request.count, request.canvas, tables,
                    work_.hidden.data() + int64_t{row} * config_.hidden_size);
    row += request.count;
  }
  rotary_angles_cuda(stream, work_.places.data(), pass.rows, weights_.frequencies.data(),
                     config_.head_dim / 4, work_.cos.data(), work_.sin.data());
}

// narrow = softmax(q k^T / sqrt(head_dim) + size bias) v, with q, k = rotate(q), rotate(k)
void CudaTower::attend(const Pass& pass, int index) {
  cudaStream_t stream = device_->stream().get();
  AttentionShape shape = shape_of(pass);
  if (pass.fused)
    return attention_rotary_cuda(stream, shape,
                                 {.qkv = work_.wide.data(),
                                  .cos = work_.cos.data(),
                                  .sin = work_.sin.data(),
                                  .sequences = pass.is_alone() ? nullptr : work_.sequences.data()},
                                 work_.narrow.data(), config_.hidden_size, attention_);
  shape.layer = pass.kept ? index : 0;
  RotaryJob rotary;
  rotary.qkv = work_.wide.data();
  rotary.rows = pass.rows;
  rotary.heads = rotary.kv_heads = config_.num_heads;
  rotary.head_dim = config_.head_dim;
  rotary.cos = work_.cos.data();
  rotary.sin = work_.sin.data();
  rotary.q = work_.wide.data();
  rotary.q_stride = 3 * config_.hidden_size;
  rotary.places = work_.row_places.data();
  rotary.layer = shape.layer;
  rotate_heads_cuda(stream, rotary);
  const SparseSettings kind =
      pass.order == nullptr ? SparseSettings() : pass.order->attention.of(index, config_.depth);
  if (kind.kind != AttentionKind::kDense) return attend_by_kind(pass, shape, kind);
  attention_known_cuda(stream, shape, pass.even, work_.sequences.data(), work_.wide.data(),
                       rotary.q_stride, work_.narrow.data(), config_.hidden_size, attention_,
                       attention_kernels_);
}

// x = x + attention(norm1(x)); x = x + mlp(norm2(x))
void CudaTower::run_block(const Pass& pass, int index) {
  cudaStream_t stream = device_->stream().get();
  const DeviceTowerBlock& block = weights_.blocks[static_cast<size_t>(index)];
  float* x = work_.hidden.data();
  bf16* narrow = work_.narrow.data();
  bf16* wide = work_.wide.data();
  const int rows = pass.rows;
  layer_norm_cuda(stream, norm_of(block.norm1, config_, x, rows, narrow));
  matmuls_.run(stream, block.qkv.times(narrow, rows, MatmulFinish::kStore, wide));
  attend(pass, index);
  matmuls_.run(stream, block.proj.times(narrow, rows, MatmulFinish::kAdd, x));
  layer_norm_cuda(stream, norm_of(block.norm2, config_, x, rows, narrow));
  matmuls_.run(stream, block.fc1.times(narrow, rows, MatmulFinish::kGeluTanh, wide));
  matmuls_.run(stream, block.fc2.times(wide, rows, MatmulFinish::kAdd, x));
}

// merger:           token = fc2(gelu(fc1(concat(norm(x0), norm(x1), norm(x2), norm(x3)))))
// deepstack merger: token = fc2(gelu(fc1(norm(concat(x0, x1, x2, x3)))))
void CudaTower::merge(const DeviceMerger& merger, int rows, bf16* out) {
  cudaStream_t stream = device_->stream().get();
  const int cells = rows / kPatchesPerCell;
  const int norms = rows * config_.hidden_size / merger.norm.size;
  layer_norm_cuda(stream,
                  norm_of(merger.norm, config_, work_.hidden.data(), norms, work_.narrow.data()));
  matmuls_.run(
      stream, merger.fc1.times(work_.narrow.data(), cells, MatmulFinish::kGelu, work_.wide.data()));
  matmuls_.run(stream, merger.fc2.times(work_.wide.data(), cells, MatmulFinish::kStore, out));
}

void CudaTower::run_blocks(const Pass& pass, const EncodeOptions& options) {
  const int64_t tokens = int64_t{pass.rows / kPatchesPerCell} * config_.out_hidden_size;
  for (int i = 0; i < config_.depth; ++i) {
    run_block(pass, i);
    if (options.on_block) show_block(pass, i, options);
    for (size_t tap = 0; tap < config_.deepstack_taps.size(); ++tap)
      if (config_.deepstack_taps[tap].layer == i)
        merge(weights_.deepstack[tap], pass.rows,
              work_.tokens.data() + static_cast<int64_t>(tap + 1) * tokens);
  }
  merge(weights_.merger, pass.rows, work_.tokens.data());
}

void CudaTower::show_block(const Pass& pass, int index, const EncodeOptions& options) {
  std::vector<float> hidden(static_cast<size_t>(pass.rows) * config_.hidden_size);
  device_->stream().download(hidden.data(), work_.hidden.data(), hidden.size());
  if (!device_->stream().wait()) return;
  if (pass.order != nullptr) {
    const auto width = static_cast<size_t>(config_.hidden_size);
    std::vector<float> given(hidden.size());
    for (size_t i = 0; i < pass.order->rows.order.size(); ++i)
      std::copy_n(hidden.data() + i * width, width,
                  given.data() + static_cast<size_t>(pass.order->rows.order[i]) * width);
    hidden = std::move(given);
  }
  options.on_block(index, hidden.data());
}

Result<std::shared_ptr<TokensOnDevice>> CudaTower::tokens_for(int cells) {
  const auto width = static_cast<size_t>(config_.out_hidden_size);
  auto tokens = std::make_shared<TokensOnDevice>();
  tokens->taps = static_cast<int>(config_.deepstack_taps.size());
  const auto parts = static_cast<size_t>(1 + tokens->taps);
  if (auto made = tokens->values.allocate(parts * static_cast<size_t>(cells) * width); !made)
    return made.error();
  return tokens;
}

// Copies the tokens of some cells of a pass.
void CudaTower::take_tokens(int first_cell, int cells, int all_cells, TokensOnDevice& tokens) {
  const auto width = static_cast<size_t>(config_.out_hidden_size);
  const size_t size = static_cast<size_t>(cells) * width;
  cudaMemcpy2DAsync(tokens.values.data(), size * sizeof(bf16),
                    work_.tokens.data() + static_cast<size_t>(first_cell) * width,
                    static_cast<size_t>(all_cells) * width * sizeof(bf16), size * sizeof(bf16),
                    static_cast<size_t>(1 + tokens.taps), cudaMemcpyDeviceToDevice,
                    device_->stream().get());
}

Result<std::vector<VisualTokens>> CudaTower::run(std::span<const TowerRequest> requests,
                                                 const EncodeOptions& options, int frames) {
  Pass pass;
  pass.frames = frames;
  if (auto placed = place_rows(requests, pass); !placed) return placed.error();
  const GraphKey key{pass.rows,         pass.sequences,    pass.max_count,
                     pass.max_keys,     pass.kept ? 1 : 0, pass.even.empty() ? 0 : 1,
                     pass.fused ? 1 : 0};
  embed(requests, pass);
  if (options.on_block || pass.order != nullptr || pass.rows > kMostGraphRows) {
    run_blocks(pass, options);
  } else {
    graphs_.run(device_->stream(), key, [&] { run_blocks(pass, options); });
  }
  std::vector<VisualTokens> all;
  int row = 0;
  for (const TowerRequest& request : requests) {
    TokensOnDevice* into = request.tokens;
    if (into == nullptr) {
      auto tokens = tokens_for(request.count / kPatchesPerCell);
      if (!tokens) return tokens.error();
      into = tokens->get();
      VisualTokens& made = all.emplace_back();
      made.count = request.count / kPatchesPerCell;
      made.width = config_.out_hidden_size;
      made.on_device = std::move(*tokens);
    }
    if (pass.order != nullptr)
      move_rows_cuda(device_->stream().get(), {.from = work_.tokens.data(),
                                               .to = into->values.data(),
                                               .order = work_.cells.data(),
                                               .parts = 1 + into->taps,
                                               .rows = request.count / kPatchesPerCell,
                                               .cols = config_.out_hidden_size});
    else
      take_tokens(row / kPatchesPerCell, request.count / kPatchesPerCell,
                  pass.rows / kPatchesPerCell, *into);
    row += request.count;
  }
  return Result<std::vector<VisualTokens>>(std::move(all));
}

}  // namespace fovea
