// SPDX-License-Identifier: Apache-2.0
#include "weights/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "base/utf8.h"
#include "weights/header.h"
#include "weights/json_reader.h"

namespace fovea {
namespace {

Status read_map(JsonReader& reader, ShardIndex& index) {
  std::map<std::string_view, size_t> known;
  std::string_view name;
  std::string_view shard;
  for (bool more = reader.open('{'); more; more = reader.next('}')) {
    if (!reader.key(name) || !reader.string(shard)) break;
    const auto [entry, is_new] = known.try_emplace(shard, index.shards.size());
    if (is_new) index.shards.push_back(shard);
    index.tensors.push_back({name, entry->second});
    if (index.tensors.size() > kMaxTensors)
      return bad_input(fmt::format("it names more than {} tensors", with_commas(kMaxTensors)));
    if (index.shards.size() > kMaxShards)
      return bad_input(fmt::format("it names more than {} files", with_commas(kMaxShards)));
  }
  return Done{};
}

}  // namespace

const ShardIndex::Placed* ShardIndex::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const Placed& placed, std::string_view wanted) { return placed.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Result<ShardIndex> parse_index(std::string_view text) {
  if (const size_t valid = utf8_valid_bytes(text); valid != text.size())
    return bad_input(fmt::format("it is not UTF-8 at byte {}", valid));
  JsonReader reader(text);
  ShardIndex index;
  std::string_view key;
  bool has_map = false;
  for (bool more = reader.open('{'); more; more = reader.next('}')) {
    if (!reader.key(key)) break;
    if (key != "weight_map") {
      reader.skip();
      continue;
    }
    if (has_map) return bad_input("it has \"weight_map\" twice");
    has_map = true;
    if (Status status = read_map(reader, index); !status) return status.error();
  }
  reader.end();
  if (!reader.ok()) return bad_input("it is not the JSON it should be: " + reader.fault());
  if (index.tensors.empty()) return bad_input("its \"weight_map\" is missing or empty");
  index.unescaped = reader.take_unescaped();

  const auto before = [](const auto& a, const auto& b) { return a.name < b.name; };
  const auto same = [](const auto& a, const auto& b) { return a.name == b.name; };
  std::sort(index.tensors.begin(), index.tensors.end(), before);
  const auto twice = std::adjacent_find(index.tensors.begin(), index.tensors.end(), same);
  if (twice != index.tensors.end())
    return bad_input(fmt::format("tensor {} is there twice", in_quotes(twice->name)));
  return index;
}

}  // namespace fovea
