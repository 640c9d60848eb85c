// SPDX-License-Identifier: Apache-2.0
// Sessions of conversations that may go on. A client sends all of a conversation each time; the
// session in which its beginning was said holds what was computed of it, looks among it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "fovea/fovea.h"
#include "memory/digest.h"

namespace fovea::serve {

// What two conversations must share besides their messages.
struct ConversationScope {
  int key = -1;  // of the client
  const AskOptions& options;
  std::span<const Digest> pictures;  // by the numbers that messages have for them
};

// Of the first messages of a conversation.
Digest digest_of_messages(const ConversationScope& conversation, std::span<const Message> messages);

// Which of the messages were said before the question: those up to the last of the assistant.
size_t said_before(std::span<const Message> messages);

// A session, and about how much memory its pictures take.
struct KeptSession {
  Session session;
  int64_t bytes = 0;
};

// May be used from any thread. Where there are too many, or their pictures take too much memory,
// the oldest go first.
class Conversations {
 public:
  explicit Conversations(size_t most, int64_t most_bytes = int64_t{512} << 20)
      : most_(most), most_bytes_(most_bytes) {}

  // The session in which this was said, for the caller alone; nothing where it was forgotten.
  std::optional<KeptSession> take(const Digest& said);
  void keep(const Digest& said, KeptSession session);
  bool forget_oldest();  // false: there is none
  size_t size() const;

 private:
  struct Kept {
    Digest said;
    KeptSession session;
  };
  using Kepts = std::list<Kept>;

  Kepts::iterator find(const Digest& said);
  void move_out(Kepts::iterator which, Kepts& to);

  const size_t most_;
  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  Kepts kept_;  // the latest last
  int64_t bytes_ = 0;
};

}  // namespace fovea::serve
