// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/pattern.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <utility>

namespace fovea {
namespace {

constexpr size_t kMaxPatternBytes = 64 * 1024;
// Tokenizers' patterns take a few steps a character; one that backtracks over and over meets these
// within a fraction of a second.
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
  const uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  auto code = std::make_unique<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), flags,
                                 &error, &at, nullptr));
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
  pcre2_set_match_limit(state_->context.get(), kMaxSteps);
  pcre2_set_depth_limit(state_->context.get(), kMaxDepth);
  pcre2_set_heap_limit(state_->context.get(), kMaxHeapKib);
  if (!pattern.code_->jit) return;
  state_->stack.reset(needed(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)));
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

Pattern::Search::~Search() = default;
Pattern::Search::Search(Search&&) noexcept = default;

void Pattern::Search::start(std::string_view text) {
  text_ = text;
  at_ = 0;
}

Result<Pattern::Match> Pattern::Search::next() {
  if (at_ >= text_.size()) return Match{};
  const uint32_t flags = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  const int count =
      pcre2_match(pattern_.code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()),
                  text_.size(), at_, flags, state_->data.get(), state_->context.get());
  if (count == PCRE2_ERROR_NOMATCH) {
    at_ = text_.size();
    return Match{};
  }
  if (count < 0)
    return bad_input(
        fmt::format("the tokenizer's pattern '{}' takes too long on a text of {} bytes "
                    "({}); use the pattern the model was published with",
                    pattern_.code_->text.substr(0, 200), text_.size(), message_of(count)));
  const size_t* const span = pcre2_get_ovector_pointer(state_->data.get());
  if (span[0] > span[1] || span[0] < at_)
    return bad_input(
        fmt::format("the tokenizer's pattern '{}' matches backwards (\\K); use the "
                    "pattern the model was published with",
                    pattern_.code_->text.substr(0, 200)));
  at_ = span[1];
  return Match{true, span[0], span[1]};
}

}  // namespace fovea
