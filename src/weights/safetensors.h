// SPDX-License-Identifier: Apache-2.0
// safetensors files: one, or several with an index; mapped, not copied; checked before use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "fovea/result.h"
#include "weights/header.h"
#include "weights/model_folder.h"
#include "weights/shard_index.h"
#include "weights/tensor.h"

namespace fovea {

// One file. All that the header says holds (parse_header); values are not looked at.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);

  const MappedFile& file() const { return file_; }
  size_t size() const { return header_.tensors.size(); }
  TensorView tensor(size_t i) const { return view(header_.tensors[i]); }  // by name
  std::optional<TensorView> find(std::string_view name) const;

 private:
  SafetensorsFile(MappedFile file, std::unique_ptr<char[]> text, FileHeader header,
                  int64_t data_begin)
      : file_(std::move(file)),
        text_(std::move(text)),
        header_(std::move(header)),
        data_begin_(data_begin) {}
  TensorView view(const HeaderTensor& tensor) const;

  MappedFile file_;
  std::unique_ptr<char[]> text_;  // names lie in it
  FileHeader header_;
  int64_t data_begin_ = 0;
};

// The tensors of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json names. A tensor of a shard that the index does not place there is
// not part of the set. Beside them, fovea.safetensors: what a model of ours has beyond a stock one.
class TensorSet {
 public:
  static Result<TensorSet> open(const ModelFolder& folder);

  std::optional<TensorView> find(std::string_view name) const;
  bool has_extra_file() const { return has_extra_; }
  std::optional<TensorView> find_extra(std::string_view name) const;
  // The file a tensor of this set lies in.
  const MappedFile& file_of(const TensorView& tensor) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }
  Status intact() const;  // of every file

 private:
  static Result<TensorSet> open_stock(const ModelFolder& folder);
  static Result<TensorSet> open_shards(const ModelFolder& folder);

  std::vector<SafetensorsFile> files_;  // the one with extra tensors last
  bool has_extra_ = false;
  std::unique_ptr<std::string> index_text_;  // names of index_ lie in it
  ShardIndex index_;                         // empty for a single file
};

}  // namespace fovea
