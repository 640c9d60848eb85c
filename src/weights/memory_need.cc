// SPDX-License-Identifier: Apache-2.0
#include "weights/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/text.h"
#include "weights/model_tensors.h"

namespace fovea {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

int64_t kept_bytes(const Shape& shape, WeightFormat format) {
  const int64_t values = shape.values();
  if (shape.rank == 1 || format == WeightFormat::kF32) return values * 4;
  if (format == WeightFormat::kBf16) return values * 2;
  return values + values / 8;  // a float of scale for each 32 values, at most
}

// The number at the front of a file such as /sys/fs/cgroup/memory.max; "max" is unknown.
int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : kUnknown;
}

int64_t machine_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string rest; file >> key >> kib && std::getline(file, rest);)
    if (key == "MemAvailable:") return kib * 1024;
  return kUnknown;
}

// Pages of files count as used there, though they are given back when memory is short.
int64_t group_available_bytes() {
  const int64_t most = number_in("/sys/fs/cgroup/memory.max");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (most == kUnknown || used == kUnknown) return kUnknown;
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string key;
  int64_t value = 0;
  int64_t cached = 0;
  while (file >> key >> value)
    if (key == "inactive_file" || key == "active_file") cached += value;
  return std::max<int64_t>(0, most - used + cached);
}

}  // namespace

MemoryNeed memory_need(const ModelConfig& config, WeightFormat format, int64_t context_tokens,
                       int kv_value_bytes) {
  MemoryNeed need;
  need.format = format;
  need.context_tokens = context_tokens;
  for (const auto& list : {vision_tensors(config.vision), text_tensors(config.text)})
    for (const ExpectedTensor& tensor : list)
      need.weights_bytes += kept_bytes(tensor.shape, format);
  for (const ExpectedTensor& tensor : extra_tensors(config))
    need.weights_bytes += kept_bytes(tensor.shape, WeightFormat::kF32);
  if (!config.tie_word_embeddings)
    need.weights_bytes += kept_bytes(head_tensor(config.text).shape, format);
  const TextConfig& text = config.text;
  const int64_t token_bytes =
      int64_t{2} * text.num_layers * text.num_kv_heads * text.head_dim * kv_value_bytes;
  if (__builtin_mul_overflow(context_tokens, token_bytes, &need.kv_bytes) ||
      need.kv_bytes > kUnknown / 2)
    need.kv_bytes = kUnknown / 2;  // more than there is, and total() still fits
  return need;
}

int64_t available_memory_bytes() {
  return std::min(machine_available_bytes(), group_available_bytes());
}

Status check_memory(const MemoryNeed& need, int64_t available_bytes) {
  if (need.total() <= available_bytes) return Done{};
  const char* advice = need.format == WeightFormat::kF32    ? "weights of bf16 or int8"
                       : need.format == WeightFormat::kBf16 ? "weights of int8"
                                                            : "a smaller model";
  return failed(fmt::format(
      "the model needs {} of memory ({} of weights as {}, {} of keys and values for {} tokens, {} "
      "to work in), but {} is free; try {}",
      human_bytes(need.total()), human_bytes(need.weights_bytes), weight_format_name(need.format),
      human_bytes(need.kv_bytes), with_commas(need.context_tokens), human_bytes(need.work_bytes),
      human_bytes(available_bytes), advice));
}

}  // namespace fovea
