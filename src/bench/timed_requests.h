// SPDX-License-Identifier: Apache-2.0
// Requests through the public API, and when their tokens came.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/fovea.h"
#include "relevance/test_images.h"

namespace fovea {

using Clock = std::chrono::steady_clock;

constexpr int kQuestionWords = 16;  // with the template about 32 tokens

inline double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// The value below which a share of them lies.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(share * last + 0.5)];
}

inline std::string question_of(int words) {
  std::string text = "What";
  for (int i = 1; i < words; ++i) text += " is";
  return text + "?";
}

// A request and when its tokens came.
struct Timed {
  Clock::time_point submitted;
  std::vector<Clock::time_point> tokens;
  std::optional<Ticket> ticket;

  double first_ms() const { return ms_between(submitted, tokens.front()); }
};

// When the last of them had its first token.
inline Clock::time_point last_first(const std::vector<Timed>& all) {
  auto last = all.front().tokens.front();
  for (const Timed& one : all) last = std::max(last, one.tokens.front());
  return last;
}

// Tokens a second between two times, of all together.
inline double token_rate(const std::vector<Timed>& all, Clock::time_point from,
                         Clock::time_point to) {
  int64_t tokens = 0;
  for (const Timed& one : all)
    tokens += std::count_if(one.tokens.begin(), one.tokens.end(),
                            [&](Clock::time_point token) { return token > from && token <= to; });
  return 1000 * static_cast<double>(tokens) / ms_between(from, to);
}

// Asks about pictures of 1024x1024 in host memory.
class Asker {
 public:
  Asker(const Engine& engine, int pictures) : engine_(engine) {
    pictures_.reserve(static_cast<size_t>(pictures));
    for (int i = 0; i < pictures; ++i)
      pictures_.push_back(scene_image({1024, 1024}, 7 + static_cast<uint32_t>(i), 300));
  }
  const Image& picture(int i) const { return pictures_[static_cast<size_t>(i) % pictures_.size()]; }

  Request request_of(int picture, int words, const AskOptions& options, int tokens) const {
    Request request;
    request.images.push_back(this->picture(picture));
    request.messages = {{"user", {{0, ""}, {-1, question_of(words)}}}};
    request.options = options;
    request.options.max_tokens = tokens;
    request.options.ignore_end = true;
    request.options.share = false;  // every request pays for all of it
    return request;
  }
  bool submit(Request request, Timed& timed) const {
    timed.tokens.clear();
    timed.tokens.reserve(static_cast<size_t>(request.options.max_tokens));
    Callbacks callbacks;
    callbacks.on_token = [&timed](int, const AnswerToken&) {
      timed.tokens.push_back(Clock::now());
    };
    timed.submitted = Clock::now();
    auto ticket = engine_.submit(std::move(request), std::move(callbacks));
    if (!ticket) return false;
    timed.ticket = std::move(*ticket);
    return true;
  }
  static bool finish(const Timed& timed, size_t tokens) {
    const Result<Answer>& answer = timed.ticket->wait();
    return answer && answer->tokens.size() == tokens && timed.tokens.size() == tokens;
  }
  // To the first token, in ms; negative where it failed.
  double ask(int picture, int words, const AskOptions& options) const {
    Timed timed;
    if (!submit(request_of(picture, words, options, 1), timed) || !finish(timed, 1)) return -1;
    return timed.first_ms();
  }

  // So many requests at once, to their ends; none where one failed.
  std::vector<Timed> ask_together(int count, const AskOptions& options, int tokens) const {
    std::vector<Timed> all(static_cast<size_t>(count));
    std::vector<Request> requests;
    requests.reserve(all.size());
    for (int i = 0; i < count; ++i)
      requests.push_back(request_of(i, kQuestionWords, options, tokens));
    bool good = true;
    for (size_t i = 0; i < all.size() && good; ++i) good = submit(std::move(requests[i]), all[i]);
    for (const Timed& one : all)
      good = one.ticket && finish(one, static_cast<size_t>(tokens)) && good;
    return good ? std::move(all) : std::vector<Timed>();
  }

 private:
  const Engine& engine_;
  std::vector<Image> pictures_;
};

}  // namespace fovea
