// SPDX-License-Identifier: Apache-2.0
#include "weights/model_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/list_folder.h"
#include "base/read_file.h"
#include "base/text.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// A name that cannot lead out of a folder, on any system.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<uint8_t>(c) < 0x20 || c == 0x7F;
  });
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  return !folder.empty() && file.parent_path() == folder;
}

}  // namespace

Result<ModelFolder> ModelFolder::open(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return bad_input(
        fmt::format("there is no folder {}; give one that holds a config.json and "
                    "model.safetensors",
                    in_quotes(path)));
  if (status.type() == fs::file_type::regular)
    return bad_input(
        fmt::format("{} is a file; give the folder of the model that it lies in", in_quotes(path)));
  if (error || status.type() != fs::file_type::directory)
    return error_of_reading(
        error.value(), fmt::format("cannot open {} as the folder of a model{}{}", in_quotes(path),
                                   error ? ": " : "", error ? error.message() : ""));
  const fs::path root = fs::canonical(path, error);
  if (!error && access(root.c_str(), R_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error)
    return error_of_reading(error.value(),
                            fmt::format("cannot open {}: {}", in_quotes(path), error.message()));
  ModelFolder folder;
  folder.given_ = path;
  folder.root_ = root.string();
  const fs::path snapshots = root.parent_path();
  const fs::path model = snapshots.parent_path();
  if (snapshots.filename() == "snapshots" && model.filename().string().starts_with("models--"))
    folder.blobs_ = (model / "blobs").string();
  return folder;
}

bool ModelFolder::has(std::string_view name) const {
  std::error_code error;
  return fs::symlink_status(fs::path(root_) / name, error).type() != fs::file_type::not_found &&
         !error;
}

std::vector<std::string> ModelFolder::names() const {
  std::error_code error;
  std::vector<std::string> names = list_folder(root_, error);
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> ModelFolder::resolve(std::string_view name) const {
  if (!is_plain_name(name))
    return bad_input(
        fmt::format("{} names the file {}, which is not the plain name of a file in it",
                    in_quotes(given_), in_quotes(name)));
  if (!has(name)) return bad_input(fmt::format("there is no {} in {}", name, in_quotes(given_)));
  std::error_code error;
  const fs::path real = fs::canonical(fs::path(root_) / name, error);
  if (error)
    return error_of_reading(error.value(), fmt::format("cannot open {} in {}: {}", name,
                                                       in_quotes(given_), error.message()));
  if (!lies_in(real, root_) && !lies_in(real, blobs_))
    return bad_input(
        fmt::format("{} in {} is a link to {}, outside of the folder; put the file itself there",
                    name, in_quotes(given_), in_quotes(real.string())));
  return real.string();
}

Result<std::string> ModelFolder::read(std::string_view name, int64_t max_bytes) const {
  const Result<std::string> path = resolve(name);
  if (!path) return path.error();
  auto text = read_file(*path, max_bytes);
  if (text && text->empty()) return bad_input(*path + " is empty");
  return text;
}

}  // namespace fovea
