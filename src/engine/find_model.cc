// SPDX-License-Identifier: Apache-2.0
// Where a model of a plain name lies.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/out_of_memory.h"
#include "base/own_folders.h"
#include "base/text.h"
#include "fovea/fovea.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// Installed with what is in a folder: prefix/bin and prefix/share, or prefix/models.
void append_near(const fs::path& folder, std::vector<fs::path>& folders) {
  folders.push_back(folder.parent_path() / "share" / "fovea" / "models");
  folders.push_back(folder.parent_path() / "models");
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  const char* own = std::getenv("FOVEA_MODELS");
  if (own != nullptr && *own != '\0') folders.emplace_back(own);
  if (const fs::path program = program_folder(); !program.empty()) append_near(program, folders);
  if (const fs::path library = library_folder(); !library.empty()) {
    folders.push_back(library / "models");  // a Python package has them inside
    append_near(library, folders);
  }
  folders.emplace_back(FOVEA_SOURCE_MODELS);
  return folders;
}

}  // namespace

Result<std::string> find_model(const std::string& name) {
  return within_memory([&]() -> Result<std::string> {
    std::error_code error;
    if (name.empty()) return bad_input("the name of the model is empty");
    if (name.find('/') != std::string::npos || name == "." || name == ".." ||
        fs::is_directory(name, error))
      return name;
    std::string places;
    for (const fs::path& folder : model_folders()) {
      const fs::path model = folder / name;
      if (fs::is_directory(model, error)) return model.string();
      places += (places.empty() ? "" : ", ") + folder.string();
    }
    return bad_input(
        fmt::format("there is no model {}: it was looked for here, in {}; give the folder of a "
                    "checkpoint, or set FOVEA_MODELS to the folder that holds it",
                    in_quotes(name), places));
  });
}

}  // namespace fovea
