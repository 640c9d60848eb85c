// SPDX-License-Identifier: Apache-2.0
// The tower's weights on their way to a GPU.
#include "patches/patches.h"
#include "vision/positions.h"
#include "vision/tower_cuda.h"

namespace fovea {
namespace {

// Uploads one thing after the other; after the first error nothing more.
class Uploader {
 public:
  explicit Uploader(WeightUploads& uploads) : uploads_(uploads) {}

  void take(const Buffer<float>& from, DeviceMemory<float>& to) {
    if (status_) status_ = upload_values(uploads_, from, to);
  }
  void take(const TowerNorm& from, DeviceNorm& to) {
    to.size = static_cast<int>(from.size());
    take(from.weight, to.weight);
    take(from.bias, to.bias);
  }
  void take(const TowerLinear& from, DeviceLinear& to) {
    const LinearPart part{&from.weight, &from.bias};
    if (status_) status_ = upload_linear(uploads_, {&part, 1}, to);
  }
  void take(const TowerBlock& from, DeviceTowerBlock& to) {
    take(from.norm1, to.norm1);
    take(from.qkv, to.qkv);
    take(from.proj, to.proj);
    take(from.norm2, to.norm2);
    take(from.fc1, to.fc1);
    take(from.fc2, to.fc2);
  }
  void take(const TowerMerger& from, DeviceMerger& to) {
    take(from.norm, to.norm);
    take(from.fc1, to.fc1);
    take(from.fc2, to.fc2);
  }

  const Status& status() const { return status_; }

 private:
  WeightUploads& uploads_;
  Status status_ = Done{};
};

// The columns of one half of the weights.
Status upload_half(WeightUploads& uploads, const TowerLinear& embed, int half, DeviceLinear& to) {
  constexpr int64_t kHalf = kPatchValues / 2;
  const int64_t rows = embed.weight.rows();
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rows * kHalf));
  const auto* from = static_cast<const bf16*>(embed.weight.values());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < kHalf; ++i)
      values.push_back(to_float(from[row * kPatchValues + half * kHalf + i]));
  const Buffer<float> none;
  return upload_linear(uploads, values, static_cast<int>(rows), half == 0 ? embed.bias : none, to);
}

// w[o][channel][pixel] = the sum over both frames of w[o][channel][frame][pixel].
Status fold_frames(WeightUploads& uploads, const TowerLinear& embed, DeviceLinear& still) {
  constexpr int64_t kChannels = 3;
  constexpr int64_t kPixels = kPatchPx * kPatchPx;
  const int64_t rows = embed.weight.rows();
  std::vector<float> values(static_cast<size_t>(rows) * kPatchValues / 2);
  const auto* from = static_cast<const bf16*>(embed.weight.values());
  for (int64_t part = 0; part < rows * kChannels; ++part)
    for (int64_t i = 0; i < kPixels; ++i)
      values[static_cast<size_t>(part * kPixels + i)] =
          to_float(from[2 * part * kPixels + i]) + to_float(from[(2 * part + 1) * kPixels + i]);
  return upload_linear(uploads, values, static_cast<int>(rows), embed.bias, still);
}

size_t bytes_of(const DeviceTowerBlock& block) {
  return block.norm1.bytes() + block.qkv.bytes() + block.proj.bytes() + block.norm2.bytes() +
         block.fc1.bytes() + block.fc2.bytes();
}
size_t bytes_of(const DeviceMerger& merger) {
  return merger.norm.bytes() + merger.fc1.bytes() + merger.fc2.bytes();
}

}  // namespace

Status DeviceTowerWeights::upload(WeightUploads& uploads, const VisionConfig& config,
                                  const TowerWeights& weights) {
  Uploader uploader(uploads);
  uploader.take(weights.positions, positions);
  if (!weights.levels.empty()) uploader.take(weights.levels, levels);
  const std::vector<float> computed = tower_frequencies(config.head_dim, config.rope_theta);
  Buffer<float> values(computed.size());
  std::copy(computed.begin(), computed.end(), values.begin());
  uploader.take(values, frequencies);
  blocks.resize(weights.blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) uploader.take(weights.blocks[i], blocks[i]);
  uploader.take(weights.merger, merger);
  deepstack.resize(weights.deepstack.size());
  for (size_t i = 0; i < deepstack.size(); ++i) uploader.take(weights.deepstack[i], deepstack[i]);
  if (!uploader.status()) return uploader.status();
  for (int half = 0; half < 2; ++half)
    if (auto done = upload_half(uploads, weights.patch_embed, half, patch_embed[half]); !done)
      return done;
  return fold_frames(uploads, weights.patch_embed, still_embed);
}

size_t DeviceTowerWeights::bytes() const {
  size_t bytes = still_embed.bytes() + positions.bytes() + levels.bytes() + frequencies.bytes() +
                 bytes_of(merger);
  for (const DeviceLinear& half : patch_embed) bytes += half.bytes();
  for (const DeviceTowerBlock& block : blocks) bytes += bytes_of(block);
  for (const DeviceMerger& one : deepstack) bytes += bytes_of(one);
  return bytes;
}

}  // namespace fovea
