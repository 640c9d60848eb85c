// SPDX-License-Identifier: Apache-2.0
// One call of /v1/chat/completions or /v1/responses on its way: its body is read and its pictures
// are loaded on a worker, the engine answers, and what it says goes out as it comes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/fovea.h"
#include "memory/digest.h"
#include "serve/call_pictures.h"
#include "serve/conversations.h"
#include "serve/grammar/grammars.h"
#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/openai/answer_head.h"
#include "serve/openai/chat_request.h"
#include "serve/picture_store.h"
#include "serve/room_queue.h"
#include "serve/server.h"

namespace fovea::serve {

// For the pictures of all calls: any one of them has room alone.
inline int64_t picture_bytes(const ServeOptions& options) {
  constexpr int64_t kBytesPerPixel = 3;
  constexpr int64_t kMostPixels = int64_t{1} << 56;  // no overflow
  const int64_t pixels = std::max(options.chat.pixels, options.pictures.pixels);
  return std::max(int64_t{1} << 30, std::min(pixels, kMostPixels) * kBytesPerPixel);
}

// What all calls share; it outlives them.
struct Serving {
  explicit Serving(ServeOptions its_options)
      : options(std::move(its_options)),
        conversations(static_cast<size_t>(options.conversations)),
        picture_room(picture_bytes(options)),
        metrics(options.model) {}

  const ServeOptions options;
  Conversations conversations;
  PictureStore pictures;
  PictureRoom picture_room;
  Grammars grammars;
  Metrics metrics;
  std::atomic<int> accepted = 0;  // calls that have no answer yet
  RoomQueue room;                 // of those, the ones that the engine has
  std::function<void(std::function<void()> work)> on_worker;  // does it there, later
  std::function<void()> on_failure;  // the engine failed at what it was asked
  std::atomic<int> jobs = 0;         // that use this
};

class ChatJob : public std::enable_shared_from_this<ChatJob> {
 public:
  // `key` is the number of the client's key; `fields` are added to the answer.
  ChatJob(Serving& serving, Api api, Engine engine, std::shared_ptr<HttpExchange> exchange, int key,
          std::vector<std::pair<std::string, std::string>> fields);
  ~ChatJob();
  ChatJob(const ChatJob&) = delete;
  ChatJob& operator=(const ChatJob&) = delete;

  // Hears from now on that the client goes away; before the job waits for a worker.
  void watch();

  // All that comes before the engine, on workers: each says what is to be called next.
  enum class Step { kNothing, kCompile, kLoad };
  Step read();
  Step compile();  // its grammar, which may take seconds: for one job at a time
  void load();     // its pictures

 private:
  template <class Work>
  Step try_to(Work work);
  ApiResult<Step> read_body();
  std::optional<ApiError> load_and_submit();
  std::optional<ApiError> check_call() const;
  void find_conversation();
  std::optional<ApiError> submit();
  void submit_again() noexcept;

  // On the engine's thread.
  void begin_stream();
  void take_token(int answer, const AnswerToken& token);
  bool take_text(int answer, std::string_view piece);
  void prepare_end();
  void take_answer(const Result<Answer>& result);
  bool waits_for_room(const Error& error);
  void reply(const Answer& answer);
  void keep_conversation(const Answer& answer);

  void put_conversation_back();
  void leave_queue();
  void refuse(const ApiError& error, const std::string& for_log = "");
  void note(int status, const Answer* answer, const std::string& error = "");
  void note_unanswered() noexcept;

  Serving& serving_;
  const Api api_;
  std::optional<Engine> engine_;
  std::shared_ptr<HttpExchange> exchange_;
  const int key_;
  const std::vector<std::pair<std::string, std::string>> fields_;  // of the answer, for browsers
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<bool> gone_ = false;
  bool accepted_ = true;
  bool runs_ = false;

  ChatCall call_;
  Form form_;
  AnswerHead head_;
  std::unique_ptr<AnswerStream> stream_;
  bool streaming_ = false;  // its head is out
  CallPictures pictures_;
  std::optional<KeptSession> session_;
  Digest said_;  // before the question, where the session was found by it
  bool remembers_ = false;
  size_t past_pictures_ = 0;  // of what was said before
  bool adds_pictures_ = false;
  bool prepares_end_ = false;
  bool noted_ = false;      // it has its line of the log
  int unanswered_ = 500;    // what HTTP says where nothing else is said
  bool was_first_ = false;  // it has been tried, and goes before those that came later
  bool was_alone_ = false;  // when it was tried last
};

}  // namespace fovea::serve
