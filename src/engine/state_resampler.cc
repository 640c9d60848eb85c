// SPDX-License-Identifier: Apache-2.0
// The public face of load_resampler.h.
#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "base/threads.h"
#include "engine/check_threads.h"
#include "engine/load_resampler.h"
#include "fovea/resampler.h"

namespace fovea {

struct StateResampler::Parts {
  explicit Parts(int count) : threads(count) {}

  Threads threads;  // one loop at a time
  std::mutex one_loop;
  std::optional<Resampler> resampler;
};

StateResampler::StateResampler(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StateResampler::StateResampler(StateResampler&&) noexcept = default;
StateResampler& StateResampler::operator=(StateResampler&&) noexcept = default;
StateResampler::~StateResampler() = default;

Result<StateResampler> StateResampler::load(const std::string& folder, int threads) {
  return within_memory([&]() -> Result<StateResampler> {
    if (auto checked = check_threads(threads); !checked) return checked.error();
    auto parts = std::make_unique<Parts>(threads > 0 ? threads : usable_cores());
    auto loaded = load_resampler(parts->threads, folder);
    if (!loaded) return loaded.error();
    parts->resampler.emplace(*std::move(loaded));
    return StateResampler(std::move(parts));
  });
}

int StateResampler::tokens() const { return parts_->resampler->tokens(); }
int StateResampler::state_size() const { return parts_->resampler->state_size(); }
int StateResampler::token_size() const { return parts_->resampler->token_size(); }

Result<std::vector<float>> StateResampler::run(std::span<const float> states) const {
  return within_memory([&]() -> Result<std::vector<float>> {
    const auto size = static_cast<size_t>(state_size());
    if (states.empty() || states.size() % size != 0)
      return bad_input(
          fmt::format("{} values as states of {} each: give one state or more, side by side",
                      states.size(), size));
    const std::lock_guard lock(parts_->one_loop);
    const VisualTokens made = parts_->resampler->run(parts_->threads, states.data(),
                                                     static_cast<int64_t>(states.size() / size));
    return std::vector<float>(made.features.begin(), made.features.end());
  });
}

}  // namespace fovea
