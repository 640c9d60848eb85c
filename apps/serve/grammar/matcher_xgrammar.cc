// SPDX-License-Identifier: Apache-2.0
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/grammar/matcher.h"

// What xgrammar asks for where it is built with XGRAMMAR_LOG_CUSTOMIZE: its
// errors are thrown without a place of its source, and what it has to say
// besides is not for our log.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& /*file*/, int /*line*/,
                               const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int /*level*/,
                    const std::string& /*message*/) {}

}  // namespace xgrammar

namespace fovea::serve {
namespace {

// Follows one answer. A copy begins anew, since a matcher's own copies share
// their state.
class AnswerMask {
 public:
  explicit AnswerMask(xgrammar::CompiledGrammar grammar) : grammar_(std::move(grammar)) {}
  AnswerMask(const AnswerMask& other) : grammar_(other.grammar_) {}
  AnswerMask(AnswerMask&&) = default;
  AnswerMask& operator=(const AnswerMask&) = delete;
  AnswerMask& operator=(AnswerMask&&) = delete;
  ~AnswerMask() = default;

  void operator()(std::span<const int> answer, std::span<uint64_t> allowed) {
    try {
      if (follow(answer)) return allow(allowed);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {  // the engine says that nothing is allowed
      matcher_.reset();
    }
    std::fill(allowed.begin(), allowed.end(), 0);
  }

 private:
  // Whether the answer so far is of the grammar, and not at its end.
  bool follow(std::span<const int> answer) {
    const bool goes_on = matcher_ && accepted_.size() <= answer.size() &&
                         std::equal(accepted_.begin(), accepted_.end(), answer.begin());
    if (!goes_on) {
      matcher_.emplace(grammar_);
      accepted_.clear();
    }
    for (const int id : answer.subspan(accepted_.size())) {
      if (matcher_->IsTerminated() || !matcher_->AcceptToken(id)) return false;
      accepted_.push_back(id);
    }
    return !matcher_->IsTerminated();
  }

  // xgrammar has a bit for each token, too, in words of 32.
  void allow(std::span<uint64_t> allowed) {
    const int vocab_size = grammar_.GetTokenizerInfo().GetVocabSize();
    bits_.assign(static_cast<size_t>(xgrammar::GetBitmaskSize(vocab_size)), 0);
    auto words = static_cast<int64_t>(bits_.size());
    DLTensor tensor{.data = bits_.data(),
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = xgrammar::GetBitmaskDLType(),
                    .shape = &words,
                    .strides = nullptr,
                    .byte_offset = 0};
    if (!matcher_->FillNextTokenBitmask(&tensor)) return;  // all are
    for (size_t i = 0; i < allowed.size(); ++i) {
      const auto word = [&](size_t at) -> uint64_t {
        return at < bits_.size() ? static_cast<uint32_t>(bits_[at]) : 0;
      };
      allowed[i] = word(2 * i) | word(2 * i + 1) << 32;
    }
  }

  xgrammar::CompiledGrammar grammar_;
  std::optional<xgrammar::GrammarMatcher> matcher_;
  std::vector<int> accepted_;
  std::vector<int32_t> bits_;
};

xgrammar::TokenizerInfo tokens_of(const TokenTexts& vocabulary) {
  const std::vector<int32_t> ends(vocabulary.end_ids.begin(), vocabulary.end_ids.end());
  return {vocabulary.tokens, xgrammar::VocabType::RAW, static_cast<int>(vocabulary.tokens.size()),
          ends,
          /*add_prefix_space=*/false};
}

// An answer's first token: whether there may be any, and whether it may be the end.
struct FirstToken {
  bool any = false;
  bool end = false;
};

FirstToken first_token_of(const xgrammar::CompiledGrammar& grammar,
                          const std::vector<int>& end_ids) {
  const auto tokens = static_cast<size_t>(grammar.GetTokenizerInfo().GetVocabSize());
  std::vector<uint64_t> allowed((tokens + 63) / 64, ~uint64_t{0});
  AnswerMask mask(grammar);
  mask({}, allowed);
  FirstToken first;
  first.any = std::any_of(allowed.begin(), allowed.end(), [](uint64_t word) { return word != 0; });
  first.end = std::any_of(end_ids.begin(), end_ids.end(), [&](int id) {
    const auto at = static_cast<size_t>(id);
    return at / 64 < allowed.size() && (allowed[at / 64] >> (at % 64) & 1) != 0;
  });
  return first;
}

// xgrammar writes what it found false, as its source has it, before its words.
std::string without_source(std::string message) {
  constexpr std::string_view kEnd = ") is false: ";
  for (const std::string_view begin : {"Internal check failed: (", "Check failed: ("})
    for (size_t at = 0; (at = message.find(begin, at)) != std::string::npos;) {
      const size_t end = message.find(kEnd, at);
      if (end == std::string::npos) break;
      message.erase(at, end + kEnd.size() - at);
    }
  return message.empty() ? "it is none that a grammar can be made of" : message;
}

}  // namespace

struct CompiledStructure::Grammar {
  xgrammar::CompiledGrammar compiled;
  bool may_be_empty;
};

struct StructureCompiler::State {
  explicit State(const TokenTexts& vocabulary)
      : end_ids(vocabulary.end_ids),
        compiler(tokens_of(vocabulary), /*max_threads=*/1,
                 /*cache_enabled=*/false) {}
  const std::vector<int> end_ids;
  xgrammar::GrammarCompiler compiler;
};

bool has_grammars() { return true; }

CompiledStructure::CompiledStructure(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {}

TokenMask CompiledStructure::mask() const { return AnswerMask(grammar_->compiled); }

int64_t CompiledStructure::bytes() const {
  return static_cast<int64_t>(grammar_->compiled.MemorySizeBytes());
}

bool CompiledStructure::may_be_empty() const { return grammar_->may_be_empty; }

StructureCompiler::StructureCompiler(const TokenTexts& vocabulary)
    : state_(std::make_unique<State>(vocabulary)) {}
StructureCompiler::~StructureCompiler() = default;

Result<CompiledStructure> StructureCompiler::compile(const std::string& structure) {
  try {
    auto compiled = state_->compiler.CompileStructuralTag(structure);
    const FirstToken first = first_token_of(compiled, state_->end_ids);
    if (!first.any) return bad_input("no answer has this form");
    return CompiledStructure(std::make_shared<const CompiledStructure::Grammar>(
        CompiledStructure::Grammar{std::move(compiled), first.end}));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return bad_input(without_source(error.what()));
  }
}

}  // namespace fovea::serve
