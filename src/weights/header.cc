// SPDX-License-Identifier: Apache-2.0
#include "weights/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "base/utf8.h"
#include "weights/json_reader.h"

namespace fovea {
namespace {

Error bad(std::string_view tensor, const std::string& what) {
  return bad_input(fmt::format("tensor {} {}", in_quotes(tensor), what));
}

// One tensor as it stands in the text, before anything is believed.
struct Entry {
  std::optional<std::string_view> dtype;
  bool has_shape = false;
  bool has_offsets = false;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
};

void read_integers(JsonReader& reader, size_t most, std::vector<uint64_t>& target) {
  for (bool more = reader.open('['); more; more = reader.next(']')) {
    uint64_t value = 0;
    if (!reader.unsigned_integer(value)) return;
    target.push_back(value);
    if (target.size() > most) reader.fail(fmt::format("a list of more than {} numbers", most));
  }
}

void read_entry(JsonReader& reader, Entry& entry) {
  std::string_view key;
  for (bool more = reader.open('{'); more; more = reader.next('}')) {
    if (!reader.key(key)) return;
    const bool first_time = key == "dtype"          ? !entry.dtype
                            : key == "shape"        ? !entry.has_shape
                            : key == "data_offsets" ? !entry.has_offsets
                                                    : false;
    if (!first_time) {
      reader.fail(fmt::format("the key {} unknown or twice", in_quotes(key)));
      return;
    }
    if (key == "dtype") {
      std::string_view dtype;
      if (reader.string(dtype)) entry.dtype = dtype;
    } else if (key == "shape") {
      entry.has_shape = true;
      read_integers(reader, kMaxRank, entry.shape);
    } else {
      entry.has_offsets = true;
      read_integers(reader, 2, entry.offsets);
    }
  }
}

// The bytes a tensor of this type and shape takes; nothing where that is no int64 or no whole byte.
std::optional<int64_t> tensor_bytes(DType dtype, const std::vector<uint64_t>& shape) {
  int64_t bits = dtype_bits(dtype);
  for (const uint64_t size : shape) {
    if (size > INT64_MAX) return std::nullopt;
    if (__builtin_mul_overflow(bits, static_cast<int64_t>(size), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Status check_entry(const Entry& entry, int64_t data_bytes, HeaderTensor& tensor) {
  if (!entry.dtype) return bad(tensor.name, "has no dtype");
  if (!entry.has_shape) return bad(tensor.name, "has no shape");
  if (entry.offsets.size() != 2) return bad(tensor.name, "has no data_offsets of two numbers");
  const auto dtype = dtype_named(*entry.dtype);
  if (!dtype)
    return bad(tensor.name, fmt::format("has the unknown dtype {}", in_quotes(*entry.dtype)));
  tensor.dtype = *dtype;
  tensor.shape.rank = static_cast<int>(entry.shape.size());
  for (size_t i = 0; i < entry.shape.size(); ++i)
    tensor.shape.size[i] = static_cast<int64_t>(entry.shape[i]);

  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end)
    return bad(tensor.name, fmt::format("begins at byte {} and ends at {}", begin, end));
  if (end > static_cast<uint64_t>(data_bytes))
    return bad(tensor.name,
               fmt::format("ends at byte {} of the data, which has {}; is the file cut off?", end,
                           data_bytes));
  const auto bytes = tensor_bytes(tensor.dtype, entry.shape);
  if (!bytes)
    return bad(tensor.name, fmt::format("has the shape [{}] of {}, which no file can hold",
                                        fmt::join(entry.shape, ", "), dtype_name(tensor.dtype)));
  if (static_cast<uint64_t>(*bytes) != end - begin)
    return bad(tensor.name,
               fmt::format("has {} bytes, but its shape {} of {} takes {}", end - begin,
                           tensor.shape.text(), dtype_name(tensor.dtype), *bytes));
  tensor.begin = static_cast<int64_t>(begin);
  tensor.end = static_cast<int64_t>(end);
  return Done{};
}

// Reads what the text says about each tensor; `tensors` keeps the text's order.
Status read_tensors(JsonReader& reader, int64_t data_bytes, std::vector<HeaderTensor>& tensors) {
  bool metadata = false;
  std::string_view name;
  Entry entry;
  for (bool more = reader.open('{'); more; more = reader.next('}')) {
    if (!reader.key(name)) break;
    if (name == "__metadata__") {
      if (metadata) return bad_input("the header has \"__metadata__\" twice");
      metadata = true;
      reader.skip();
      continue;
    }
    if (tensors.size() == kMaxTensors)
      return bad_input(
          fmt::format("the header names more than {} tensors", with_commas(kMaxTensors)));
    entry.dtype.reset();
    entry.has_shape = entry.has_offsets = false;
    entry.shape.clear();
    entry.offsets.clear();
    read_entry(reader, entry);
    if (!reader.ok()) return bad(name, "is described wrongly: " + reader.fault());
    HeaderTensor& tensor = tensors.emplace_back();
    tensor.name = name;
    if (Status status = check_entry(entry, data_bytes, tensor); !status) return status;
  }
  reader.end();
  if (!reader.ok()) return bad_input("the header is not the JSON it should be: " + reader.fault());
  return Done{};
}

// Most files are written in the order of the names and of the data: sorting is rare.
template <class T, class Before>
void sort_unless_sorted(std::vector<T>& items, const Before& before) {
  if (!std::is_sorted(items.begin(), items.end(), before))
    std::sort(items.begin(), items.end(), before);
}

// Sorts by name.
Status check_names(std::vector<HeaderTensor>& tensors) {
  sort_unless_sorted(tensors,
                     [](const HeaderTensor& a, const HeaderTensor& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      tensors.begin(), tensors.end(),
      [](const HeaderTensor& a, const HeaderTensor& b) { return a.name == b.name; });
  if (twice != tensors.end()) return bad(twice->name, "is there twice");
  return Done{};
}

Status check_cover(const std::vector<HeaderTensor>& tensors, int64_t data_bytes) {
  std::vector<const HeaderTensor*> order;
  order.reserve(tensors.size());
  for (const HeaderTensor& tensor : tensors) order.push_back(&tensor);
  sort_unless_sorted(order, [](const HeaderTensor* a, const HeaderTensor* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  int64_t covered = 0;
  std::string_view previous;
  for (const HeaderTensor* tensor : order) {
    if (tensor->begin < covered)
      return bad(tensor->name,
                 fmt::format("overlaps tensor {}: it begins at byte {} of the data, before {}",
                             in_quotes(previous), tensor->begin, covered));
    if (tensor->begin > covered)
      return bad_input(
          fmt::format("bytes {} to {} of the data, before tensor {}, belong to no tensor", covered,
                      tensor->begin, in_quotes(tensor->name)));
    covered = tensor->end;
    previous = tensor->name;
  }
  if (covered != data_bytes)
    return bad_input(fmt::format("{} bytes follow the last tensor", data_bytes - covered));
  return Done{};
}

}  // namespace

const HeaderTensor* FileHeader::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const HeaderTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Result<FileHeader> parse_header(std::string_view text, int64_t data_bytes) {
  const size_t valid = utf8_valid_bytes(text);
  if (valid != text.size())
    return bad_input(fmt::format("the header is not UTF-8 at byte {}", valid));
  JsonReader reader(text);
  FileHeader header;
  if (Status status = read_tensors(reader, data_bytes, header.tensors); !status)
    return status.error();
  header.unescaped = reader.take_unescaped();
  if (Status status = check_names(header.tensors); !status) return status.error();
  if (Status status = check_cover(header.tensors, data_bytes); !status) return status.error();
  return header;
}

}  // namespace fovea
