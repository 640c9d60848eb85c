// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "patches/patches.h"
#include "vision/device_tower.h"
#include "vision/vision.h"

namespace fovea {
namespace {

// Asks a source for tensors; after the first error it asks for nothing more. Shapes were checked
// when the checkpoint was opened.
class Reader {
 public:
  explicit Reader(const TensorSource& source) : source_(source) {}

  Matrix matrix(const std::string& name, int64_t rows, int64_t cols) {
    Result<Matrix> matrix = error_ ? *error_ : source_.matrix(name);
    if (!matrix) return fail(matrix.error()), Matrix();
    FOVEA_CHECK(matrix->rows() == rows && matrix->cols() == cols);
    return *std::move(matrix);
  }
  Buffer<float> values(const std::string& name, int64_t count) {
    Result<Buffer<float>> values = error_ ? *error_ : source_.values(name);
    if (!values) return fail(values.error()), Buffer<float>();
    FOVEA_CHECK(static_cast<int64_t>(values->size()) == count);
    return *std::move(values);
  }
  TowerLinear linear(const std::string& name, int64_t out, int64_t in) {
    return {matrix(name + ".weight", out, in), values(name + ".bias", out)};
  }
  TowerNorm norm(const std::string& name, int64_t size) {
    return {values(name + ".weight", size), values(name + ".bias", size)};
  }
  TowerBlock block(int index, const VisionConfig& config) {
    const std::string name = "blocks." + std::to_string(index);
    const int64_t hidden = config.hidden_size;
    return {norm(name + ".norm1", hidden),
            linear(name + ".attn.qkv", 3 * hidden, hidden),
            linear(name + ".attn.proj", hidden, hidden),
            norm(name + ".norm2", hidden),
            linear(name + ".mlp.linear_fc1", config.intermediate_size, hidden),
            linear(name + ".mlp.linear_fc2", hidden, config.intermediate_size)};
  }
  TowerMerger merger(const std::string& name, const VisionConfig& config, int64_t norm_size) {
    const int64_t merged = config.merged_size();
    return {norm(name + ".norm", norm_size), linear(name + ".linear_fc1", merged, merged),
            linear(name + ".linear_fc2", config.out_hidden_size, merged)};
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  void fail(const Error& error) {
    if (!error_) error_ = error;
  }

  const TensorSource& source_;
  std::optional<Error> error_;
};

// With a first row of zeros, level 0 alone is the stock model.
Status check_levels(const Buffer<float>& levels, int64_t width) {
  if (levels.empty()) return Done{};
  for (int64_t i = 0; i < width; ++i)
    if (levels[static_cast<size_t>(i)] != 0)
      return bad_input(fmt::format(
          "tensor \"level_embedding\": value {} of row 0 is {}; the row of level 0 must be zero", i,
          levels[static_cast<size_t>(i)]));
  return Done{};
}

}  // namespace

Result<TowerWeights> take_tower_weights(const VisionConfig& config, const TensorSource& source) {
  Reader reader(source);
  TowerWeights weights;
  weights.patch_embed = reader.linear("patch_embed.proj", config.hidden_size, kPatchValues);
  weights.positions = reader.values("pos_embed.weight",
                                    int64_t{config.num_position_embeddings} * config.hidden_size);
  if (config.levels > 0)
    weights.levels = reader.values("level_embedding", int64_t{config.levels} * config.hidden_size);
  for (int i = 0; i < config.depth; ++i) weights.blocks.push_back(reader.block(i, config));
  weights.merger = reader.merger("merger", config, config.hidden_size);
  // Mergers whose layer the tower does not have are never used.
  for (const DeepstackTap& tap : config.deepstack_taps)
    weights.deepstack.push_back(reader.merger("deepstack_merger_list." + std::to_string(tap.merger),
                                              config, config.merged_size()));
  if (reader.error()) return *reader.error();
  if (Status status = check_levels(weights.levels, config.hidden_size); !status)
    return status.error();
  return weights;
}

Result<Tower> Tower::build(const VisionConfig& config, const TensorSource& source,
                           const std::shared_ptr<Accelerator>& device) {
  Result<TowerWeights> weights = take_tower_weights(config, source);
  if (!weights) return weights.error();
  const MakeTower make = device->maker<MakeTower>(kMakeTowerSymbol, make_cpu_tower);
  Result<std::shared_ptr<DeviceTower>> made = failed("");
  make(device, config, *weights, made);
  if (!made) return made.error();
  Tower tower;
  tower.config_ = config;
  tower.device_ = std::move(*made);
  return tower;
}

Result<VisualTokens> Tower::encode(Threads& threads, const Patches& patches, Size canvas,
                                   TowerMemory& memory, const EncodeOptions& options) const {
  if (patches.count == 0) return VisualTokens();
  FOVEA_CHECK(has_kinds(options.attention));
  return device_->encode(threads, patches, canvas, memory, options);
}

Result<VisualTokens> Tower::download(VisualTokens tokens) const {
  return device_->download(std::move(tokens));
}

size_t Tower::bytes() const { return device_->bytes(); }
bool Tower::has_kinds(const AttentionSchedule& attention) const {
  const auto parts = attention.parts();
  return std::all_of(parts.begin(), parts.end(),
                     [&](const SparseSettings& part) { return device_->has_kind(part.kind); });
}

size_t TowerWeights::bytes() const {
  size_t bytes = patch_embed.bytes() + merger.bytes();
  bytes += (positions.size() + levels.size()) * sizeof(float);
  for (const TowerBlock& block : blocks) bytes += block.bytes();
  for (const TowerMerger& one : deepstack) bytes += one.bytes();
  return bytes;
}

void TowerMemory::open(const VisionConfig& config) {
  if (!pages) pages = unbounded_pages(config.num_heads, config.head_dim);
  if (!blocks.empty()) return;
  std::vector<KeyValues> all;  // or none, where memory runs out on the way
  all.reserve(static_cast<size_t>(config.depth));
  for (int i = 0; i < config.depth; ++i) all.emplace_back(pages, config.num_heads, config.head_dim);
  blocks = std::move(all);
}

size_t VisualTokens::bytes() const {
  size_t bytes = on_device ? on_device->bytes() : features.size() * sizeof(float);
  for (const Buffer<float>& tap : deepstack) bytes += tap.size() * sizeof(float);
  return bytes;
}

size_t TowerMemory::bytes() const {
  size_t bytes = levels.size() * sizeof(int) + (on_device ? on_device->bytes() : 0);
  for (const KeyValues& kv : blocks) bytes += kv.bytes();
  return bytes;
}

void TowerMemory::truncate(int64_t patches) {
  FOVEA_CHECK(patches >= 0 && patches <= this->patches());
  for (KeyValues& kv : blocks) kv.truncate(patches);
  levels.resize(static_cast<size_t>(patches));
}

}  // namespace fovea
