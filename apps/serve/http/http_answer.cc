// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http_answer.h"

#include <new>
#include <utility>

namespace fovea::serve {

struct HttpAnswer::Wake {
  std::shared_ptr<HttpAnswer> answer;

  using allocator_type = HttpSlotAllocator<void>;
  allocator_type get_allocator() const { return allocator_type(&answer->slot_); }
  void operator()() const {
    {
      const std::lock_guard lock(answer->mutex_);
      answer->under_way_ = false;  // Asio has given the slot back before this call
    }
    if (answer->waiter_ != nullptr) answer->waiter_->wake();
  }
};

HttpAnswer::HttpAnswer(std::shared_ptr<HttpLoop> loop, HttpWaiter& waiter)
    : loop_(std::move(loop)), waiter_(&waiter) {}

void HttpAnswer::wake() {
  if (left_ || under_way_) return;
  under_way_ = true;
  boost::asio::post(loop_->io, Wake{shared_from_this()});
}

void HttpAnswer::reply(HttpReply reply) {
  const std::lock_guard lock(mutex_);
  if (left_ || stage_ != Stage::kNone) return;
  std::swap(reply_, reply);
  stage_ = Stage::kWhole;
  ended_ = true;
  wake();
}

void HttpAnswer::begin_stream(HttpReply reply) {
  const std::lock_guard lock(mutex_);
  if (left_ || stage_ != Stage::kNone) return;
  std::swap(reply_, reply);
  stage_ = Stage::kBegun;
  wake();
}

void HttpAnswer::send(const std::string& piece) {
  const std::lock_guard lock(mutex_);
  const bool takes = stage_ == Stage::kBegun || stage_ == Stage::kStream;
  if (left_ || !takes || ended_ || broken_ || piece.empty()) return;
  const size_t unsent = pieces_.size() + being_sent_;
  try {
    // One piece may be larger: a client that reads gets it.
    broken_ = unsent > 0 && unsent + piece.size() > loop_->options.limits.unsent_bytes;
    if (!broken_) pieces_ += piece;
  } catch (const std::bad_alloc&) {
    broken_ = true;
  }
  if (broken_) std::string().swap(pieces_);
  wake();
}

void HttpAnswer::end_stream() {
  const std::lock_guard lock(mutex_);
  if (left_ || (stage_ != Stage::kBegun && stage_ != Stage::kStream)) return;
  ended_ = true;
  wake();
}

void HttpAnswer::drop() {
  const std::lock_guard lock(mutex_);
  if (left_ || ended_) return;
  ended_ = true;
  if (stage_ == Stage::kNone)
    stage_ = Stage::kDropped;
  else
    broken_ = true;  // a stream without an end must not look like one that has it
  wake();
}

void HttpAnswer::on_gone(std::function<void()> call) {
  bool has_gone = false;
  {
    const std::lock_guard lock(mutex_);
    has_gone = gone_;
    if (!left_) std::swap(on_gone_, call);  // one that was there goes when the lock has gone
  }
  if (!has_gone || !call) return;
  try {
    if (loop_->call_later(call)) return;
  } catch (const std::bad_alloc&) {  // then here
  }
  call();
}

HttpAnswer::Part HttpAnswer::next() {
  Part part;
  const std::lock_guard lock(mutex_);
  being_sent_ = 0;
  if (broken_) {
    part.kind = Part::Kind::kBroken;
  } else if (stage_ == Stage::kDropped) {
    part.kind = Part::Kind::kDropped;
    stage_ = Stage::kSent;
  } else if (stage_ == Stage::kWhole || stage_ == Stage::kBegun) {
    const bool is_whole = stage_ == Stage::kWhole;
    part.kind = is_whole ? Part::Kind::kWhole : Part::Kind::kBegin;
    stage_ = is_whole ? Stage::kSent : Stage::kStream;
    std::swap(part.reply, reply_);
  } else if (!pieces_.empty()) {
    part.kind = Part::Kind::kPieces;
    std::swap(part.pieces, pieces_);
    being_sent_ = part.pieces.size();
  } else if (stage_ == Stage::kStream && ended_) {
    part.kind = Part::Kind::kEnd;
    stage_ = Stage::kSent;
  }
  return part;
}

bool HttpAnswer::is_broken() {
  const std::lock_guard lock(mutex_);
  return broken_;
}

void HttpAnswer::leave() noexcept {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    if (left_) return;
    left_ = true;
    gone_ = !ended_;
    waiter_ = nullptr;
    std::string().swap(pieces_);
    std::swap(call, on_gone_);
  }
  if (!gone_ || !call) return;
  try {
    call();
  } catch (...) {  // its memory ran out: nobody else can be told
  }
}

namespace {

class Exchange final : public HttpExchange {
 public:
  Exchange(std::shared_ptr<HttpAnswer> answer, HttpRequest request, CountedBody body)
      : answer_(std::move(answer)), request_(std::move(request)), body_(std::move(body)) {}
  // NOLINTNEXTLINE(bugprone-exception-escape): it asks for a pointer to itself, which answer_ is.
  ~Exchange() override { answer_->drop(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override {
    body_.set(0);
    return std::exchange(request_.body, {});
  }
  void reply(HttpReply reply) override { answer_->reply(std::move(reply)); }
  void begin_stream(HttpReply reply) override { answer_->begin_stream(std::move(reply)); }
  void send(std::string piece) override { answer_->send(piece); }
  void end_stream() override { answer_->end_stream(); }
  void on_gone(std::function<void()> call) override { answer_->on_gone(std::move(call)); }

 private:
  const std::shared_ptr<HttpAnswer> answer_;
  HttpRequest request_;
  CountedBody body_;
};

}  // namespace

std::shared_ptr<HttpExchange> make_exchange(std::shared_ptr<HttpAnswer> answer, HttpRequest request,
                                            CountedBody body) {
  return std::make_shared<Exchange>(std::move(answer), std::move(request), std::move(body));
}

}  // namespace fovea::serve
