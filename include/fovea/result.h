// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value, or the reason there is none.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace fovea {

struct Error {  // NOLINT(clang-analyzer-core.uninitialized.Assign): its constructor sets all
  // Whose doing it is decides the exit status: 2 for wrong input or usage, 1 for work that failed.
  enum class Kind { kBadInput, kFailed };
  // For programs that act on some errors.
  enum class Reason {
    kOther,
    kContext,  // the prompt is longer than the model's context
    kRoom,     // keys and values may need more than is left of the memory for them
    kMemory,   // the system has no more memory
  };

  // The message comes out as one printable line of at most 500 characters, whatever it quotes.
  Error(Kind its_kind, std::string_view its_message);

  Kind kind;
  Reason reason = Reason::kOther;
  std::string message;  // what was tried, the offending value, what to try instead
};

inline Error bad_input(std::string_view message) { return {Error::Kind::kBadInput, message}; }
inline Error failed(std::string_view message) { return {Error::Kind::kFailed, message}; }
inline Error because(Error::Reason reason, Error error) {
  error.reason = reason;
  return error;
}

// A value or an Error. Ask with `if (!result)`, then take `*result` or `result.error()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// The result of work that returns nothing.
struct Done {};
using Status = Result<Done>;

}  // namespace fovea
