// SPDX-License-Identifier: Apache-2.0
// Which plan makers there are: code knows them by kind, people by name.
#pragma once

#include <cstddef>
#include <string_view>

namespace fovea {

enum class MakerKind {
  kUniform,
  kCortical,
  kThresholds,
  kProportional,
  kQuadtree,
  kTopK,
  kGlanceLook
};

// By kind.
inline constexpr std::string_view kMakerNames[] = {
    "uniform", "cortical", "thresholds", "proportional", "quadtree", "top-k", "glance+look"};

constexpr std::string_view maker_name(MakerKind kind) {
  return kMakerNames[static_cast<size_t>(kind)];
}

}  // namespace fovea
