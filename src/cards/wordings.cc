// SPDX-License-Identifier: Apache-2.0
#include "cards/wordings.h"

#include "base/check.h"

namespace fovea {

std::string fill_wording(std::string_view wording, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const size_t place = wording.find("{}");
    FOVEA_CHECK(place != std::string_view::npos);
    text += std::string(wording.substr(0, place)) + word;
    wording.remove_prefix(place + 2);
  }
  return text + std::string(wording);
}

std::string with_article(const std::string& name) {
  return (std::string_view("aeiou").find(name.front()) == std::string_view::npos ? "a " : "an ") +
         name;
}

std::string plural(std::string_view shape) {
  return std::string(shape) + (shape.ends_with('s') ? "es" : "s");
}

}  // namespace fovea
