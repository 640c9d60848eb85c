// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea {

inline constexpr size_t kMaxShards = 1000;

struct ShardIndex {
  struct Placed {
    std::string_view name;  // of the tensor
    size_t shard = 0;
  };

  std::vector<Placed> tensors;           // sorted by name, each once
  std::vector<std::string_view> shards;  // names of files, not yet believed
  std::deque<std::string> unescaped;     // what is no view into the text

  const Placed* find(std::string_view name) const;
};

// The result's names are views into `text`.
Result<ShardIndex> parse_index(std::string_view text);

}  // namespace fovea
