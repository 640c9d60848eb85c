// SPDX-License-Identifier: Apache-2.0
#include "weights/safetensors.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "base/text.h"

namespace fovea {
namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kExtraName = "fovea.safetensors";
constexpr int64_t kLengthBytes = 8;  // the header's length, little-endian, before the header

Error in_file(const std::string& path, const Error& error) {
  return {error.kind, fmt::format("cannot use {}: {}", path, error.message)};
}

// The header's length, known to lie in the file.
Result<int64_t> header_bytes(const MappedFile& file) {
  if (file.size() < kLengthBytes)
    return bad_input(fmt::format("its {} bytes are too few for a safetensors file", file.size()));
  std::array<uint8_t, kLengthBytes> raw{};
  if (Status status = file.read_at(0, std::as_writable_bytes(std::span(raw))); !status)
    return status.error();
  uint64_t length = 0;
  for (size_t i = 0; i < raw.size(); ++i) length |= uint64_t{raw[i]} << (8 * i);
  if (length == 0) return bad_input("the length of its header is 0");
  if (length > static_cast<uint64_t>(kMaxHeaderBytes))
    return bad_input(
        fmt::format("the length of its header is {}; at most {} are read (is it a "
                    "safetensors file?)",
                    length, kMaxHeaderBytes));
  if (static_cast<int64_t>(length) > file.size() - kLengthBytes)
    return bad_input(
        fmt::format("its header of {} bytes does not fit into the file's {}; is the "
                    "file cut off?",
                    length, file.size()));
  return static_cast<int64_t>(length);
}

// What a folder without safetensors holds instead, to say what to do.
std::string instead_of_weights(const ModelFolder& folder) {
  for (const std::string& name : folder.names()) {
    if (name.ends_with(".gguf"))
      return "it holds a GGUF file; give the folder of the original model";
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth"))
      return fmt::format("it holds {}; save the model as safetensors", name);
  }
  return "give the folder of a downloaded model";
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.error();
  const Result<int64_t> length = header_bytes(*file);
  if (!length) return in_file(path, length.error());
  // A copy, so that a file that changes now cannot change what was checked.
  const auto bytes = static_cast<size_t>(*length);
  auto text = std::make_unique<char[]>(bytes);
  if (Status status =
          file->read_at(kLengthBytes, std::as_writable_bytes(std::span(text.get(), bytes)));
      !status)
    return status.error();
  const int64_t data_begin = kLengthBytes + *length;
  Result<FileHeader> header = parse_header({text.get(), bytes}, file->size() - data_begin);
  if (!header) return in_file(path, header.error());
  return SafetensorsFile(*std::move(file), std::move(text), *std::move(header), data_begin);
}

TensorView SafetensorsFile::view(const HeaderTensor& tensor) const {
  return {tensor.name, tensor.dtype, tensor.shape,
          file_.bytes().data() + data_begin_ + tensor.begin,
          static_cast<size_t>(tensor.end - tensor.begin)};
}

std::optional<TensorView> SafetensorsFile::find(std::string_view name) const {
  const HeaderTensor* tensor = header_.find(name);
  if (tensor == nullptr) return std::nullopt;
  return view(*tensor);
}

Result<TensorSet> TensorSet::open(const ModelFolder& folder) {
  Result<TensorSet> set = open_stock(folder);
  if (!set || !folder.has(kExtraName)) return set;
  const Result<std::string> path = folder.resolve(kExtraName);
  if (!path) return path.error();
  Result<SafetensorsFile> file = SafetensorsFile::open(*path);
  if (!file) return file.error();
  set->files_.push_back(*std::move(file));
  set->has_extra_ = true;
  return set;
}

Result<TensorSet> TensorSet::open_stock(const ModelFolder& folder) {
  if (!folder.has(kSingleName) && folder.has(kIndexName)) return open_shards(folder);
  if (!folder.has(kSingleName))
    return bad_input(fmt::format("there is neither {} nor {} in {}: {}", kSingleName, kIndexName,
                                 in_quotes(folder.path()), instead_of_weights(folder)));
  const Result<std::string> path = folder.resolve(kSingleName);
  if (!path) return path.error();
  Result<SafetensorsFile> file = SafetensorsFile::open(*path);
  if (!file) return file.error();
  TensorSet set;
  set.files_.push_back(*std::move(file));
  return set;
}

Result<TensorSet> TensorSet::open_shards(const ModelFolder& folder) {
  Result<std::string> text = folder.read(kIndexName, kMaxHeaderBytes);
  if (!text) return text.error();
  TensorSet set;
  set.index_text_ = std::make_unique<std::string>(*std::move(text));
  Result<ShardIndex> index = parse_index(*set.index_text_);
  if (!index)
    return bad_input(fmt::format("cannot use {} of {}: {}", kIndexName, in_quotes(folder.path()),
                                 index.error().message));
  set.index_ = *std::move(index);
  for (const std::string_view shard : set.index_.shards) {
    const Result<std::string> path = folder.resolve(shard);
    if (!path) return bad_input(fmt::format("{} (named by {})", path.error().message, kIndexName));
    Result<SafetensorsFile> file = SafetensorsFile::open(*path);
    if (!file) return file.error();
    set.files_.push_back(*std::move(file));
  }
  for (const ShardIndex::Placed& placed : set.index_.tensors)
    if (!set.files_[placed.shard].find(placed.name))
      return bad_input(fmt::format("{} of {} places tensor {} in {}, which does not have it",
                                   kIndexName, in_quotes(folder.path()), in_quotes(placed.name),
                                   set.index_.shards[placed.shard]));
  return set;
}

std::optional<TensorView> TensorSet::find(std::string_view name) const {
  if (index_text_ == nullptr) return files_.front().find(name);
  const ShardIndex::Placed* placed = index_.find(name);
  if (placed == nullptr) return std::nullopt;
  return files_[placed->shard].find(name);
}

std::optional<TensorView> TensorSet::find_extra(std::string_view name) const {
  if (!has_extra_) return std::nullopt;
  return files_.back().find(name);
}

const MappedFile& TensorSet::file_of(const TensorView& tensor) const {
  for (const SafetensorsFile& file : files_) {
    const auto bytes = file.file().bytes();
    const auto part = tensor.as_bytes();
    if (part.data() >= bytes.data() && part.data() + part.size() <= bytes.data() + bytes.size())
      return file.file();
  }
  FOVEA_CHECK(false && "the tensor is of another set");
  return files_.front().file();
}

Status TensorSet::intact() const {
  for (const SafetensorsFile& file : files_)
    if (Status status = file.file().intact(); !status) return status;
  return Done{};
}

}  // namespace fovea
