// SPDX-License-Identifier: Apache-2.0
// What a user of the public API gets, on any device: the first token after loading, of shapes seen
// and not seen before, of follow-up questions; many requests at once; requests that arrive by
// chance. `fovea bench requests [--model DIR] [--device cuda]`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "bench/bench.h"
#include "bench/timed_requests.h"
#include "fovea/fovea.h"

namespace fovea {
namespace {

constexpr int kAlone = 12;  // requests one after the other
constexpr int kTogether = 32;
constexpr int kAnswerTokens = 32;
constexpr int kDecodeTokens = 96;

class RequestsBench {
 public:
  RequestsBench(Bench& bench, const Engine& engine)
      : bench_(bench), engine_(engine), asker_(engine, kTogether) {}

  void run() {
    first_request();
    alone("first-token/default", {});
    alone("first-token/68-blind", blind());
    new_lengths();
    follow_ups();
    decode(1);
    decode(8);
    (void)together("together/32-blind", blind());
    const double rate = together("together/32", {});
    if (rate > 0) arrivals(0.7 * rate);
  }

 private:
  // Makes its plan without the question: everything before the tower is one pass.
  static AskOptions blind() {
    AskOptions options;
    options.plan = "quadtree";
    options.budget_tokens = 68;
    return options;
  }

  bool wants(const std::string& name) {
    if (!bench_.wants(name)) return false;
    bench_.progress(name);
    return true;
  }

  void first_request() {
    bench_.progress("first-request");
    const double ms = asker_.ask(0, kQuestionWords, {});
    bench_.add(ms >= 0, {"first-request", ms, "ms", {}, "the first one after loading"});
  }

  void alone(const std::string& name, const AskOptions& options) {
    if (!wants(name)) return;
    std::vector<double> times(kAlone);
    for (int i = 0; i < kAlone; ++i)
      times[static_cast<size_t>(i)] = asker_.ask(i, kQuestionWords, options);
    const bool good = quantile(times, 0) >= 0;
    times.erase(times.begin(), times.begin() + 3);  // they make what later ones find made
    bench_.add(good, {name,
                      quantile(times, 0.5),
                      "ms",
                      {},
                      fmt::format("a shape seen before; worst {:.2f}", quantile(times, 1))});
  }

  void new_lengths() {
    if (!wants("first-token/new-length")) return;
    std::vector<double> times(kAlone);
    for (int i = 0; i < kAlone; ++i)
      times[static_cast<size_t>(i)] = asker_.ask(i, kQuestionWords + 3 + 5 * i, {});
    bench_.add(quantile(times, 0) >= 0,
               {"first-token/new-length",
                quantile(times, 0.5),
                "ms",
                {},
                fmt::format("prompt lengths not seen before; worst {:.2f}", quantile(times, 1))});
  }

  // A conversation of ten questions, each of another length.
  void follow_ups() {
    if (!wants("follow-up")) return;
    std::vector<double> times;
    bool good = true;
    Session session = engine_.session();
    good = static_cast<bool>(session.add(asker_.picture(0)));
    for (int i = 0; i < 10 && good; ++i) {
      AskOptions options;
      options.max_tokens = 8;
      options.ignore_end = true;
      std::optional<Clock::time_point> first;
      const auto start = Clock::now();
      const auto answer = session.ask(question_of(8 + 3 * i), options, [&](std::string_view) {
        if (!first) first = Clock::now();
        return true;
      });
      good = static_cast<bool>(answer);
      if (!good) break;
      // Where the text of the first tokens is not certain, the trace knows when they came.
      for (const StageTime& time : answer->trace.times)
        if (time.stage == "first_token")
          first = start + std::chrono::microseconds(static_cast<int64_t>(time.ms * 1000));
      if (i > 0) times.push_back(ms_between(start, *first));
    }
    bench_.add(good && !times.empty(),
               {"follow-up",
                times.empty() ? 0 : quantile(times, 0.5),
                "ms",
                {},
                times.empty() ? ""
                              : fmt::format("to the first token, questions 2 to 10 of a "
                                            "conversation; worst {:.2f}, last {:.2f}",
                                            quantile(times, 1), times.back())});
  }

