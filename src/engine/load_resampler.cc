// SPDX-License-Identifier: Apache-2.0
#include "engine/load_resampler.h"

#include <fmt/format.h>

#include "base/out_of_memory.h"
#include "base/text.h"
#include "weights/loader.h"
#include "weights/resampler_checkpoint.h"
#include "weights/tensor_source.h"

namespace fovea {

namespace {

Result<Resampler> load(Threads& threads, const std::string& folder,
                       std::optional<WeightFormat> format) {
  const Result<ResamplerCheckpoint> checkpoint = ResamplerCheckpoint::open(folder);
  if (!checkpoint) return checkpoint.error();
  Loader loader(threads, checkpoint->tensors(), checkpoint->source_bytes());
  Result<Resampler> resampler =
      Resampler::build(checkpoint->config(), resampler_source(*checkpoint, loader, format));
  if (!resampler)
    return Error{resampler.error().kind,
                 fmt::format("cannot load {}: {}", in_quotes(folder), resampler.error().message)};
  return resampler;
}

}  // namespace

Result<Resampler> load_resampler(Threads& threads, const std::string& folder,
                                 std::optional<WeightFormat> format) {
  return within_memory([&] { return load(threads, folder, format); });
}

}  // namespace fovea
