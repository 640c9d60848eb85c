// SPDX-License-Identifier: Apache-2.0
// Q-Former and Perceiver resampler for those who bring states of a vision model of their own.
// fovea.h does not need it.
//
//   auto resampler = fovea::StateResampler::load("blip2-opt-2.7b");
//   if (!resampler) return resampler.error();
//   const auto tokens = resampler->run(states);  // [count][state_size()] ->
//   [tokens()][token_size()]
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"

namespace fovea {

// Learned queries attend to the states of a picture: as many tokens come out as there are queries,
// however many states there are (docs/attention.md). Several threads may use one; they wait for
// each other.
class StateResampler {
 public:
  // The folder of a BLIP-2 or Idefics2 model: config.json and safetensors, of which vision and
  // language models need not be there. Nothing of it is read afterwards. Threads 0: the cores this
  // process may use.
  static Result<StateResampler> load(const std::string& folder, int threads = 0);
  StateResampler(StateResampler&&) noexcept;
  StateResampler& operator=(StateResampler&&) noexcept;
  ~StateResampler();

  int tokens() const;      // that come out
  int state_size() const;  // values of a state, which mean what its own vision model's mean
  int token_size() const;  // values of a token

  // An error where these are no states, one or more. The same bits for any number of threads.
  Result<std::vector<float>> run(std::span<const float> states) const;

 private:
  struct Parts;
  explicit StateResampler(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace fovea
