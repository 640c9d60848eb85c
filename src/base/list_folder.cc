// SPDX-License-Identifier: Apache-2.0
#include "base/list_folder.h"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <string_view>

namespace fovea {

std::vector<std::string> list_folder(const std::string& path, std::error_code& error) {
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  std::vector<std::string> names;
  error.clear();
  const std::unique_ptr<DIR, Close> folder(opendir(path.c_str()));
  if (!folder) {
    error.assign(errno, std::generic_category());
    return names;
  }
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) error.assign(errno, std::generic_category());
  return names;
}

}  // namespace fovea
