// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/pattern.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/thread_time.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

constexpr size_t kMaxPatternBytes = 64 * 1024;
// Tokenizers' patterns take a few steps a character. A match starts with few, and gets eight times
// as many where they are not enough, so that what it took is known to that factor.
constexpr uint32_t kFirstSteps = 256;
constexpr uint32_t kMaxSteps = 5'000'000;
constexpr uint32_t kMaxDepth = 100'000;
constexpr uint32_t kMaxHeapKib = 32 * 1024;
constexpr size_t kJitStackBytes = 1024 * 1024;

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};

template <class T, auto kFree>
using Owned = std::unique_ptr<T, Free<kFree>>;

template <class Pointer>
Pointer needed(Pointer pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

}  // namespace

PatternWork::PatternWork(size_t bytes, std::function<bool()> keep_going)
    : steps_left_(kSteps + kStepsPerByte * bytes),
      end_s_(thread_seconds() + most_seconds(bytes)),
      keep_going_(std::move(keep_going)) {}

Status PatternWork::take(uint32_t steps, size_t text_bytes) {
  if (steps > steps_left_) return bad_input("too many steps");
  steps_left_ -= steps;
  unpolled_bytes_ += text_bytes * std::max<size_t>(1, steps / kFirstSteps);
  if (unpolled_bytes_ < kBytesBetweenPolls) return Done{};
  unpolled_bytes_ = 0;
  if (keep_going_ && !keep_going_()) return failed("it was stopped");
  return thread_seconds() > end_s_ ? Status(bad_input("too much time")) : Status(Done{});
}

struct Pattern::Code {
  Owned<pcre2_code, pcre2_code_free> code;
  bool jit = false;
  std::string text;
};

struct Pattern::Search::State {
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;
};

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Result<Pattern> Pattern::compile(const std::string& text) {
  if (text.size() > kMaxPatternBytes)
    return bad_input(fmt::format("the pattern has {} bytes; at most {} are read", text.size(),
                                 kMaxPatternBytes));
  int error = 0;
  size_t at = 0;
  // Anchored: its limits hold for each place where a match may start, so these are tried one by
  // one.
  const uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_ANCHORED;
  auto code = std::make_unique<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), flags,
                                 &error, &at, nullptr));
  if (error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  if (!code->code)
    return bad_input(fmt::format("the pattern '{}' cannot be read at byte {}: {}",
                                 text.substr(0, 200), at, message_of(error)));
  code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  code->text = text;
  return Pattern(std::move(code));
}

Pattern::Search::Search(const Pattern& pattern)
    : pattern_(pattern), state_(std::make_unique<State>()) {
  state_->data.reset(
      needed(pcre2_match_data_create_from_pattern(pattern.code_->code.get(), nullptr)));
  state_->context.reset(needed(pcre2_match_context_create(nullptr)));
  pcre2_set_depth_limit(state_->context.get(), kMaxDepth);
  pcre2_set_heap_limit(state_->context.get(), kMaxHeapKib);
  if (!pattern.code_->jit) return;
  state_->stack.reset(needed(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)));
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

Pattern::Search::~Search() = default;
Pattern::Search::Search(Search&&) noexcept = default;

void Pattern::Search::start(std::string_view text, PatternWork& work) {
  text_ = text;
  work_ = &work;
  at_ = 0;
}

Result<int> Pattern::Search::match_here() {
  const uint32_t flags = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  const auto too_long = [this](const std::string& why) {
    return fmt::format(
        "the tokenizer's pattern '{}' takes too long on a text of {} bytes ({}); use the pattern "
        "the model was published with",
        pattern_.code_->text.substr(0, 200), text_.size(), why);
  };
  for (uint32_t steps = kFirstSteps;; steps = std::min(steps * 8, kMaxSteps)) {
    if (auto good = work_->take(steps, text_.size() - at_); !good)
      return Error{good.error().kind, too_long(good.error().message)};
    pcre2_set_match_limit(state_->context.get(), steps);
    const int count =
        pcre2_match(pattern_.code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()),
                    text_.size(), at_, flags, state_->data.get(), state_->context.get());
    if (count == PCRE2_ERROR_MATCHLIMIT && steps < kMaxSteps) continue;
    if (count == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (count < 0 && count != PCRE2_ERROR_NOMATCH) return bad_input(too_long(message_of(count)));
    return count;
  }
}

Result<Pattern::Match> Pattern::Search::next() {
  for (; at_ < text_.size(); at_ += read_code_point(text_.data() + at_).bytes) {
    const auto count = match_here();
    if (!count) return count.error();
    if (*count == PCRE2_ERROR_NOMATCH) continue;
    const size_t* const span = pcre2_get_ovector_pointer(state_->data.get());
    if (span[0] > span[1] || span[0] < at_)
      return bad_input(
          fmt::format("the tokenizer's pattern '{}' matches backwards (\\K); use the "
                      "pattern the model was published with",
                      pattern_.code_->text.substr(0, 200)));
    at_ = span[1];
    return Match{true, span[0], span[1]};
  }
  return Match{};
}

}  // namespace fovea
