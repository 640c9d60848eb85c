// SPDX-License-Identifier: Apache-2.0
// Memory for a request: what it can need at most is reserved before it starts.
#pragma once

#include <span>

#include "engine/prompt.h"
#include "engine/session.h"

namespace fovea {

// While one lives, the session's memories may grow to what was reserved; afterwards they keep what
// they hold. Where a device computes, it makes room by itself, and this does nothing.
class Room {
 public:
  explicit Room(SessionState& state) : state_(state) {}
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // For all images, the question and the answer. An error names what the request may need and what
  // there is.
  Status reserve(std::span<const Message> messages, std::span<const int> images,
                 const AskOptions& options, TextCount& text);
  // For the prompt as it turned out: less than was reserved, but for templates that write more
  // around a text than most.
  Status reserve(const TokenPrompt& prompt, const AskOptions& options);

  // Gives back what was reserved and is not needed any more, since keys of the prompt were
  // forgotten.
  void shrink(const TokenPrompt& prompt, const AskOptions& options);

  // Whether it was refused what others hold now and may give back.
  bool may_come() const { return may_come_; }

 private:
  Status try_to_reserve(std::span<const Message> messages, std::span<const int> images,
                        const AskOptions& options, int64_t text_tokens);

  SessionState& state_;
  bool may_come_ = false;
};

}  // namespace fovea
