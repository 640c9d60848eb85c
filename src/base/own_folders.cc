// SPDX-License-Identifier: Apache-2.0
#include "base/own_folders.h"

#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <system_error>

namespace fovea {
namespace {

namespace fs = std::filesystem;

// Of this file alone: a function that others can see may be found in another library.
void in_this_file() {}

}  // namespace

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

fs::path library_folder() {
  Dl_info symbol{};
  link_map* library = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&in_this_file), &symbol, reinterpret_cast<void**>(&library),
              RTLD_DL_LINKMAP) == 0 ||
      library == nullptr || library->l_name == nullptr || *library->l_name == '\0')
    return {};  // the program's name is empty
  fs::path file = library->l_name;
  if (file.is_relative()) {
    // To the folder that was the current one when it was opened, which the loader remembers.
    char folder[PATH_MAX];
    if (dlinfo(library, RTLD_DI_ORIGIN, folder) != 0) return {};
    file = fs::path(folder) / file.filename();
  }
  std::error_code error;
  file = fs::canonical(file, error);
  return error ? fs::path() : file.parent_path();
}

}  // namespace fovea
