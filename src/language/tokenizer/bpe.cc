// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <queue>

#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

// Below this many symbols a scan for the lowest rank beats a heap.
constexpr size_t kShortSymbols = 48;

uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15U;
  return value ^ value >> 32;
}

uint64_t hash_of(std::string_view word) {
  uint64_t hash = word.size();
  size_t i = 0;
  uint64_t part = 0;
  for (; i + 8 <= word.size(); i += 8) {
    std::memcpy(&part, word.data() + i, 8);
    hash = mix(hash ^ part);
  }
  part = 0;
  std::memcpy(&part, word.data() + i, word.size() - i);
  return mix(hash ^ part);
}

// A word in the characters that the file writes it with.
std::string byte_level_text(std::string_view word) {
  std::string text;
  for (const char c : word) append_utf8(text, byte_level_char(static_cast<uint8_t>(c)));
  return text;
}

Status check_model(const nlohmann::json& model) {
  const auto setting = [&model](const char* name) { return model.value(name, nlohmann::json()); };
  if (const auto type = setting("type"); !type.is_null() && type != "BPE")
    return bad_input(fmt::format("the model's type is {}; fovea reads BPE", type.dump()));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto affix = setting(name); !affix.is_null() && affix != nlohmann::json(""))
      return bad_input(fmt::format(
          "the model's {} is {}; fovea reads byte-level BPE, which has none", name, affix.dump()));
  if (setting("byte_fallback") == true)
    return bad_input("the model uses byte_fallback; fovea reads byte-level BPE, which does not");
  if (const auto dropout = setting("dropout"); !dropout.is_null() && dropout != 0)
    return bad_input(
        fmt::format("the model's dropout is {}; take it out to get the same ids each "
                    "time",
                    dropout.dump()));
  return Done{};
}

}  // namespace

void WordCache::Free::operator()(Entry* entries) const { std::free(entries); }  // NOLINT

WordCache::Entry* WordCache::place(std::string_view word) {
  if (word.size() > Entry::kMaxBytes) return nullptr;
  if (!entries_) {
    // Zeroed pages cost nothing until they are written, unlike value-initialised entries.
    entries_.reset(static_cast<Entry*>(std::calloc(kEntries, sizeof(Entry))));  // NOLINT
    if (!entries_) throw std::bad_alloc();
  }
  return &entries_[hash_of(word) >> (64 - std::countr_zero(kEntries))];
}

Result<Bpe> Bpe::make(const TokenizerFile& file) {
  const nlohmann::json model = file.settings.value("model", nlohmann::json());
  const auto setting = [&model](const char* name) { return model.value(name, nlohmann::json()); };
  if (!model.is_object() || !setting("vocab").is_object() || !setting("merges").is_array())
    return bad_input("has no model with a vocab and merges");
  if (auto good = check_model(model); !good) return good.error();

  Bpe bpe;
  const Vocabulary& vocabulary = file.vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    bpe.byte_ids_[static_cast<size_t>(byte)] = vocabulary.find(byte_level_text({&c, 1}));
  }
  if (std::all_of(bpe.byte_ids_.begin(), bpe.byte_ids_.end(), [](int id) { return id < 0; }))
    return bad_input("the vocabulary holds none of the 256 bytes; fovea reads byte-level BPE");
  if (const auto unknown = model.value("unk_token", nlohmann::json()); unknown.is_string()) {
    bpe.unknown_id_ = vocabulary.find(unknown.get_ref<const std::string&>());
    if (bpe.unknown_id_ < 0)
      return bad_input(fmt::format("unk_token {} is not in the vocabulary", unknown.dump()));
  }
  bpe.fuse_unknown_ = model.value("fuse_unk", nlohmann::json()) == true;
  bpe.ignore_merges_ = model.value("ignore_merges", nlohmann::json()) == true;

  bpe.merges_.resize(std::bit_ceil(std::max<size_t>(16, file.merges.size() * 2)));
  for (size_t rank = 0; rank < file.merges.size(); ++rank) {
    const std::string_view left = file.left(file.merges[rank]);
    const std::string_view right = file.right(file.merges[rank]);
    std::string joined(left);
    joined += right;
    for (const std::string_view part : {left, right, std::string_view(joined)})
      if (vocabulary.find(part) < 0)
        return bad_input(fmt::format("merge {} of '{}' and '{}': '{}' is not in the vocabulary",
                                     rank, left.substr(0, 64), right.substr(0, 64),
                                     part.substr(0, 64)));
    const uint64_t pair = pair_of(vocabulary.find(left), vocabulary.find(right));
    bpe.merges_[bpe.slot_of(pair)] = {pair, static_cast<uint32_t>(rank), vocabulary.find(joined)};
  }
  return bpe;
}

