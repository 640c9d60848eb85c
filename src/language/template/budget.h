// SPDX-License-Identifier: Apache-2.0
// A template comes with a model and may be hostile, so everything it does is counted: the work, and
// the bytes that its values hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace fovea::jinja {

// Thrown inside the template engine alone; Template makes an Error of it.
struct TemplateError {
  std::string message;
};

[[noreturn]] void fail(std::string message);

// One rendering may use this much. A rendering runs on one thread; while its Budget lives, all that
// is done on that thread is charged to it. Nothing is charged where none lives: a template is read,
// and its variables are made, under limits of their own.
class Budget {
 public:
  static constexpr int kMaxDepth = 200;  // of values, syntax and calls
  // A step is about 25 ns: a comparison, a character changed, or eight bytes looked at.
  static constexpr size_t kSteps = 16'000'000;
  static constexpr size_t kBytes = size_t{64} << 20;     // held at one time
  static constexpr size_t kTextBytes = size_t{8} << 20;  // of any one text, the output among them
  // And more for each byte of the texts that the template is given.
  static constexpr size_t kStepsPerByte = 8;
  static constexpr size_t kBytesPerByte = 8;
  static constexpr size_t kBytesPerFirstByte = 64;  // of the first 4 MiB: room for their characters
  static constexpr size_t kTextBytesPerByte = 2;

  // `keep_going` is asked every few milliseconds of work; false ends the rendering.
  Budget(size_t input_bytes, std::function<bool()> keep_going);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static void spend(size_t steps) {
    if (current_ != nullptr) current_->take(steps);
  }
  static void look_at(size_t bytes) { spend(1 + bytes / 8); }
  static void check_text(size_t bytes);
  static void hold(size_t bytes);
  static void release(size_t bytes) noexcept;

  size_t spent_steps() const { return max_steps_ - left_; }
  size_t most_bytes() const { return most_; }
  size_t max_steps() const { return max_steps_; }
  size_t max_bytes() const { return max_bytes_; }

 private:
  static constexpr size_t kStepsBetweenPolls = 100'000;

  void take(size_t steps) {
    if (steps > left_) fail("it takes too many steps");
    left_ -= steps;
    if (left_ < next_poll_) poll();
  }
  void poll();

  static thread_local Budget* current_;

  size_t max_steps_;
  size_t max_bytes_;
  size_t max_text_bytes_;
  size_t left_;
  size_t next_poll_;  // when this many steps are left
  size_t held_ = 0;
  size_t most_ = 0;
  std::function<bool()> keep_going_;
  Budget* outer_;
};

// An allocator for all that values are made of.
template <class T>
struct Counted {
  using value_type = T;
  Counted() = default;
  template <class U>
  Counted(const Counted<U>& /*unused*/) noexcept {}  // NOLINT: implicit, as allocators convert
  T* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / sizeof(T)) throw std::bad_alloc();
    Budget::hold(count * sizeof(T));
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* pointer, size_t count) noexcept {
    Budget::release(count * sizeof(T));
    std::allocator<T>().deallocate(pointer, count);
  }
  friend bool operator==(const Counted&, const Counted&) { return true; }
};

using String = std::basic_string<char, std::char_traits<char>, Counted<char>>;

// Orders texts, and charges for it.
struct CountedLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const {
    Budget::look_at(std::min(a.size(), b.size()));
    return a < b;
  }
};

}  // namespace fovea::jinja
