// SPDX-License-Identifier: Apache-2.0
// One image's patches through the tower on a GPU, from and to the CPU's memory.
#include <algorithm>
#include <optional>

#include "vision/row_order.h"
#include "vision/tower_cuda.h"

namespace fovea {
namespace {

std::vector<bf16> rounded(const Buffer<float>& values) {
  std::vector<bf16> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](float value) { return to_bf16(value); });
  return result;
}

// Rows of patches as they stand in an order.
std::vector<bf16> in_order(std::span<const int32_t> order, const bf16* patches) {
  std::vector<bf16> result;
  result.reserve(order.size() * kPatchValues);
  for (const int32_t row : order) {
    const bf16* from = patches + static_cast<size_t>(row) * kPatchValues;
    result.insert(result.end(), from, from + kPatchValues);
  }
  return result;
}

}  // namespace

std::vector<float> CudaTower::size_biases(const TowerMemory& memory, std::span<const int> levels) {
  std::vector<float> biases;
  biases.reserve(memory.levels.size() + levels.size());
  for (const int level : memory.levels) biases.push_back(size_bias(level));
  for (const int level : levels) biases.push_back(size_bias(level));
  return biases;
}

Result<const float*> CudaTower::upload_biases(std::span<const float> biases) {
  if (auto done = staging_.upload<float>(device_->stream(), biases, work_.key_bias); !done)
    return done.error();
  return work_.key_bias.data();
}

// The memory of an image with room for so many patches more; what is in it stays.
Result<TowerKeyValues*> CudaTower::room_for(TowerMemory& memory, int patches) {
  const auto kept = static_cast<int>(memory.patches());
  auto* present = static_cast<TowerKeyValues*>(memory.on_device.get());
  if (present != nullptr && present->capacity >= kept + patches) return present;
  // A look follows a glance, and may be followed by another.
  auto grown = std::make_shared<TowerKeyValues>();
  grown->capacity = std::max(kept + patches, present == nullptr ? 0 : 3 * present->capacity / 2);
  const auto heads = static_cast<size_t>(config_.depth) * static_cast<size_t>(config_.num_heads);
  const auto row = static_cast<size_t>(config_.head_dim);
  const size_t size = heads * static_cast<size_t>(grown->capacity) * row;
  if (auto made = grown->keys.allocate(size); !made) return made.error();
  if (auto made = grown->values.allocate(size); !made) return made.error();
  if (kept > 0) {
    const size_t to_pitch = static_cast<size_t>(grown->capacity) * row * sizeof(bf16);
    const size_t from_pitch = static_cast<size_t>(present->capacity) * row * sizeof(bf16);
    const size_t bytes = static_cast<size_t>(kept) * row * sizeof(bf16);
    cudaStream_t stream = device_->stream().get();
    cudaMemcpy2DAsync(grown->keys.data(), to_pitch, present->keys.data(), from_pitch, bytes, heads,
                      cudaMemcpyDeviceToDevice, stream);
    cudaMemcpy2DAsync(grown->values.data(), to_pitch, present->values.data(), from_pitch, bytes,
                      heads, cudaMemcpyDeviceToDevice, stream);
  }
  memory.on_device = grown;
  return grown.get();
}

Result<VisualTokens> CudaTower::encode(Threads& /*threads*/, const Patches& patches, Size canvas,
                                       TowerMemory& memory, const EncodeOptions& options) {
  if (options.keep_going && !options.keep_going()) return VisualTokens();
  const CudaAccelerator::Lock lock(*device_);
  Stream& stream = device_->stream();
  const auto into = input(patches.count);
  if (!into) return into.error();
  const size_t values = static_cast<size_t>(patches.count) * kPatchValues;
  std::vector<bf16> made =
      patches.format == PatchFormat::kFloat32 ? rounded(patches.f32) : std::vector<bf16>();
  // Where there are keys already attention is dense: they are in no order.
  const RowOrder rows(memory.patches() == 0 ? options.attention : AttentionSchedule(),
                      patches.places);
  std::optional<TowerOrder> order;
  if (!rows.is_as_given()) {
    order.emplace(options.attention, *rows.rows());
    made =
        in_order(order->rows.order,
                 made.empty() ? reinterpret_cast<const bf16*>(patches.bf16.data()) : made.data());
  }
  const bf16* from =
      made.empty() ? reinterpret_cast<const bf16*>(patches.bf16.data()) : made.data();
  if (auto done = staging_.upload<bf16>(stream, {from, values}, work_.patches); !done)
    return done.error();
  if (auto done = staging_.upload<PatchPlace>(stream, rows.places(), work_.places); !done)
    return done.error();

  std::vector<int> levels;
  levels.reserve(patches.places.size());
  for (const PatchPlace& place : rows.places()) levels.push_back(place.level);
  auto request = request_for(levels, canvas, memory, options);
  if (!request) return request.error();
  if (order) request->order = &*order;
  if (options.size_bias) {
    const auto biases = upload_biases(size_biases(memory, levels));
    if (!biases) return biases.error();
    request->key_bias = *biases;
  }
  auto tokens = run({&*request, 1}, options, 2);
  if (!tokens) return tokens.error();
  if (options.keep) memory.levels.insert(memory.levels.end(), levels.begin(), levels.end());
  return std::move(tokens->front());
}

Result<TowerRequest> CudaTower::request_for(std::span<const int> levels, Size canvas,
                                            TowerMemory& memory, const EncodeOptions& options) {
  TowerRequest request;
  request.count = static_cast<int>(levels.size());
  request.canvas = canvas;
  request.kept = static_cast<int>(memory.patches());
  if (options.keep || request.kept > 0) {
    auto room = room_for(memory, request.count);
    if (!room) return room.error();
    request.memory = *room;
  }
  return request;
}

Result<VisualTokens> CudaTower::download(VisualTokens tokens) {
  const CudaAccelerator::Lock lock(*device_);
  const auto& there = static_cast<const TokensOnDevice&>(*tokens.on_device);
  if (auto enqueued = there.be_enqueued(); !enqueued) return enqueued.error();
  std::vector<bf16> all(there.values.size());
  device_->stream().download(all.data(), there.values.data(), all.size());
  if (auto done = device_->stream().wait(); !done) return done.error();
  VisualTokens here;
  here.count = tokens.count;
  here.width = tokens.width;
  const size_t size = static_cast<size_t>(tokens.count) * static_cast<size_t>(tokens.width);
  for (int part = 0; part <= there.taps; ++part) {
    Buffer<float> values(size);
    for (size_t i = 0; i < size; ++i)
      values[i] = to_float(all[static_cast<size_t>(part) * size + i]);
    if (part == 0)
      here.features = std::move(values);
    else
      here.deepstack.push_back(std::move(values));
  }
  return Result<VisualTokens>(std::move(here));
}

}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_make_tower(
    const std::shared_ptr<fovea::Accelerator>& device, const fovea::VisionConfig& config,
    fovea::TowerWeights& weights, fovea::Result<std::shared_ptr<fovea::DeviceTower>>& result) {
  auto tower = fovea::CudaTower::make(std::static_pointer_cast<fovea::CudaAccelerator>(device),
                                      config, weights);
  if (tower)
    result = std::shared_ptr<fovea::DeviceTower>(std::move(*tower));
  else
    result = tower.error();
}
