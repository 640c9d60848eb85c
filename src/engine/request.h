// SPDX-License-Identifier: Apache-2.0
// A request on its way through the engine: glance, couple, look, prefill, step, done.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "engine/read.h"
#include "engine/room.h"
#include "engine/session.h"
#include "engine/ticket.h"
#include "engine/view.h"
#include "fovea/request.h"

namespace fovea {

// A state machine that the scheduler moves: advance() does what a stage takes besides the language
// model's part; forward() is that part, which the scheduler does for several requests at once.
// Whatever goes wrong ends this request alone.
class ActiveRequest {
 public:
  // An error where something is wrong that can be known before any work.
  static Result<std::unique_ptr<ActiveRequest>> make(std::shared_ptr<SessionState> session,
                                                     Request request, Callbacks callbacks);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  const std::shared_ptr<TicketState>& ticket() const { return ticket_; }
  RequestStage stage() const { return stage_; }
  int priority() const { return request_.priority; }
  const Model& model() const { return *session_->model; }  // until it is done

  // Whether its session has no other question.
  bool may_start() const { return !session_->busy; }
  // Takes the memory that all of it can need at most. False: it has to wait, since others hold the
  // memory; where there are none, that is an error.
  bool start(bool others);
  // Ends it, where it is to be stopped while it waits.
  void end_if_stopped();
  // Goes on to where the language model is needed or a stage ends. Never throws.
  void advance();
  // What the decoder is to do before the next advance(); null: nothing.
  ForwardRequest* forward() const { return forward_; }
  // Whether it has given memory back since this was last asked.
  bool take_gave_room() { return std::exchange(gave_room_, false); }
  // What the device may draw for several requests at once before the next advance(); null: nothing.
  DeviceAnswer* answering() const { return generator_ ? generator_->on_device() : nullptr; }

 private:
  ActiveRequest(std::shared_ptr<SessionState> session, Request request, Callbacks callbacks);
  Status check();

  // The stages: each gives the one that follows.
  Result<RequestStage> run_stage();
  Result<RequestStage> glance();
  Result<RequestStage> look();
  Result<RequestStage> read();
  Result<RequestStage> step();
  Result<bool> look_again();
  Result<RequestStage> finish();

  Status begin_reading();
  bool forget();
  Result<RequestStage> begin_answer();
  RequestStage end_answer();
  bool was_ended();  // by its ticket, or by its deadline
  bool goes_on();    // asks the caller, too
  void end_early();
  void end(Result<Answer> result);

  const AskOptions& options() const { return request_.options; }
  Answer& present() { return others_.empty() ? answer_ : others_.back(); }

  std::shared_ptr<SessionState> session_;
  Request request_;
  Callbacks callbacks_;
  std::shared_ptr<TicketState> ticket_ = std::make_shared<TicketState>();
  std::function<bool()> keep_going_ = [this] { return goes_on(); };
  std::function<void(const AnswerToken& token)> on_token_;
  std::function<bool(std::string_view piece)> on_text_;
  RequestStage stage_ = RequestStage::kWaiting;
  bool waited_ = false;  // before it started
  bool stopped_ = false;
  bool late_ = false;          // ... by its deadline
  std::exception_ptr thrown_;  // by a callback

  std::vector<Message> messages_;  // with the system's
  std::vector<int> images_;        // that they name
  std::optional<TextCount> text_;
  Stopwatch watch_;
  std::optional<Room> room_;
  std::vector<Looked> looks_;  // one for each of the images
  // Round 0 reads the question over the glances alone, where the model is to say what it points at;
  // each further round takes a look and reads the prompt with it.
  int round_ = 0;
  std::optional<TokenPrompt> prompt_;
  std::optional<Reader> reader_;
  Reading reading_;
  int64_t seen_half_way_ = 0;  // visual tokens that the answer looked at
  bool forgot_ = false;        // keys, so that the prompt's last token is read again
  bool gave_room_ = false;
  std::unique_ptr<Generator> generator_;
  ForwardRequest* forward_ = nullptr;
  Answer answer_;
  std::vector<Answer> others_;                             // where several are asked for
  std::vector<std::vector<std::vector<float>>> attended_;  // Generator's, of each answer
};

}  // namespace fovea
