// SPDX-License-Identifier: Apache-2.0
#include "batch/pictures.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "base/list_folder.h"
#include "base/read_file.h"

namespace fovea::batch {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kEndings = {".jpg", ".jpeg", ".png", ".webp"};

// A folder, however it was reached: by its own name or by links.
using FolderId = std::pair<dev_t, ino_t>;

bool is_named_like_a_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

class Finder {
 public:
  explicit Finder(std::vector<std::string>& found) : found_(found) {}

  Status visit(const fs::path& folder) {
    struct stat status {};
    if (stat(folder.c_str(), &status) != 0) return wrong(folder, errno);
    if (!visited_.insert({status.st_dev, status.st_ino}).second) return Done{};
    std::error_code error;
    std::vector<std::string> names = list_folder(folder.string(), error);
    if (error) return wrong(folder, error.value());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      if (name.starts_with('.')) continue;
      const fs::path path = folder / name;
      std::error_code ignored;  // of a link that leads nowhere: its line says so
      const fs::file_status kind = fs::status(path, ignored);
      if (fs::is_directory(kind)) {
        if (auto inner = visit(path); !inner) return inner;
      } else if (is_named_like_a_picture(path) &&
                 (fs::is_regular_file(kind) || !fs::exists(kind))) {
        found_.push_back(path.string());
      }
    }
    return Done{};
  }

 private:
  static Error wrong(const fs::path& folder, int code) {
    return error_of_reading(
        code, fmt::format("cannot read the folder {}: {}", folder.string(), std::strerror(code)));
  }

  std::set<FolderId> visited_;
  std::vector<std::string>& found_;
};

}  // namespace

Result<std::vector<std::string>> find_pictures(const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const std::string& word : words) {
    if (word.empty()) return bad_input("a picture's name is empty; give a file or a folder");
    if (word == "-") return bad_input("-: stdin is no picture here; give files and folders");
    std::error_code error;
    if (fs::is_directory(word, error)) {
      if (auto visited = Finder(found).visit(word); !visited) return visited.error();
    } else if (!is_named_like_a_picture(word) && !fs::exists(word, error)) {
      // One with the name of a picture gets a line that says so; this is a folder's, mistyped.
      return bad_input(fmt::format("cannot open {}: is there such a file or folder?", word));
    } else {
      found.push_back(word);
    }
  }
  if (found.empty())
    return bad_input(
        fmt::format("no pictures in {}: looked for .jpg, .jpeg, .png and .webp", words.front()));
  return found;
}

}  // namespace fovea::batch
