// SPDX-License-Identifier: Apache-2.0
// The folder of a BLIP-2 or Idefics2 model -> its resampler, ready to run.
//
//   Threads threads(usable_cores());
//   const Result<Resampler> resampler = load_resampler(threads, "blip2-opt-2.7b");
//   if (!resampler) return resampler.error();
//   const VisualTokens tokens = resampler->run(threads, states, count);
#pragma once

#include <optional>
#include <string>

#include "base/threads.h"
#include "fovea/result.h"
#include "ops/matrix.h"
#include "resample/resampler.h"

namespace fovea {

// Matrices are kept in `format`; without one as the files have them (f16 becomes f32). Every value
// was looked at, and nothing of the folder is read afterwards.
Result<Resampler> load_resampler(Threads& threads, const std::string& folder,
                                 std::optional<WeightFormat> format = std::nullopt);

}  // namespace fovea
