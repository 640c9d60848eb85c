// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/read.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/json.h"

namespace fovea {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMerges = size_t{1} << 22;
constexpr size_t kMaxSettings = 1'000'000;  // values outside the two lists
// Of their texts and keys: room for 100,000 added tokens of 80 bytes each.
constexpr size_t kMaxSettingBytes = size_t{16} << 20;

// Receives the events of the JSON parser. Under /model/vocab and /model/merges they fill the lists,
// elsewhere they build `settings`.
class Reader {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  const std::optional<Error>& error() const { return error_; }

  bool null() { return value(nullptr, "null"); }
  bool boolean(bool flag) { return value(flag, flag ? "true" : "false"); }
  bool number_integer(int64_t number) {
    if (in_vocab()) return add_token(number);
    return value(number, std::to_string(number));
  }
  bool number_unsigned(uint64_t number) {
    if (in_vocab()) {
      if (number > static_cast<uint64_t>(kMaxTokenId))
        return fail(fmt::format("token '{}' has id {}; ids go from 0 to {}", key_.substr(0, 64),
                                number, kMaxTokenId));
      return add_token(static_cast<int64_t>(number));
    }
    return value(number, std::to_string(number));
  }
  bool number_float(double number, const std::string& text) { return value(number, text); }
  bool string(std::string& text) {
    if (in_merges()) return add_merge_text(text);
    return value(std::move(text), "a text");
  }
  bool binary(Json::binary_t& /*unused*/) { return fail("holds binary data"); }

  bool start_object(size_t /*unused*/) { return start(Json::object(), "an object"); }
  bool start_array(size_t /*unused*/) { return start(Json::array(), "a list"); }
  bool key(std::string& text) {
    key_ = std::move(text);
    return true;
  }
  bool end_object() { return end(); }
  bool end_array() {
    if (list_ == List::kPair) {
      list_ = List::kMerges;
      if (pair_parts_ != 2)
        return fail(
            fmt::format("merge {} has {} parts; it takes two", file_.merges.size(), pair_parts_));
      return push_merge();
    }
    return end();
  }

  bool parse_error(size_t position, const std::string& /*token*/, const Json::exception& /*what*/) {
    return fail(fmt::format("is not valid JSON, at byte {}", position));
  }

 private:
  enum class List { kNone, kVocab, kMerges, kPair };  // kPair: inside one merge written as a list

  bool in_vocab() const { return list_ == List::kVocab; }
  bool in_merges() const { return list_ == List::kMerges || list_ == List::kPair; }

  bool fail(std::string_view message) {
    if (!error_) error_ = bad_input(message);
    return false;
  }

  bool add_token(int64_t id) {
    const auto added = file_.vocabulary.add(key_, id);
    return added ? true : fail(added.error().message);
  }

  // A merge is "left right", or ["left", "right"].
  bool add_merge_text(const std::string& text) {
    if (file_.merges.size() >= kMaxMerges)
      return fail(fmt::format("has more than {} merges", kMaxMerges));
    if (list_ == List::kPair) {
      if (pair_parts_ == 0) merge_.left_size = static_cast<uint32_t>(text.size());
      if (pair_parts_ == 1) merge_.right_size = static_cast<uint32_t>(text.size());
      ++pair_parts_;
      file_.merge_text += text;
      return true;
    }
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      return fail(fmt::format("merge {} is '{}'; it takes two parts with a space between them",
                              file_.merges.size(), text.substr(0, 64)));
    merge_ = {static_cast<uint32_t>(file_.merge_text.size()), static_cast<uint32_t>(space),
              static_cast<uint32_t>(text.size() - space - 1)};
    file_.merge_text.append(text, 0, space).append(text, space + 1);
    return push_merge();
  }

  bool push_merge() {
    // A part without text would join to what is already there, for ever.
    if (merge_.left_size == 0 || merge_.right_size == 0)
      return fail(fmt::format("merge {} has an empty part", file_.merges.size()));
    file_.merges.push_back(merge_);
    return true;
  }

  bool start(Json container, const char* what) {
    if (list_ == List::kMerges && container.is_array()) {
      list_ = List::kPair;
      pair_parts_ = 0;
      merge_.at = static_cast<uint32_t>(file_.merge_text.size());
      return true;
    }
    if (list_ != List::kNone) return value(nullptr, what);
    const bool in_model = open_.size() == 2 && names_.back() == "model";
    if (in_model && key_ == "vocab" && container.is_object()) list_ = List::kVocab;
    if (in_model && key_ == "merges" && container.is_array()) list_ = List::kMerges;
    if (open_.size() >= kMaxJsonDepth)
      return fail(fmt::format("is nested more than {} deep", kMaxJsonDepth));
    names_.push_back(key_);
    if (open_.empty()) {
      file_.settings = std::move(container);
      open_.push_back(&file_.settings);
      return true;
    }
    return place(std::move(container), true);
  }

  bool end() {
    list_ = List::kNone;
    open_.pop_back();
    names_.pop_back();
    return true;
  }

  bool value(Json json, const std::string& what) {
    if (in_vocab())
      return fail(fmt::format("token '{}' has {} for an id; ids go from 0 to {}",
                              key_.substr(0, 64), what, kMaxTokenId));
    if (in_merges())
      return fail(fmt::format("merge {} holds {}; it takes texts", file_.merges.size(), what));
    if (open_.empty()) return fail(fmt::format("is {}; it must be an object", what));
    return place(std::move(json), false);
  }

  bool place(Json json, bool enter) {
    if (++settings_ > kMaxSettings) return fail(fmt::format("has over {} settings", kMaxSettings));
    if (json.is_string()) setting_bytes_ += json.get_ref<const std::string&>().size();
    if (open_.back()->is_object()) setting_bytes_ += key_.size();
    if (setting_bytes_ > kMaxSettingBytes)
      return fail(
          fmt::format("has over {} bytes of added tokens and other settings", kMaxSettingBytes));
    Json& parent = *open_.back();
    Json* placed = nullptr;
    if (parent.is_array()) {
      parent.push_back(std::move(json));
      placed = &parent.back();
    } else {
      if (parent.contains(key_))
        return fail(fmt::format("has the key '{}' twice", key_.substr(0, 64)));
      placed = &(parent[key_] = std::move(json));
    }
    if (enter) open_.push_back(placed);
    return true;
  }

  TokenizerFile& file_;
  std::vector<Json*> open_;         // containers around the next value; a parent does not move
  std::vector<std::string> names_;  // their keys
  std::string key_;
  List list_ = List::kNone;
  TokenizerFile::Merge merge_;
  int pair_parts_ = 0;
  size_t settings_ = 0;
  size_t setting_bytes_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(std::string_view json) {
  TokenizerFile file;
  file.vocabulary.reserve(json.size() / 64);  // a token and its merge take about this many bytes
  Reader reader(file);
  const bool good = Json::sax_parse(json.begin(), json.end(), &reader);
  if (reader.error()) return *reader.error();
  if (!good) return bad_input("is not valid JSON");
  if (!file.settings.is_object()) return bad_input("is a list; it must be an object");
  return file;
}

}  // namespace fovea
