// SPDX-License-Identifier: Apache-2.0
#include "kept/model_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "base/list_folder.h"
#include "base/read_file.h"
#include "base/text.h"
#include "kept/hash_text.h"
#include "weights/model_folder.h"

namespace fovea::kept {
namespace {

// A file's size and parts of it from all over: another model of the same sizes differs in them.
Status add_file(const std::string& name, const std::string& path, uint64_t& hash) {
  constexpr int64_t kParts = 64;
  constexpr int64_t kPartBytes = 4096;
  const auto file = InputFile::open(path, Takes::kFiles);
  if (!file) return file.error();
  hash = hash_text(fmt::format("{} {} ", name, file->size()), hash);
  std::string part(static_cast<size_t>(kPartBytes), '\0');
  for (int64_t i = 0; i < kParts; ++i) {
    const int64_t at = std::max<int64_t>(0, file->size() - kPartBytes) * i / (kParts - 1);
    const auto got = file->read_at(at, std::as_writable_bytes(std::span(part)));
    if (!got) return got.error();
    hash = hash_text({part.data(), *got}, hash);
  }
  return Done{};
}

}  // namespace

Result<uint64_t> model_fingerprint(const std::string& path) {
  const auto folder = ModelFolder::open(path);
  if (!folder) return folder.error();
  uint64_t hash = hash_text("");
  std::error_code error;
  std::vector<std::string> names = list_folder(path, error);
  if (error)  // what was listed so far would be the fingerprint of another model
    return error_of_reading(error.value(), fmt::format("cannot read the folder of the model {}: {}",
                                                       in_quotes(path), error.message()));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    if (!name.ends_with(".safetensors") && !name.ends_with(".json")) continue;
    const auto file = folder->resolve(name);
    if (!file) return file.error();
    if (auto added = add_file(name, *file, hash); !added)
      return Error(added.error().kind,
                   fmt::format("cannot read {} of the model {}: {}", in_quotes(name),
                               in_quotes(path), added.error().message));
  }
  return hash;
}

std::string model_name(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path whole = fs::absolute(fs::path(folder) / "", error).lexically_normal();
  return whole.parent_path().filename().string();
}

}  // namespace fovea::kept
