// SPDX-License-Identifier: Apache-2.0
// The policies of forgetting by name. Adding one: its choice in forget.cc and forget_reference.cc,
// its name here, a row in the table; tests, settings, help and the arms of `fovea eval` walk it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fovea/result.h"

namespace fovea {

enum class ForgetPolicy { kVlCache, kSparseVlm, kMerge, kWindow, kOldest, kRandom };

struct ForgetPolicyRow {
  const char* name;
  const char* words;  // what it keeps, for help and docs
  ForgetPolicy policy;
  bool by_attention;  // what the text behind the images attends to decides
  bool by_raters;     // ... of that text, the tokens that attend to the images most
};

// All of them, and a policy's own row.
std::span<const ForgetPolicyRow> forget_policies();
const ForgetPolicyRow& row_of(ForgetPolicy policy);
Result<ForgetPolicy> find_forget_policy(std::string_view name);

// How much of the keys of visual tokens stays, and which.
struct ForgetSettings {
  double keep = 1;  // share of them, summed over layers
  ForgetPolicy policy = ForgetPolicy::kVlCache;
  uint64_t seed = 0;  // of what is drawn at random

  bool forgets() const { return keep < 1; }
  bool operator==(const ForgetSettings&) const = default;
};

// Reads a share and the name of a policy (empty: vl-cache); an error names what is wrong.
Result<ForgetSettings> forget_settings(double keep, std::string_view policy, uint64_t seed);

}  // namespace fovea
