// SPDX-License-Identifier: Apache-2.0
#include "language/template/budget.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace fovea::jinja {
namespace {

// Texts are far smaller than what would overflow here, yet nothing says so.
size_t scaled(size_t base, size_t per_byte, size_t bytes) {
  constexpr size_t kMost = size_t{1} << 40;
  return base + per_byte * std::min(bytes, kMost);
}

}  // namespace

void fail(std::string message) { throw TemplateError{std::move(message)}; }

thread_local Budget* Budget::current_ = nullptr;

Budget::Budget(size_t input_bytes, std::function<bool()> keep_going)
    : max_steps_(scaled(kSteps, kStepsPerByte, input_bytes)),
      max_bytes_(scaled(kBytes, kBytesPerByte, input_bytes) +
                 kBytesPerFirstByte * std::min(input_bytes, size_t{4} << 20)),
      max_text_bytes_(scaled(kTextBytes, kTextBytesPerByte, input_bytes)),
      left_(max_steps_),
      next_poll_(max_steps_),
      keep_going_(std::move(keep_going)),
      outer_(std::exchange(current_, this)) {}

Budget::~Budget() { current_ = outer_; }

void Budget::poll() {
  next_poll_ = left_ > kStepsBetweenPolls ? left_ - kStepsBetweenPolls : 0;
  if (keep_going_ && !keep_going_()) fail("it was stopped");
}

void Budget::check_text(size_t bytes) {
  if (current_ != nullptr && bytes > current_->max_text_bytes_)
    fail(fmt::format("it makes a text of more than {}",
                     human_bytes(static_cast<int64_t>(current_->max_text_bytes_))));
}

void Budget::hold(size_t bytes) {
  Budget* const budget = current_;
  if (budget == nullptr) return;
  if (bytes > budget->max_bytes_ - budget->held_)
    fail(fmt::format("its values take more than {}",
                     human_bytes(static_cast<int64_t>(budget->max_bytes_))));
  budget->held_ += bytes;
  budget->most_ = std::max(budget->most_, budget->held_);
}

void Budget::release(size_t bytes) noexcept {
  // What was made before the budget may go while it lives.
  if (current_ != nullptr) current_->held_ -= std::min(current_->held_, bytes);
}

}  // namespace fovea::jinja
