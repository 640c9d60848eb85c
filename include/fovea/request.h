// SPDX-License-Identifier: Apache-2.0
// Requests: questions that an engine answers side by side.
//
//   fovea::Request request;
//   request.images.push_back(*fovea::load_image("photo.jpg"));
//   request.messages = {{"user", {{0, ""}, {-1, "What is on the table?"}}}};
//   auto ticket = engine->submit(std::move(request));
//   if (ticket && ticket->wait()) std::cout << ticket->wait()->text;
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "fovea/answer.h"
#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

// What a request goes through, in this order. Look and prefill come once for each look.
enum class RequestStage {
  kWaiting,  // for room in memory, or for its place
  kGlance,   // the pictures' plans, and the tower over their coarse parts
  kCouple,   // the language model reads the question over the glance
  kLook,     // fine cells are chosen by that, and the tower encodes them
  kPrefill,  // the language model reads the prompt with the look
  kStep,     // it answers, token by token
  kDone,
};
const char* stage_name(RequestStage stage);

struct Request {
  std::vector<Image> images;      // numbered from 0 in the messages
  std::vector<Message> messages;  // a conversation; the last is of the user or of a tool
  int64_t max_pixels = 0;         // larger images are refused; 0: the default limit of 178,956,970
  AskOptions options;
  // Higher ones start first; among equals the first to come. Who has started goes on.
  int priority = 0;
  // An answer that is not done by then ends with what there is, as "deadline".
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Called on the engine's own thread, which all requests share: keep them short. They may submit and
// cancel requests, and must not wait for one.
struct Callbacks {
  // Each token of an answer as it is drawn, before the text that it makes certain.
  std::function<void(int answer, const AnswerToken& token)> on_token;
  // Each piece of an answer's text as soon as it is certain, in order; false stops that request.
  // `answer` counts from 0 where several answers are asked for.
  std::function<bool(int answer, std::string_view piece)> on_text;
  // Once, after everything else; Ticket::wait returns after it.
  std::function<void(const Result<Answer>& answer)> on_done;
};

struct TicketState;

// A request on its way. Copies are of the same request. It goes on where all of them are dropped;
// wait for it before the program ends.
class Ticket {
 public:
  // Ends the request soon, with what it has, as "cancelled".
  void cancel();
  RequestStage stage() const;
  bool done() const { return stage() == RequestStage::kDone; }
  // Until it is done. What a callback threw is thrown here.
  const Result<Answer>& wait() const;
  // The same for some time; whether it is done.
  bool wait_for(std::chrono::milliseconds time) const;

 private:
  friend class Scheduler;
  explicit Ticket(std::shared_ptr<TicketState> state) : state_(std::move(state)) {}
  std::shared_ptr<TicketState> state_;
};

}  // namespace fovea
