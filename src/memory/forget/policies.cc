// SPDX-License-Identifier: Apache-2.0
#include "memory/forget/policies.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "base/text.h"

namespace fovea {
namespace {

constexpr std::array kPolicies = {
    ForgetPolicyRow{"vl-cache",
                    "what the text behind the images attends to most, more of it in layers whose "
                    "attention is spread wide",
                    ForgetPolicy::kVlCache, true, false},
    ForgetPolicyRow{"sparse-vlm",
                    "what the words that have most to do with the images attend to most; some of "
                    "what goes is gathered into a few rows",
                    ForgetPolicy::kSparseVlm, true, true},
    ForgetPolicyRow{"merge", "neighbours that are alike become one, which counts for all of them",
                    ForgetPolicy::kMerge, false, false},
    ForgetPolicyRow{"window", "of each image its first tokens and its last", ForgetPolicy::kWindow,
                    false, false},
    ForgetPolicyRow{"oldest", "the newest tokens of all images; the oldest go",
                    ForgetPolicy::kOldest, false, false},
    ForgetPolicyRow{"random", "tokens drawn at random, the same in all layers",
                    ForgetPolicy::kRandom, false, false},
};

}  // namespace

std::span<const ForgetPolicyRow> forget_policies() { return kPolicies; }

const ForgetPolicyRow& row_of(ForgetPolicy policy) {
  return kPolicies[static_cast<size_t>(policy)];  // a test compares their order
}

Result<ForgetPolicy> find_forget_policy(std::string_view name) {
  std::string names;
  for (const ForgetPolicyRow& row : kPolicies) {
    if (name == row.name) return row.policy;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return bad_input(
      fmt::format("there is no forgetting by {}; choose one of {}", in_quotes(name), names));
}

Result<ForgetSettings> forget_settings(double keep, std::string_view policy, uint64_t seed) {
  if (!(keep > 0 && keep <= 1))
    return bad_input(fmt::format(
        "keep {}: give the share of visual keys that stays, above 0 and up to 1", keep));
  ForgetSettings settings{.keep = keep, .seed = seed};
  if (policy.empty()) return settings;
  const auto found = find_forget_policy(policy);
  if (!found) return found.error();
  settings.policy = *found;
  return settings;
}

}  // namespace fovea
