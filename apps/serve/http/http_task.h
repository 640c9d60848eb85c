// SPDX-License-Identifier: Apache-2.0
// Coroutines of the server's thread. Asio's own, asio::awaitable, ends the program where memory
// runs out at a wait: it takes what the wait needs after the coroutine has been left, and then
// again to end it. These throw at the co_await, so that a coroutine can end by itself.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "serve/http/http_asio.h"
#include "serve/http/http_slot.h"

namespace fovea::serve {

// A part of a coroutine's work, awaited once, at once: `const bool done = co_await part();`. A
// co_await stands there, behind co_return, or alone: inside a condition, or behind && and ||, g++
// 12 makes wrong code of it.
template <class T>
class [[nodiscard]] HttpTask {
 public:
  struct promise_type {
    T value{};
    std::exception_ptr thrown;
    std::coroutine_handle<> caller;  // where it waits for this

    // The caller may end this coroutine while it goes on: nothing of it is touched after that.
    struct End {
      bool await_ready() noexcept { return false; }
      void await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
        if (ended.promise().caller) ended.promise().caller.resume();
      }
      void await_resume() noexcept {}
    };
    HttpTask get_return_object() {
      return HttpTask(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    End final_suspend() noexcept { return {}; }
    void return_value(T its_value) { value = std::move(its_value); }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }
  };

  explicit HttpTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  ~HttpTask() {
    if (handle_) handle_.destroy();
  }
  HttpTask(HttpTask&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  HttpTask(const HttpTask&) = delete;
  HttpTask& operator=(const HttpTask&) = delete;

  // Runs it here. Only one that has to wait makes its caller wait: a caller that calls many that do
  // not goes on in its own frame, however many they are.
  bool await_ready() {
    handle_.resume();
    return handle_.done();
  }
  void await_suspend(std::coroutine_handle<> caller) noexcept { handle_.promise().caller = caller; }
  T await_resume() {
    if (handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
    return std::move(handle_.promise().value);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

// A coroutine that nobody awaits: it starts when it is called, and catches what is thrown in it.
struct HttpRoot {
  struct promise_type {
    HttpRoot get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

// co_await of one of these waits for what `start` is given a handler for.
template <class Start>
struct HttpWait {
  Start start;

  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    start([caller](const boost::system::error_code&) { caller.resume(); });
  }
  void await_resume() noexcept {}
};
template <class Start>
HttpWait(Start) -> HttpWait<Start>;

// The same with memory of its own for the wait.
template <class Start>
struct HttpSlotWait {
  HttpSlot& slot;
  Start start;

  struct Resume {
    HttpSlot* slot;
    std::coroutine_handle<> caller;

    using allocator_type = HttpSlotAllocator<void>;
    allocator_type get_allocator() const { return allocator_type(slot); }
    void operator()(const boost::system::error_code&) const { caller.resume(); }
  };
  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) { start(Resume{&slot, caller}); }
  void await_resume() noexcept {}
};
template <class Start>
HttpSlotWait(HttpSlot&, Start) -> HttpSlotWait<Start>;

}  // namespace fovea::serve
