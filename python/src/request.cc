// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "answer.h"
#include "errors.h"
#include "text.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

using std::chrono::milliseconds;

// How often a thread that waits looks for signals.
constexpr milliseconds kSlice{50};

thread_local bool runs_callback = false;

// Ends a request whose callable raised; what it raised is in the feed.
struct CallableRaised : std::exception {};

// The bits of `bytes` that are clear take those of `allowed` away.
void clear_bits(const nb::bytes& bytes, std::span<uint64_t> allowed) {
  std::vector<uint64_t> bits(allowed.size(), 0);
  std::memcpy(bits.data(), bytes.data(), std::min(bytes.size(), allowed.size_bytes()));
  for (size_t i = 0; i < bits.size(); ++i) allowed[i] &= bits[i];
}

// What the engine holds until the request is done, and Python's end waits for.
struct Held {
  Pending pending;  // first, so that it goes last
  std::shared_ptr<Feed> feed = std::make_shared<Feed>();
  std::shared_ptr<SharedObject> mask;
};

TokenMask mask_of(const std::shared_ptr<Held>& held) {
  return [held](std::span<const int> ids, std::span<uint64_t> allowed) {
    const nb::gil_scoped_acquire lock;
    runs_callback = true;
    try {
      nb::list so_far;
      for (const int id : ids) so_far.append(id);
      const nb::object said = held->mask->get()(so_far, allowed.size() * 64);
      runs_callback = false;
      if (!said.is_none()) clear_bits(nb::cast<nb::bytes>(said), allowed);
    } catch (nb::python_error& raised) {
      runs_callback = false;
      held->feed->keep_raised(nb::borrow(raised.value()));
      throw CallableRaised();
    }
  };
}

}  // namespace

Feed::~Feed() {
  if (wakes_.empty() && !raised_.is_valid()) return;
  const nb::gil_scoped_acquire lock;
  wakes_.clear();
  raised_.reset();
}

void Feed::push(std::string_view piece) {
  {
    const std::lock_guard lock(mutex_);
    pieces_.emplace_back(piece);
  }
  changed_.notify_all();
  wake();
}

void Feed::finish() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  wake();
}

void Feed::keep_logits(std::span<const float> logits) {
  logits_.insert(logits_.end(), logits.begin(), logits.end());
}

void Feed::keep_raised(nb::object raised) { raised_ = std::move(raised); }

void Feed::wake() {
  std::vector<nb::object> wakes;
  {
    const std::lock_guard lock(mutex_);
    std::swap(wakes, wakes_);
  }
  if (wakes.empty()) return;
  const nb::gil_scoped_acquire lock;
  for (const nb::object& wake_one : wakes) {
    try {
      wake_one();
    } catch (nb::python_error&) {  // NOLINT(bugprone-empty-catch)
      // The event loop that waited was closed: nobody is left to be told.
    }
  }
  wakes.clear();
}

std::optional<std::string> Feed::take(milliseconds wait, bool& ended) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return ended_ || !pieces_.empty(); });
  ended = ended_ && pieces_.empty();
  if (pieces_.empty()) return std::nullopt;
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

bool Feed::arm(nb::object wake) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !pieces_.empty()) return false;
  wakes_.push_back(std::move(wake));
  return true;
}

void refuse_to_wait_in_callback() {
  if (runs_callback)
    raise(
        bad_input("a callable that the engine calls waits for a request, which may wait for it; "
                  "submit it and let it go on"));
}

AskedRequest::AskedRequest(Ticket ticket, std::shared_ptr<Feed> feed, bool keep)
    : ticket_(std::move(ticket)), feed_(std::move(feed)) {
  if (!keep)
    dropped_.reset(static_cast<void*>(this), [last = ticket_](void*) mutable { last.cancel(); });
}

