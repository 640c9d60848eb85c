// SPDX-License-Identifier: Apache-2.0
#include "media/test_fixtures.h"

#include <nlohmann/json.hpp>
#include <set>

namespace fovea::fixtures {

std::vector<std::string> names(std::string_view extension) {
  std::vector<std::string> found;
  const Blob bytes = load(folder() + "list.json");
  const nlohmann::json list = nlohmann::json::parse(bytes.begin(), bytes.end());
  for (const nlohmann::json& name : list.at("images"))
    if (name.get<std::string>().ends_with(extension)) found.push_back(name);
  EXPECT_FALSE(found.empty());
  return found;
}

namespace {

TEST(Fixtures, TheListNamesEveryPictureThere) {
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() != ".ppm" && entry.path().extension() != ".json")
      there.insert(entry.path().filename().string());
  const std::vector<std::string> listed = names();
  EXPECT_EQ(there, std::set<std::string>(listed.begin(), listed.end()));
  EXPECT_EQ(there.size(), listed.size());
}

}  // namespace
}  // namespace fovea::fixtures
