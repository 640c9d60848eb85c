// SPDX-License-Identifier: Apache-2.0
#include "serve/chat_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <new>
#include <random>
#include <span>
#include <utility>

#include "base/text.h"
#include "serve/check_look.h"

namespace fovea::serve {
namespace {

// 24 letters and digits that nobody can guess.
std::string random_id() {
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuv";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace

ChatJob::ChatJob(Serving& serving, Api api, Engine engine, std::shared_ptr<HttpExchange> exchange,
                 int key, std::vector<std::pair<std::string, std::string>> fields)
    : serving_(serving),
      api_(api),
      engine_(std::move(engine)),
      exchange_(std::move(exchange)),
      key_(key),
      fields_(std::move(fields)) {
  ++serving_.jobs;
  ++serving_.accepted;
}

ChatJob::~ChatJob() {
  // Before `jobs` is counted down: Server::run() waits for that, and the engine must be gone by
  // then.
  session_.reset();
  engine_.reset();
  note_unanswered();
  leave_queue();
  --serving_.jobs;
}

// Before the client hears of its end: what it asks next is to find its place, and its conversation.
void ChatJob::leave_queue() {
  if (std::exchange(runs_, false)) serving_.room.leave();
  if (std::exchange(accepted_, false)) --serving_.accepted;
  pictures_.give_room_back();
}

void ChatJob::watch() {
  exchange_->on_gone([weak = weak_from_this()] {
    const auto job = weak.lock();
    if (!job) return;
    job->gone_ = true;
    job->serving_.room.hurry(job.get());  // the engine ends it
  });
}

// Nothing is done for a client that has gone.
template <class Work>
ChatJob::Step ChatJob::try_to(Work work) {
  try {
    if (gone_) return Step::kNothing;
    ApiResult<Step> next = work();
    if (const auto* step = std::get_if<Step>(&next)) return *step;
    refuse(std::get<ApiError>(next));
  } catch (const std::bad_alloc&) {
    exchange_->reply({.status = 503, .body = std::string(kOutOfMemoryBody)});
    unanswered_ = 503;
  }
  return Step::kNothing;
}

ChatJob::Step ChatJob::read() {
  return try_to([this] { return read_body(); });
}

ChatJob::Step ChatJob::compile() {
  return try_to([this]() -> ApiResult<Step> {
    auto mask = serving_.grammars.compile(form_, *engine_);
    if (auto* error = std::get_if<ApiError>(&mask)) return std::move(*error);
    call_.request.options.mask = std::move(std::get<TokenMask>(mask));
    return Step::kLoad;
  });
}

void ChatJob::load() {
  (void)try_to([this]() -> ApiResult<Step> {
    if (auto error = load_and_submit()) return std::move(*error);
    return Step::kNothing;
  });
}

ApiResult<ChatJob::Step> ChatJob::read_body() {
  auto parsed = api_ == Api::kChat
                    ? parse_chat_call(exchange_->take_body(), serving_.options.chat)
                    : parse_responses_call(exchange_->take_body(), serving_.options.chat);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  call_ = std::move(std::get<ChatCall>(parsed));
  if (auto error = check_call()) return std::move(*error);
  auto form = form_of(call_);
  if (auto* error = std::get_if<ApiError>(&form)) return std::move(*error);
  form_ = std::move(std::get<Form>(form));
  if (form_.structure.empty()) return Step::kLoad;
  call_.request.options.mask = serving_.grammars.find(form_);
  return call_.request.options.mask ? Step::kLoad : Step::kCompile;
}

std::optional<ApiError> ChatJob::load_and_submit() {
  if (auto error = pictures_.load(call_,
                                  {serving_.pictures, key_, serving_.options.pictures,
                                   serving_.options.chat.pixels, serving_.picture_room},
                                  gone_))
    return error;
  if (gone_) return std::nullopt;  // nobody waits for an answer
  find_conversation();
  head_ = {(api_ == Api::kChat ? "chatcmpl-" : "resp_") + random_id(),
           static_cast<int64_t>(std::time(nullptr)), serving_.options.model,
           std::string("fovea-") + version()};
  if (past_pictures_ > 0) head_.earlier_looks = remembers_ ? "kept" : "forgotten";
  if (call_.stream) stream_ = make_stream(head_, call_);
  serving_.room.enter();
  runs_ = true;
  return submit();
}

std::optional<ApiError> ChatJob::check_call() const {
  if (!call_.model.empty() && call_.model != serving_.options.model)
    return ApiError{404,
                    fmt::format("the model {} is not served here; there is {}",
                                in_quotes(call_.model), serving_.options.model),
                    "model", "model_not_found"};
  return check_look(call_.request.options);
}

// Where the beginning of the conversation was said in a session, it goes on there, and the pictures
// of that beginning are there already.
void ChatJob::find_conversation() {
  const std::span<const Message> messages = call_.request.messages;
  const std::span<const Message> before = messages.first(said_before(messages));
  for (const Message& message : before)
    for (const Part& part : message.parts)
      past_pictures_ = std::max(past_pictures_, static_cast<size_t>(part.image + 1));
  if (!before.empty() && call_.request.options.answers == 1) {
    said_ = digest_of_messages({key_, call_.request.options, pictures_.digests()}, before);
    session_ = serving_.conversations.take(said_);
  }
  remembers_ = session_.has_value();
  if (remembers_)
    pictures_.images.erase(pictures_.images.begin(),
                           pictures_.images.begin() + static_cast<std::ptrdiff_t>(past_pictures_));
  else
    session_.emplace(KeptSession{engine_->session()});
}

std::optional<ApiError> ChatJob::submit() {
  // A canvas, its pyramid and what is measured of it.
  constexpr int64_t kBytesPerPixel = 5;
  const int64_t before = session_->bytes;
  adds_pictures_ = adds_pictures_ || !pictures_.images.empty();
  for (const Image& image : pictures_.images)
    session_->bytes += image.size.pixels() * kBytesPerPixel;
  Request request = call_.request;
  request.images = std::move(pictures_.images);
  request.max_pixels = serving_.options.pictures.pixels;
  pictures_.images.clear();
  const std::shared_ptr<ChatJob> job = shared_from_this();
  request.options.keep_going = [job] { return !job->gone_; };
  Callbacks callbacks;
  callbacks.on_token = [job](int answer, const AnswerToken& token) {
    job->take_token(answer, token);
  };
  if (call_.stream) {
    callbacks.on_text = [job](int answer, std::string_view piece) {
      return job->take_text(answer, piece);
    };
  }
  callbacks.on_done = [job](const Result<Answer>& answer) { job->take_answer(answer); };
  const auto ticket = session_->session.submit(std::move(request), std::move(callbacks));
  if (ticket) return std::nullopt;  // its end may have come already
  // Nothing was asked of the session, so the conversation may go on otherwise.
  if (remembers_) serving_.conversations.keep(said_, {std::move(session_->session), before});
  return named_error_of(ticket.error(), form_.param);
}

void ChatJob::begin_stream() {
  if (streaming_) return;
  streaming_ = true;
  exchange_->begin_stream({.status = 200, .type = "text/event-stream", .fields = fields_});
  exchange_->send(stream_->begin());
}

void ChatJob::take_token(int answer, const AnswerToken& token) {
  if (!call_.stream) return prepare_end();
  begin_stream();
  if (call_.logprobs) stream_->token(answer, token);
}

bool ChatJob::take_text(int answer, std::string_view piece) {
  if (std::string event = stream_->text(answer, piece); !event.empty())
    exchange_->send(std::move(event));
  prepare_end();
  return !gone_;
}

// A worker makes what keeping the conversation takes, when the first token is out: before, it would
// share the processors with what that token waits for. Where it is not done, the end does it.
void ChatJob::prepare_end() {
  if (std::exchange(prepares_end_, true)) return;
  try {
    serving_.on_worker([job = shared_from_this()] { (void)job->pictures_.digests(); });
  } catch (const std::bad_alloc&) {
    return;
  }
}

void ChatJob::take_answer(const Result<Answer>& result) {
  if (result) return reply(*result);
  if (waits_for_room(result.error())) return;
  ApiError error = named_error_of(result.error(), form_.param);
  // What others hold who wait as it does may be enough for it later.
  if (result.error().reason == Error::Reason::kRoom && serving_.room.size() > 1)
    error = {503, error.message, "", "memory_busy"};
  put_conversation_back();
  refuse(error, result.error().message);
}

// Whether it is tried again: at once, where there is something to forget, or when another ends that
// may hold what it lacks. The session holds its pictures already.
bool ChatJob::waits_for_room(const Error& error) {
  if (error.reason != Error::Reason::kRoom) return false;
  bool again = serving_.conversations.forget_oldest();
  while (serving_.conversations.forget_oldest()) continue;
  if (!again) {
    const auto retry = [job = shared_from_this()] { job->submit_again(); };
    if (serving_.room.wait(this, retry)) return true;
    again = serving_.room.size() == 1 && !std::exchange(was_alone_, true);
  }
  if (again) submit_again();
  return again;
}

// Once, its priority is raised by one: it goes before those of its own, which came later.
void ChatJob::submit_again() noexcept {
  try {
    int& priority = call_.request.priority;
    if (!std::exchange(was_first_, true) && priority < INT_MAX) ++priority;
    if (const auto error = submit()) refuse(*error);
  } catch (...) {  // memory ran out; the exchange that is let go of answers
  }
}

// A question that added no pictures leaves the session as it was: another may go on from it.
void ChatJob::put_conversation_back() {
  if (remembers_ && !adds_pictures_ && session_)
    serving_.conversations.keep(said_, std::move(*session_));
  session_.reset();
}

void ChatJob::reply(const Answer& answer) {
  if (call_.stream) begin_stream();
  std::string text = call_.stream ? stream_->finish(answer) : answer_body(head_, call_, answer);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  serving_.metrics.add(answer, seconds);
  note(200, &answer);
  keep_conversation(answer);
  leave_queue();
  if (call_.stream) {
    exchange_->send(std::move(text));
    exchange_->end_stream();
  } else {
    exchange_->reply({.status = 200, .body = std::move(text), .fields = fields_});
  }
}

void ChatJob::keep_conversation(const Answer& answer) {
  const bool whole = answer.finish == "end" || answer.finish == "stop" || answer.finish == "length";
  if (gone_ || !whole || !answer.others.empty()) return put_conversation_back();
  std::vector<Message> said = call_.request.messages;
  said.push_back(message_of(head_, call_, answer));
  serving_.conversations.keep(
      digest_of_messages({key_, call_.request.options, pictures_.digests()}, said),
      std::move(*session_));
  session_.reset();
  // Room for new ones: what is kept is not in the way of what is asked.
  for (MemoryUsage usage = engine_->memory();
       usage.capacity > 0 && usage.reserved > usage.capacity / 4 * 3; usage = engine_->memory())
    if (!serving_.conversations.forget_oldest()) return;
}

void ChatJob::refuse(const ApiError& error, const std::string& for_log) {
  note(error.status, nullptr, for_log.empty() ? error.message : for_log);
  if (error.status == 500) serving_.on_failure();
  leave_queue();
  if (streaming_) {
    exchange_->send(stream_->error(error));
    exchange_->end_stream();
  } else {
    HttpReply reply = error_reply(error);
    reply.fields.insert(reply.fields.end(), fields_.begin(), fields_.end());
    exchange_->reply(std::move(reply));
  }
}

void ChatJob::note(int status, const Answer* answer, const std::string& error) {
  serving_.metrics.add_status(streaming_ ? 200 : status);  // its head was out before that
  const HttpRequest& request = exchange_->request();
  LogLine line{request.client, request.method, request.path, status};
  line.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  if (answer != nullptr) {
    line.usage = &answer->trace.usage;
    line.finish = gone_ ? "the client went away" : answer->finish;
  }
  line.error = error;
  write_log(serving_.options.log, line);
  noted_ = true;
}

// Of what ended elsewhere than in an answer or a refusal. Where memory has no room for a line
// either, there is none.
void ChatJob::note_unanswered() noexcept {
  if (noted_) return;
  try {
    if (gone_)
      note(kClientLeft, nullptr, "the client went away before the engine had its question");
    else
      note(unanswered_, nullptr, unanswered_ == 503 ? "out of memory" : "it was left unanswered");
  } catch (...) {
    return;
  }
}

}  // namespace fovea::serve