size_t Bpe::slot_of(uint64_t pair) const {
  const size_t mask = merges_.size() - 1;
  size_t slot = mix(mix(pair)) & mask;
  while (merges_[slot].pair != pair && merges_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

void Bpe::encode(std::string_view word, const Vocabulary& vocabulary, WordCache& cache,
                 std::vector<int>& ids) const {
  WordCache::Entry* const entry = cache.place(word);
  if (entry != nullptr && entry->bytes == word.size() &&
      std::memcmp(entry->word, word.data(), word.size()) == 0) {
    ids.insert(ids.end(), entry->id, entry->id + entry->ids);
    return;
  }
  const size_t before = ids.size();
  encode_new(word, vocabulary, ids);
  const size_t count = ids.size() - before;
  if (entry == nullptr || word.empty() || count > WordCache::Entry::kMaxIds) return;
  entry->bytes = static_cast<uint8_t>(word.size());
  entry->ids = static_cast<uint8_t>(count);
  std::memcpy(entry->word, word.data(), word.size());
  std::copy(ids.begin() + static_cast<ptrdiff_t>(before), ids.end(), entry->id);
}

void Bpe::encode_new(std::string_view word, const Vocabulary& vocabulary,
                     std::vector<int>& ids) const {
  if (ignore_merges_) {
    if (const int id = vocabulary.find(byte_level_text(word)); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols_of(word, symbols);
  symbols.size() <= kShortSymbols ? merge_short(symbols) : merge_long(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void Bpe::symbols_of(std::string_view word, std::vector<int32_t>& symbols) const {
  symbols.reserve(word.size());
  bool in_unknown = false;
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      symbols.push_back(id);
    } else if (unknown_id_ >= 0 && !(in_unknown && fuse_unknown_)) {
      symbols.push_back(unknown_id_);
    }
    in_unknown = id < 0;
  }
}

void Bpe::merge_short(std::vector<int32_t>& symbols) const {
  const Merge* merge[kShortSymbols];  // of each symbol with the next one
  size_t count = symbols.size();
  const auto look = [&](size_t i) { merge[i] = &find(symbols[i], symbols[i + 1]); };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (merge[i]->rank < merge[best]->rank) best = i;
    if (merge[best]->rank == kNoRank) break;
    symbols[best] = merge[best]->id;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      merge[i - 1] = merge[i];
    }
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  symbols.resize(count);
}

void Bpe::merge_long(std::vector<int32_t>& symbols) const {
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    uint64_t pair;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  constexpr int32_t kGone = -1;
  const auto end = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> next(end);
  std::vector<uint32_t> previous(end);
  for (uint32_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? end : i - 1;
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto look = [&](uint32_t left) {
    if (left == end || next[left] == end) return;
    const Merge& merge = find(symbols[left], symbols[next[left]]);
    if (merge.rank != kNoRank) queue.push({merge.rank, left, merge.pair});
  };
  for (uint32_t i = 0; i < end; ++i) look(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const uint32_t left = best.at;
    const uint32_t right = next[left];
    // The pair may have changed since it was queued.
    if (symbols[left] == kGone || right == end ||
        pair_of(symbols[left], symbols[right]) != best.pair)
      continue;
    symbols[left] = find(symbols[left], symbols[right]).id;
    symbols[right] = kGone;
    next[left] = next[right];
    if (next[left] != end) previous[next[left]] = left;
    look(previous[left]);
    look(left);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kGone), symbols.end());
}

std::vector<int> Bpe::encode_reference(std::string_view word, const Vocabulary& vocabulary) const {
  if (ignore_merges_ && vocabulary.find(byte_level_text(word)) >= 0)
    return {vocabulary.find(byte_level_text(word))};
  std::vector<int32_t> symbols;
  symbols_of(word, symbols);
  while (true) {
    size_t best = symbols.size();
    uint32_t best_rank = kNoRank;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t rank = find(symbols[i], symbols[i + 1]).rank;
      if (rank < best_rank) {
        best = i;
        best_rank = rank;
      }
    }
    if (best_rank == kNoRank) return {symbols.begin(), symbols.end()};
    symbols[best] = find(symbols[best], symbols[best + 1]).id;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

}  // namespace fovea
