// SPDX-License-Identifier: Apache-2.0
#include "serve/conversations.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace fovea::serve {
namespace {

// Clients send calls back in orders of keys of their own, and what is said beside them as an empty
// text or as none. Ids are not told to the model.
void add_calls(const std::string& tool_calls, Hasher& hasher) {
  const auto calls = parse_ordered_json(tool_calls.empty() ? "[]" : tool_calls);
  if (!calls || !calls->is_array()) {
    hasher.text(tool_calls);
    return;
  }
  hasher.value(calls->size());
  for (const auto& call : *calls) {
    const nlohmann::json sorted = call.value("function", nlohmann::ordered_json::object());
    hasher.text(sorted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

bool is_nothing(const Part& part) { return part.image < 0 && part.text.empty(); }

}  // namespace

Digest digest_of_messages(const ConversationScope& conversation,
                          std::span<const Message> messages) {
  const AskOptions& options = conversation.options;
  Hasher hasher;
  hasher.value(conversation.key).text(options.salt).text(options.plan).text(options.look);
  hasher.value(options.budget_tokens)
      .value(options.looks)
      .value(options.relook)
      .text(options.balance)
      .text(options.tower_attention)
      .text(options.text_attention)
      .value(options.keep)
      .text(options.forget)
      .text(options.kv)
      .text(options.tools)
      .value(options.enable_thinking ? int{*options.enable_thinking} : -1)
      .text(options.template_options);
  for (const Message& message : messages) {
    const auto nothing = std::count_if(message.parts.begin(), message.parts.end(), is_nothing);
    hasher.text(message.role).value(message.parts.size() - static_cast<size_t>(nothing));
    add_calls(message.tool_calls, hasher);
    for (const Part& part : message.parts) {
      if (is_nothing(part)) continue;
      hasher.text(part.text).value(part.image >= 0 ? 1 : 0);
      if (part.image >= 0) hasher.value(conversation.pictures[static_cast<size_t>(part.image)]);
    }
  }
  return hasher.finish();
}

size_t said_before(std::span<const Message> messages) {
  for (size_t i = messages.size(); i > 0; --i)
    if (messages[i - 1].role == "assistant") return i;
  return 0;
}

Conversations::Kepts::iterator Conversations::find(const Digest& said) {
  return std::find_if(kept_.begin(), kept_.end(),
                      [&](const Kept& kept) { return kept.said == said; });
}

void Conversations::move_out(Kepts::iterator which, Kepts& to) {
  bytes_ -= which->session.bytes;
  to.splice(to.end(), kept_, which);
}

// What goes is let go of outside the lock: a session has much to give back.
std::optional<KeptSession> Conversations::take(const Digest& said) {
  Kepts taken;
  const std::lock_guard lock(mutex_);
  const auto found = find(said);
  if (found == kept_.end()) return std::nullopt;
  move_out(found, taken);
  return std::move(taken.front().session);
}

void Conversations::keep(const Digest& said, KeptSession session) {
  const int64_t bytes = session.bytes;
  if (bytes > most_bytes_) return;
  Kepts one;
  one.push_back({said, std::move(session)});
  Kepts dropped;
  const std::lock_guard lock(mutex_);
  if (const auto same = find(said); same != kept_.end()) move_out(same, dropped);
  kept_.splice(kept_.end(), one);
  bytes_ += bytes;
  while (kept_.size() > most_ || bytes_ > most_bytes_) move_out(kept_.begin(), dropped);
}

bool Conversations::forget_oldest() {
  Kepts dropped;
  const std::lock_guard lock(mutex_);
  if (kept_.empty()) return false;
  move_out(kept_.begin(), dropped);
  return true;
}

size_t Conversations::size() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

}  // namespace fovea::serve