bool AskedRequest::wait(double seconds) const {
  refuse_to_wait_in_callback();
  using Clock = std::chrono::steady_clock;
  const bool forever = seconds < 0;
  const Clock::time_point start = Clock::now();
  for (;;) {
    milliseconds slice = kSlice;
    if (!forever) {
      const double left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
      slice = milliseconds(
          std::clamp<int64_t>(static_cast<int64_t>(std::min(left, 1.0) * 1e3), 0, kSlice.count()));
    }
    bool is_done = ticket_.done();
    if (!is_done) {
      const Released released;
      is_done = ticket_.wait_for(slice);
    }
    if (is_done) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!forever && std::chrono::duration<double>(Clock::now() - start).count() >= seconds)
      return false;
  }
}

void AskedRequest::wait_out() const {
  refuse_to_wait_in_callback();
  if (ticket_.done() || is_ending()) return;
  const Released released;
  while (!ticket_.wait_for(kSlice)) {
  }
}

nb::object AskedRequest::next() const {
  refuse_to_wait_in_callback();
  for (;;) {
    bool ended = false;
    std::optional<std::string> piece;
    {
      const Released released;
      piece = feed_->take(kSlice, ended);
    }
    if (piece) return text_object(*piece);
    if (ended) return nb::none();
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

nb::object AskedRequest::next_now() const {
  bool ended = false;
  const std::optional<std::string> piece = feed_->take(milliseconds(0), ended);
  if (piece) return text_object(*piece);
  if (ended) return nb::none();
  return nb::bool_(false);
}

nb::object AskedRequest::answer() const {
  wait_out();
  if (!ticket_.done()) refuse_at_end();
  try {
    const Result<Answer>& answer = ticket_.wait();
    if (!answer) raise(answer.error());
    return answer_object(std::make_shared<Answer>(*answer), feed_->take_logits());
  } catch (const CallableRaised&) {
    const nb::object raised = feed_->raised();
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
    throw nb::python_error();
  }
}

nb::object AskedRequest::wait_for_answer() const {
  try {
    wait(-1);
  } catch (nb::python_error&) {
    Ticket(ticket_).cancel();
    wait_out();
    throw;
  }
  return answer();
}

Result<AskedRequest> submit(Session& session, std::vector<Message> messages, AskKeywords keywords,
                            AskedFor asked_for) {
  const auto held = std::make_shared<Held>();
  std::shared_ptr<Feed> feed = held->feed;

  Request request;
  request.messages = std::move(messages);
  request.options = std::move(keywords.options);
  request.priority = keywords.priority;
  request.deadline = keywords.deadline;
  request.options.keep_going = [held] { return !is_ending(); };
  held->mask = std::move(keywords.mask);
  if (held->mask) request.options.mask = mask_of(held);
  if (keywords.logits)
    request.options.on_logits = [held](std::span<const float> logits) {
      held->feed->keep_logits(logits);
    };
  Callbacks callbacks;
  if (asked_for.stream)
    callbacks.on_text = [held](int answer, std::string_view piece) {
      if (answer == 0) held->feed->push(piece);
      return true;
    };
  callbacks.on_done = [held](const Result<Answer>&) { held->feed->finish(); };
  auto ticket = session.submit(std::move(request), std::move(callbacks));
  if (!ticket) return ticket.error();
  // NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape): the ticket is moved.
  return AskedRequest(*std::move(ticket), std::move(feed), asked_for.keep);
}

void add_request(nb::module_& module) {
  nb::class_<AskedRequest>(module, "Request")
      .def("cancel", &AskedRequest::cancel)
      .def("stage", &AskedRequest::stage)
      .def("done", &AskedRequest::done)
      .def("wait", &AskedRequest::wait, nb::arg("seconds"))
      .def("wait_out", &AskedRequest::wait_out)
      .def("next", &AskedRequest::next)
      .def("next_now", &AskedRequest::next_now)
      .def("arm", &AskedRequest::arm, nb::arg("wake"))
      .def("answer", &AskedRequest::answer);
}

}  // namespace fovea::python
