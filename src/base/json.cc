// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace fovea {
namespace {

using nlohmann::json;

struct Limits {
  size_t depth = kMaxJsonDepth;
  size_t keys = std::numeric_limits<size_t>::max();  // of an object
  size_t bytes = kMaxJsonBytes;                      // of memory, about
};

// What a key, a text, a list or an object takes beside the value that names it.
constexpr size_t kPartBytes = 64;

// Builds a value from the parser's events; false ends the parsing. Neither the parser nor this
// recurses, so that a text of brackets alone costs nothing.
template <class Json>
class Builder {
 public:
  Builder(std::string_view text, const Limits& limits) : text_(text), limits_(limits) {}

  const std::optional<Error>& error() const { return error_; }
  size_t fault_byte() const { return fault_byte_; }
  Json take() { return std::move(root_); }

  bool null() { return place(nullptr) != nullptr; }
  bool boolean(bool value) { return place(value) != nullptr; }
  bool number_integer(int64_t value) { return place(value) != nullptr; }
  bool number_unsigned(uint64_t value) { return place(value) != nullptr; }
  bool number_float(double value, const std::string& /*text*/) { return place(value) != nullptr; }
  bool string(std::string& value) {
    return charge(kPartBytes + value.size()) && place(std::move(value)) != nullptr;
  }
  // NOLINTNEXTLINE(readability-redundant-typename): clang 14 wants it.
  bool binary(typename Json::binary_t& /*value*/) { return fail("it holds binary data"); }
  bool start_object(size_t /*size*/) { return start(Json::object()); }
  bool start_array(size_t /*size*/) { return start(Json::array()); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name) {
    if (open_.back()->contains(name))
      return fail(fmt::format("the key {} is there twice", in_quotes(name)));
    if (open_.back()->size() >= limits_.keys)
      return fail(fmt::format("an object has more than {} keys", limits_.keys));
    if (!charge(kPartBytes + name.size())) return false;
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string& token, const json::exception& fault) {
    constexpr int kNumberOverflow = 406;
    constexpr size_t kShown = 20;  // bytes before the fault
    fault_byte_ = std::min(position, text_.size());
    if (fault.id == kNumberOverflow)
      return fail(fmt::format("the number {} is more than a double holds", in_quotes(token)));
    const size_t begin = fault_byte_ > kShown ? fault_byte_ - kShown : 0;
    return fail(fmt::format("it is not JSON, at byte {}, after {}", position,
                            in_quotes(text_.substr(begin, fault_byte_ - begin))));
  }

 private:
  bool fail(const std::string& what) {
    if (!error_) error_ = bad_input(what);
    return false;
  }

  bool start(Json container) {
    if (open_.size() == limits_.depth)
      return fail(fmt::format("it has more than {} levels", limits_.depth));
    if (!charge(kPartBytes)) return false;
    open_.push_back(place(std::move(container)));
    return open_.back() != nullptr;
  }

  bool end() {
    open_.pop_back();
    return true;
  }

  bool charge(size_t bytes) {
    if (bytes > limits_.bytes - bytes_)
      return fail(fmt::format("its values take more than {} bytes of memory",
                              with_commas(static_cast<int64_t>(limits_.bytes))));
    bytes_ += bytes;
    return true;
  }

  // Where the value stands now; while it is open nothing is added to what holds it. Null where the
  // values take too much.
  Json* place(Json value) {
    if (!charge(sizeof(Json))) return nullptr;
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[std::move(key_)] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  std::string_view text_;
  Limits limits_;
  Json root_;
  std::vector<Json*> open_;  // the containers around the next value
  size_t bytes_ = 0;         // charged so far
  std::string key_;
  std::optional<Error> error_;
  size_t fault_byte_ = 0;
};

template <class Json>
Result<Json> parse(std::string_view text, const Limits& limits, size_t* fault_byte) {
  Builder<Json> builder(text, limits);
  const bool good = Json::sax_parse(text.begin(), text.end(), &builder);
  if (fault_byte != nullptr) *fault_byte = builder.fault_byte();
  if (builder.error()) return *builder.error();
  if (!good) return bad_input("it is not JSON");
  return builder.take();
}

template <class Json>
std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<json> parse_json(std::string_view text, size_t most_bytes, size_t* fault_byte) {
  return parse<json>(text, {.bytes = most_bytes}, fault_byte);
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, size_t most_bytes) {
  return parse<nlohmann::ordered_json>(
      text, {.depth = kMaxOrderedJsonDepth, .keys = kMaxOrderedJsonKeys, .bytes = most_bytes},
      nullptr);
}

std::string json_text(const json& value) { return text_of(value); }
std::string json_text(const nlohmann::ordered_json& value) { return text_of(value); }

}  // namespace fovea
