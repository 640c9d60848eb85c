// SPDX-License-Identifier: Apache-2.0
#include "resample/resampler.h"

#include "base/check.h"

namespace fovea {

Result<Resampler> Resampler::build(const ResamplerConfig& config, const TensorSource& source) {
  WeightReader reader(source);
  const auto read = [&reader](const auto& of) -> Form {
    if constexpr (std::is_same_v<std::decay_t<decltype(of)>, QFormerConfig>)
      return QFormer(of, reader);
    else
      return Perceiver(of, reader);
  };
  Form form = std::visit(read, config);
  if (reader.error()) return *reader.error();
  return Resampler(std::move(form));
}

VisualTokens Resampler::run(Threads& threads, const float* states, int64_t count,
                            const ResampleOptions& options) const {
  FOVEA_CHECK(states != nullptr && count > 0);
  VisualTokens result;
  result.count = tokens();
  result.width = token_size();
  result.features = std::visit(
      [&](const auto& form) {
        return form.run(threads, {states, count}, options);
      },
      form_);
  return result;
}

int Resampler::tokens() const {
  return std::visit([](const auto& form) { return form.tokens(); }, form_);
}
int Resampler::state_size() const {
  return std::visit([](const auto& form) { return form.config().state_size; }, form_);
}
int Resampler::token_size() const {
  return std::visit([](const auto& form) { return form.token_size(); }, form_);
}
size_t Resampler::bytes() const {
  return std::visit([](const auto& form) { return form.bytes(); }, form_);
}

}  // namespace fovea
