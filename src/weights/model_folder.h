// SPDX-License-Identifier: Apache-2.0
// The folder of a checkpoint: which of its files may be read, and small ones read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea {

// A file is taken from the folder itself, by its plain name. A symbolic link is followed when it
// stays in the folder; from a snapshot of the Hugging Face hub's cache
// (.../models--ORG--NAME/snapshots/REVISION) it may also lead to that model's own blobs folder
// (.../models--ORG--NAME/blobs), where the cache keeps the files. Any other link is refused: a
// downloaded folder must not make the program read files that were never part of it.
class ModelFolder {
 public:
  static Result<ModelFolder> open(const std::string& path);

  const std::string& path() const { return given_; }  // as it was given, for messages

  // Whether an entry of this name is there (a broken link is; resolve() then says so).
  bool has(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted; hidden files left out

  // The path to open for a file of the folder.
  Result<std::string> resolve(std::string_view name) const;
  // The file's bytes; more than max_bytes are refused before they are read.
  Result<std::string> read(std::string_view name, int64_t max_bytes) const;

 private:
  std::string given_;
  std::string root_;   // without links
  std::string blobs_;  // of the hub's cache; empty elsewhere
};

}  // namespace fovea
