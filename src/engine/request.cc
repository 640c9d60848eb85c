// SPDX-License-Identifier: Apache-2.0
// The spine of asking: one function for each stage, in order.
#include "engine/request.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "engine/answer_parts.h"
#include "engine/forget.h"
#include "engine/look.h"

namespace fovea {

Result<std::unique_ptr<ActiveRequest>> ActiveRequest::make(std::shared_ptr<SessionState> session,
                                                           Request request, Callbacks callbacks) {
  std::unique_ptr<ActiveRequest> made(
      new ActiveRequest(std::move(session), std::move(request), std::move(callbacks)));
  if (auto checked = made->check(); !checked) return checked.error();
  return made;
}

ActiveRequest::ActiveRequest(std::shared_ptr<SessionState> session, Request request,
                             Callbacks callbacks)
    : session_(std::move(session)),
      request_(std::move(request)),
      callbacks_(std::move(callbacks)),
      watch_(session_->model->stopwatch()) {
  if (callbacks_.on_token)
    on_token_ = [this](const AnswerToken& token) {
      callbacks_.on_token(static_cast<int>(others_.size()), token);
    };
  if (callbacks_.on_text)
    on_text_ = [this](std::string_view piece) {
      return callbacks_.on_text(static_cast<int>(others_.size()), piece);
    };
  answer_.finish = "cancelled";
}

Status ActiveRequest::check() {
  if (auto intact = model().intact(); !intact) return intact;  // nothing it could make may leave
  messages_ = with_system(request_.messages, options().system);
  if (auto checked = check_ask(model(), messages_, options()); !checked) return checked;
  if (auto checked = check_likely(model(), options()); !checked) return checked;
  auto images = images_of(messages_, session_->views.size());
  if (!images) return images.error();
  images_ = std::move(*images);
  text_.emplace(model(), messages_, options(), keep_going_);
  return check_texts(model(), *text_);
}

bool ActiveRequest::start(bool others) {
  waited_ = waited_ || others;
  try {
    if (was_ended()) {
      end_early();
      return true;
    }
    room_.emplace(*session_);
    const Status reserved = room_->reserve(messages_, images_, options(), *text_);
    if (stopped_) {
      end_early();
    } else if (reserved) {
      if (waited_) watch_.lap("wait");
      watch_.lap("prompt");
      session_->busy = true;
      ticket_->stage = stage_ = RequestStage::kGlance;
    } else if (others && room_->may_come()) {
      room_.reset();
      return false;
    } else {
      end(reserved.error());
    }
  } catch (const std::bad_alloc&) {
    end(out_of_memory());
  } catch (...) {
    thrown_ = std::current_exception();
    end_early();
  }
  return true;
}

void ActiveRequest::end_if_stopped() {
  if (!goes_on()) end_early();
}

// Before it has anything to show.
void ActiveRequest::end_early() {
  if (late_) answer_.finish = "deadline";
  end(std::move(answer_));
}

void ActiveRequest::advance() {
  forward_ = nullptr;
  try {
    const Result<RequestStage> next = run_stage();
    if (!next) {
      if (model().device->shares_passes())
        forget_computed(*session_);  // a pass that failed may have made some of it
      return end(next.error());
    }
    if (*next == RequestStage::kDone) return end(std::move(answer_));
    ticket_->stage = stage_ = *next;
  } catch (const std::bad_alloc&) {
    forget_computed(*session_);
    end(out_of_memory());
  } catch (...) {
    thrown_ = std::current_exception();
    forget_computed(*session_);
    present().finish = "cancelled";
    answer_.others = std::move(others_);
    end(std::move(answer_));
  }
}

Result<RequestStage> ActiveRequest::run_stage() {
  switch (stage_) {
    case RequestStage::kGlance:
      return glance();
    case RequestStage::kLook:
      return look();
    case RequestStage::kStep:
      return step();
    default:
      return read();
  }
}

Result<RequestStage> ActiveRequest::glance() {
  auto looks = plan_images(*session_, images_, options());
  if (!looks) return looks.error();
  looks_ = std::move(*looks);
  const Status planned = check_planned(*session_, messages_, images_, looks_, options(), *text_);
  if (stopped_) return finish();
  if (!planned) return planned.error();
  const Status shown = show_images(*session_, images_, options(), keep_going_, looks_);
  if (!shown) return shown.error();
  watch_.lap("look");
  if (!model().words.get()) return model().words.get().error();
  if (any_asks_model(looks_)) return RequestStage::kCouple;
  round_ = 1;
  return rounds_of(looks_) > 0 ? RequestStage::kLook : RequestStage::kPrefill;
}

Result<RequestStage> ActiveRequest::look() {
  if (!goes_on()) return finish();
  const auto taken = take_looks(*session_, images_, looks_, round_, prompt_, reading_, keep_going_);
  if (!taken) return taken.error();
  if (!*taken) return finish();
  watch_.lap("look");
  return RequestStage::kPrefill;
}

// Couple and prefill: the prompt goes through the language model piece by piece.
Result<RequestStage> ActiveRequest::read() {
  if (!reader_) {
    if (!goes_on()) return finish();
    const Status begun = begin_reading();
    if (stopped_) return finish();
    if (!begun) return begun.error();
  } else {
    const auto took = reader_->take();
    if (!took) return took.error();
    if (!*took) {
      watch_.lap(round_ > 0 ? "prefill" : "read");
      return finish();
    }
  }
  forward_ = reader_->next();
  if (forward_ != nullptr) return stage_;

  watch_.lap(round_ > 0 ? "prefill" : "read");
  Reading reading = reader_->finish();
  reader_.reset();
  if (auto intact = model().intact(); !intact) return intact.error();
  if (forgot_ || !others_.empty()) {  // what it attends to is known
    reading_.logits = std::move(reading.logits);
    if (others_.empty())
      answer_.trace.confidence = confidence_of({reading_.logits.data(), reading_.logits.size()});
    return begin_answer();
  }
  reading_ = std::move(reading);
  const auto enough = note_reading(*session_, reading_, round_, rounds_of(looks_), options(),
                                   looks_, answer_.trace);
  if (!enough) return enough.error();
  if (*enough) return forget() ? read() : begin_answer();
  ++round_;
  return RequestStage::kLook;
}

// Where keys are forgotten, the prompt's last token is read once more, over those that are left.
bool ActiveRequest::forget() {
  if (!forget_of(options()).forgets()) return false;
  forgot_ = forget_keys(*session_, *prompt_, reading_.keys, answer_.trace.usage);
  reading_.keys = {};
  if (!forgot_) return false;
  if (!may_look_again(options())) {  // a look half-way takes of what was reserved for all looks
    room_->shrink(*prompt_, options());
    gave_room_ = true;
  }
  watch_.lap("forget");
  return true;
}

Status ActiveRequest::begin_reading() {
  const bool leave = leave_logits(model(), options());
  if (forgot_ || !others_.empty()) {  // the prompt's last token once more, for its logits
    reader_.emplace(*session_, *prompt_, options(), ReadGoal{.leave = leave}, keep_going_);
    return Done{};
  }
  auto written =
      make_token_prompt({.model = model(),
                         .messages = messages_,
                         .images = images_,
                         .views = session_->views,
                         .options = options(),
                         .append_only = is_append_only(looks_, session_->views, options()),
                         .before = prompt_ ? &*prompt_ : nullptr,
                         .keep_going = keep_going_});
  if (!written) return written.error();
  if (auto fits = check_context(model(), *written, options()); !fits) return fits;
  if (auto fits = room_->reserve(*written, options()); !fits) return fits;
  prompt_ = std::move(*written);
  reading_ = {};  // of the prompt before
  watch_.lap("prompt");
  const bool answers = round_ > 0;  // round 0 reads the question over the glances alone
  const bool by_token = options().answer_attention;
  ReadGoal goal;
  goal.answer = answers;
  goal.couple = any_asks_model(looks_) && round_ < rounds_of(looks_);
  goal.attention = answers && (options().attention || by_token);
  goal.last_attention = answers && by_token;
  goal.leave = leave;
  goal.forget = answers && forget_of(options()).forgets();
  reader_.emplace(*session_, *prompt_, options(), goal, keep_going_);
  return Done{};
}

Result<RequestStage> ActiveRequest::begin_answer() {
  if (!goes_on()) return finish();
  if (auto sound = model().sound(); !sound) return sound.error();
  if (others_.empty() && looks_are_crops(looks_)) {
    const Digest message = digest_of_question(messages_);
    for (const int image : images_) keep_look(session_->views[static_cast<size_t>(image)], message);
  }
  auto generator =
      Generator::start({*session_, *prompt_, options(), static_cast<int>(others_.size()), on_token_,
                        on_text_, keep_going_, watch_, reading_.attention},
                       std::move(reading_.logits), present());
  if (!generator) return generator.error();
  generator_ = std::move(*generator);
  // A device draws the first tokens of all that have come so far at once.
  return generator_->on_device() != nullptr ? RequestStage::kStep : step();
}

// Before a token that an answer is unsure of: one more look, which is read where the answer stands.
Result<bool> ActiveRequest::look_again() {
  const std::span<const float> logits = generator_->logits();
  if (!others_.empty() || logits.empty()) return false;
  for (Looked& looked : looks_)  // how sure it is after a look that it took
    if (!looked.saccades.empty() && looked.saccades.back().confidence == 0)
      looked.saccades.back().confidence = confidence_of(logits);
  if (round_ >= rounds_of(looks_)) return false;
  const bool asked = options().look_again && options().look_again();
  if (!asked && confidence_of(logits) >= options().relook) return false;
  std::vector<Shown> shown;
  for (const int image : images_) {
    const ImageView& view = session_->views[static_cast<size_t>(image)];
    shown.push_back({view.shown, grid_at(view.prepared->canvas(), 0)});
  }
  // One look takes all that is left: behind it the question is not read as coupling has it.
  for (Looked& looked : looks_) looked.rounds = std::min(looked.rounds, round_ + 1);
  watch_.lap(answer_.tokens.empty() ? "sample" : "generate");
  const auto taken =
      take_looks(*session_, images_, looks_, ++round_, prompt_, reading_, keep_going_);
  if (!taken) return taken.error();
  watch_.lap("look");
  if (!*taken) return false;  // it was stopped
  AddedTokens added = added_tokens(*prompt_, session_->views, images_, shown);
  if (added.tokens() == 0) return false;
  seen_half_way_ += added.tokens();
  forward_ = generator_->read(std::move(added));
  return true;
}

Result<RequestStage> ActiveRequest::step() {
  if (may_look_again(options())) {
    const auto looked = look_again();
    if (!looked) return looked.error();
    if (*looked) return RequestStage::kStep;
  }
  const auto more = generator_->draw();
  if (!more) return more.error();
  if (!*more) return end_answer() == RequestStage::kDone ? finish() : RequestStage::kPrefill;
  forward_ = generator_->step();
  return RequestStage::kStep;
}

RequestStage ActiveRequest::end_answer() {
  attended_.push_back(generator_->take_attended());
  generator_.reset();
  const auto answers = static_cast<int>(others_.size()) + 1;
  if (answers >= options().answers || present().finish == "cancelled") return RequestStage::kDone;
  others_.emplace_back().finish = "cancelled";
  return RequestStage::kPrefill;
}

Result<RequestStage> ActiveRequest::finish() {
  if (late_ && present().finish == "cancelled") present().finish = "deadline";
  if (prompt_) {
    report_looks(*session_, messages_, *prompt_, images_, std::move(looks_), reading_.attention,
                 answer_.trace);
    answer_.trace.usage.image_tokens += seen_half_way_;
    answer_.trace.usage.patches += seen_half_way_ * kPatchesPerCell;
    for (size_t i = 0; i < attended_.size(); ++i)
      report_attended(*prompt_, images_, answer_.trace.looks, reading_.attention, attended_[i],
                      i == 0 ? answer_ : others_[i - 1]);
  }
  finish_trace(*session_, watch_, answer_.trace);
  for (Answer& other : others_) {
    answer_.trace.usage.answer_tokens += static_cast<int64_t>(other.tokens.size());
    other.trace = {};
  }
  answer_.others = std::move(others_);
  return RequestStage::kDone;
}

bool ActiveRequest::was_ended() {
  constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  late_ = late_ || (!stopped_ && request_.deadline != kNever &&
                    std::chrono::steady_clock::now() >= request_.deadline);
  stopped_ = stopped_ || late_ || ticket_->cancelled;
  return stopped_;
}

// Never throws: it is asked in the middle of work that other requests share.
bool ActiveRequest::goes_on() {
  if (was_ended()) return false;
  try {
    stopped_ = options().keep_going && !options().keep_going();
  } catch (...) {
    thrown_ = std::current_exception();
    stopped_ = true;
  }
  return !stopped_;
}

void ActiveRequest::end(Result<Answer> result) {
  forward_ = nullptr;
  generator_.reset();
  reader_.reset();
  room_.reset();
  text_.reset();
  if (stage_ != RequestStage::kWaiting) session_->busy = false;
  stage_ = RequestStage::kDone;
  // Before anybody hears of the end: who waits for it may then let go of the engine.
  session_.reset();
  try {
    if (callbacks_.on_done) callbacks_.on_done(result);
  } catch (...) {
    if (!thrown_) thrown_ = std::current_exception();
  }
  // What their closures hold is let go of before that, too.
  on_text_ = nullptr;
  callbacks_ = {};
  request_ = {};
  ticket_->finish(std::move(result), std::move(thrown_));
}

}  // namespace fovea