  // Sequences that are decoded side by side, while none has ended.
  void decode(int count) {
    const std::string name = fmt::format("decode/{}", count);
    if (!wants(name)) return;
    double best = 0;
    bool good = true;
    for (int round = 0; round < 3 && good; ++round) {
      const auto all = asker_.ask_together(count, {}, kDecodeTokens);
      good = !all.empty();
      if (!good) break;
      auto first_end = all.front().tokens.back();
      for (const Timed& one : all) first_end = std::min(first_end, one.tokens.back());
      good = first_end > last_first(all);
      if (good) best = std::max(best, token_rate(all, last_first(all), first_end));
    }
    bench_.add(good, {name, best, "tokens/s", {}, "while all of them decode, the best of 3"});
  }

  // 32 requests at once; their rate, 0 where one failed.
  double together(const std::string& name, const AskOptions& options) {
    if (!wants(name)) return 0;
    std::vector<double> rates;
    std::vector<double> decodes;
    std::vector<double> firsts;
    for (int round = 0; round < 5; ++round) {
      const auto all = asker_.ask_together(kTogether, options, kAnswerTokens);
      if (all.empty()) {
        bench_.add(false, {name, 0, "images/s"});
        return 0;
      }
      const auto start = all.front().submitted;
      auto end = start;
      for (const Timed& one : all) end = std::max(end, one.tokens.back());
      rates.push_back(1000 * kTogether / ms_between(start, end));
      firsts.push_back(ms_between(start, last_first(all)));
      // While all of them answer: those that began early have fewer tokens left.
      decodes.push_back(token_rate(all, last_first(all), end));
    }
    const double rate = quantile(rates, 0.5);
    bench_.add(true, {name,
                      rate,
                      "images/s",
                      {},
                      fmt::format("median of 5, answers of {} tokens; all first tokens after "
                                  "{:.1f} ms",
                                  kAnswerTokens, quantile(firsts, 0.5))});
    bench_.add(
        true,
        {name + "/decode", quantile(decodes, 0.5), "tokens/s", {}, "from the last first token on"});
    return rate;
  }

  // Requests that arrive by chance, so many a second on average.
  void arrivals(double rate) {
    if (!wants("arrivals")) return;
    constexpr double kSeconds = 30;
    const auto most = static_cast<size_t>(std::min(rate * kSeconds, 6000.0));
    std::vector<Timed> all(most);
    std::mt19937 random(3);
    std::exponential_distribution<double> gap(rate);
    auto next = Clock::now();
    bool good = true;
    for (size_t i = 0; i < most && good; ++i) {
      Request request = asker_.request_of(static_cast<int>(i), kQuestionWords, {}, kAnswerTokens);
      std::this_thread::sleep_until(next);
      next += std::chrono::microseconds(static_cast<int64_t>(gap(random) * 1e6));
      good = asker_.submit(std::move(request), all[i]);
    }
    std::vector<double> times;
    for (const Timed& one : all) {
      good = good && one.ticket && Asker::finish(one, kAnswerTokens);
      if (good) times.push_back(one.first_ms());
    }
    if (!good) return bench_.add(false, {"arrivals", 0, "ms"});
    bench_.add(true, {"arrivals/p99",
                      quantile(times, 0.99),
                      "ms",
                      {},
                      fmt::format("to the first token; {:.1f} requests a second, {} of them; "
                                  "median {:.1f}, worst {:.1f}",
                                  rate, most, quantile(times, 0.5), quantile(times, 1))});
  }

  Bench& bench_;
  const Engine& engine_;
  Asker asker_;
};

void bench_requests(Bench& bench) {
  LoadOptions options;
  options.device = bench.device;
  options.weights = bench.weights;
  options.kernels = bench.kernels;
  options.threads = bench.threads.size();
  const auto loading = Clock::now();
  const auto engine = Engine::load(bench.model.empty() ? "tiny" : bench.model, options);
  if (!engine) {
    bench.error = engine.error();
    return;
  }
  bench.add(true,
            {"load", ms_between(loading, Clock::now()), "ms", {}, "files to a loaded engine"});
  RequestsBench(bench, *engine).run();
}

const BenchRegistration kRegistration("requests", "requests", bench_requests);

}  // namespace
}  // namespace fovea
