// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/read_file.h"
#include "language/tokenizer/added_tokens.h"
#include "language/tokenizer/bpe.h"
#include "language/tokenizer/normalize.h"
#include "language/tokenizer/pretokenize.h"
#include "language/tokenizer/read.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{128} << 20;

// The types of a setting that may be a Sequence of others: {"NFC"}, {"Split", "ByteLevel"}, {}.
std::vector<std::string> types_of(const Json& setting, const char* list) {
  if (!setting.is_object()) return {};
  const Json type = setting.value("type", Json());
  if (type != "Sequence") return {type.is_string() ? type.get<std::string>() : "without a type"};
  std::vector<std::string> types;
  const Json items = setting.value(list, Json());
  for (const Json& item : items) {
    const Json name = item.is_object() ? item.value("type", Json()) : Json();
    types.push_back(name.is_string() ? name.get<std::string>() : "without a type");
  }
  return types;
}

// What fovea reads of the settings that hold a list of known types.
Status check_types(const Json& settings, const char* name, const char* list, const char* known) {
  for (const std::string& type : types_of(settings.value(name, Json()), list))
    if (type != known)
      return bad_input(fmt::format("the {} is {}; fovea reads {}", name, type, known));
  return Done{};
}

}  // namespace

struct Tokenizer::Parts {
  Vocabulary vocabulary;
  Bpe bpe;
  Pretokenizer pretokenizer;
  std::vector<AddedToken> added;
  std::unordered_map<int, std::string> added_bytes;
  std::unordered_set<int> special;
  TokenFinder raw_finder;
  TokenFinder normalized_finder;
  bool to_nfc = false;
  mutable std::mutex cache_mutex;
  mutable WordCache cache;  // of whoever holds the mutex; others use one of their own

  Parts(Vocabulary words, Bpe merges, Pretokenizer splitter, std::vector<AddedToken> tokens,
        bool nfc)
      : vocabulary(std::move(words)),
        bpe(std::move(merges)),
        pretokenizer(std::move(splitter)),
        added(std::move(tokens)),
        raw_finder(added, false),
        normalized_finder(added, true),
        to_nfc(nfc) {
    std::unordered_set<std::string> special_contents;
    for (const AddedToken& token : added)
      if (token.special) special_contents.insert(token.content);
    for (const AddedToken& token : added) {
      added_bytes[token.id] = byte_level_bytes(token.normalized_content);
      if (special_contents.count(token.normalized_content) > 0) special.insert(token.id);
    }
  }

  Status encode_piece(std::string_view piece, PatternWork& work, WordCache& words,
                      std::vector<int>& ids) const {
    return pretokenizer.split(
        piece, work, [&](std::string_view word) { bpe.encode(word, vocabulary, words, ids); });
  }
};

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path file =
      fs::is_directory(path, error) ? fs::path(path) / "tokenizer.json" : fs::path(path);
  if (!fs::exists(file, error) && !error)
    return bad_input(
        fmt::format("cannot read {}: there is no such file; a Hugging Face checkpoint "
                    "folder holds it",
                    file.string()));
  const auto json = read_file(file.string(), kMaxFileBytes);
  if (!json) return json.error();
  return parse(*json, file.string());
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name, bool fast) {
  const auto wrong = [&name](const Error& error) {
    return bad_input(fmt::format("{}: {}", name, error.message));
  };
  auto file = read_tokenizer_file(json);
  if (!file) return wrong(file.error());
  const Json& settings = file->settings;
  auto good = check_types(settings, "normalizer", "normalizers", "NFC");
  if (good) good = check_types(settings, "decoder", "decoders", "ByteLevel");
  if (good) good = check_types(settings, "post_processor", "processors", "ByteLevel");
  if (!good) return wrong(good.error());
  if (types_of(settings.value("decoder", Json()), "decoders").empty())
    return wrong(bad_input("has no decoder; fovea reads ByteLevel"));
  const bool to_nfc = !types_of(settings.value("normalizer", Json()), "normalizers").empty();

  auto bpe = Bpe::make(*file);
  if (!bpe) return wrong(bpe.error());
  auto pretokenizer = Pretokenizer::make(settings.value("pre_tokenizer", Json()), fast);
  if (!pretokenizer) return wrong(pretokenizer.error());
  static const Json kNoTokens;
  const auto found = settings.find("added_tokens");  // by reference: there may be many
  auto added =
      read_added_tokens(found == settings.end() ? kNoTokens : *found, file->vocabulary, to_nfc);
  if (!added) return wrong(added.error());
  return Tokenizer(std::make_shared<const Parts>(std::move(file->vocabulary), std::move(*bpe),
                                                 std::move(*pretokenizer), std::move(*added),
                                                 to_nfc));
}

