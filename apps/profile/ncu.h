// SPDX-License-Identifier: Apache-2.0
// Running this program once more under Nsight Compute.
#pragma once

#include <string>
#include <vector>

#include "fovea/result.h"
#include "profile/counters.h"

namespace fovea::app {

// Where ncu is: on PATH, or under /usr/local/cuda; empty where it is not.
std::string find_ncu();

// Runs `ncu ... program arguments` and reads what it counted. The program tells it when to begin
// and to end (kRecordKernelsSymbol). The error is ncu's own where it has one.
Result<RequestCounters> count_under_ncu(const std::string& ncu,
                                        const std::vector<std::string>& arguments);

}  // namespace fovea::app