Result<std::vector<int>> Tokenizer::encode(std::string_view text, bool with_special) const {
  std::string replaced;
  if (valid_utf8_prefix(text) < text.size()) text = replaced = replace_invalid_utf8(text);
  return encode(TokenSearch{text, {}, with_special, nullptr});
}

Result<std::vector<int>> Tokenizer::encode(const SourcedText& text,
                                           const std::function<bool()>& keep_going) const {
  FOVEA_CHECK(valid_utf8_prefix(text.bytes) == text.bytes.size());
  FOVEA_CHECK(text.sources.empty() || text.sources.size() == text.bytes.size());
  return encode(TokenSearch{text.bytes, text.sources, true, keep_going});
}

Result<std::vector<int>> Tokenizer::encode(const TokenSearch& search) const {
  const Parts& parts = *parts_;
  const std::unique_lock lock(parts.cache_mutex, std::try_to_lock);
  WordCache own;
  WordCache& words = lock.owns_lock() ? parts.cache : own;
  PatternWork work = parts.pretokenizer.work_on(search.text.size(), search.keep_going);
  std::vector<int> ids;
  ids.reserve(search.text.size() / 4);
  const auto on_token = [&ids](int id) { ids.push_back(id); };
  const auto on_piece = [&](size_t begin, size_t end) {
    TokenSearch piece = search;
    piece.text = search.text.substr(begin, end - begin);
    if (!search.sources.empty()) piece.sources = search.sources.substr(begin, end - begin);
    SourcedText composed;
    if (parts.to_nfc && !is_surely_nfc(piece.text)) {
      composed = nfc(piece.text, piece.sources);
      piece.text = composed.bytes;
      piece.sources = composed.sources;
    }
    return parts.normalized_finder.split(
        piece,
        [&](size_t from, size_t to) {
          return parts.encode_piece(piece.text.substr(from, to - from), work, words, ids);
        },
        on_token);
  };
  const auto good = parts.raw_finder.split(search, on_piece, on_token);
  if (!good) return good.error();
  return ids;
}

std::string_view Tokenizer::bytes(int id) const {
  const auto found = parts_->added_bytes.find(id);
  if (found != parts_->added_bytes.end()) return found->second;
  return parts_->vocabulary.has(id) ? parts_->vocabulary.bytes(id) : std::string_view();
}

bool Tokenizer::is_special(int id) const { return parts_->special.count(id) > 0; }

std::string Tokenizer::decode(std::span<const int> ids, bool skip_special) const {
  std::string text;
  for (const int id : ids)
    if (!skip_special || !is_special(id)) text += bytes(id);
  return valid_utf8_prefix(text) == text.size() ? text : replace_invalid_utf8(text);
}

std::optional<int> Tokenizer::find(std::string_view token) const {
  for (const AddedToken& added : parts_->added)
    if (added.content == token) return added.id;
  const int id = parts_->vocabulary.find(token);
  return id >= 0 ? std::optional<int>(id) : std::nullopt;
}

int Tokenizer::id_end() const {
  int end = parts_->vocabulary.id_end();
  for (const AddedToken& token : parts_->added) end = std::max(end, token.id + 1);
  return end;
}

std::string TextStream::add(int id) {
  if (skip_special_ && tokenizer_.is_special(id)) return "";
  held_ += tokenizer_.bytes(id);
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const size_t good = valid_utf8_prefix(rest);
    text.append(rest.substr(0, good));
    rest.remove_prefix(good);
    if (rest.empty()) break;
    const BrokenUtf8 broken = broken_utf8(rest);
    if (broken.incomplete) break;
    text += "\xEF\xBF\xBD";
    rest.remove_prefix(broken.bytes);
  }
  held_ = std::string(rest);
  return text;
}

std::string TextStream::finish() { return replace_invalid_utf8(std::exchange(held_, {})); }

}  // namespace fovea
