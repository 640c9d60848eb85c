// SPDX-License-Identifier: Apache-2.0
// What forgetting costs and gives, in whole requests: a prompt of every cell of a picture is read
// with all keys kept and with a tenth of them, one after the other, the order changing each time.
// `fovea bench requests --only keep [--model DIR]`.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/timed_requests.h"
#include "fovea/fovea.h"

namespace fovea {
namespace {

constexpr int kPairs = 9;
constexpr int kKeepTokens = 16;  // of an answer
constexpr double kKeep = 0.1;

struct Asked {
  double prefill_ms = 0;         // reading, choosing, moving, and reading the last token again
  std::vector<double> steps_ms;  // between tokens of the answer
  Usage usage;
  int64_t kv_bytes = 0;
};

std::optional<Asked> ask(const Asker& asker, int picture, const AskOptions& options) {
  Timed timed;
  if (!asker.submit(asker.request_of(picture, kQuestionWords, options, kKeepTokens), timed) ||
      !Asker::finish(timed, kKeepTokens))
    return std::nullopt;
  const Answer& answer = *timed.ticket->wait();
  Asked asked;
  for (const StageTime& time : answer.trace.times)
    if (time.stage == "read" || time.stage == "prefill" || time.stage == "forget")
      asked.prefill_ms += time.ms;
  asked.steps_ms.reserve(answer.tokens.size());
  for (size_t i = 1; i < answer.tokens.size(); ++i) asked.steps_ms.push_back(answer.tokens[i].ms);
  asked.usage = answer.trace.usage;
  asked.kv_bytes = answer.trace.kv_bytes;
  return asked;
}

// Whether the kept request forgot what it was told to, and the other one nothing.
bool forgot_as_told(const Asked& kept, const Asked& whole) {
  const Usage& usage = kept.usage;
  return whole.usage.visual_keys == 0 && whole.prefill_ms > 0 && usage.visual_keys > 0 &&
         usage.image_tokens == whole.usage.image_tokens &&
         usage.visual_keys % usage.image_tokens == 0 &&
         usage.visual_keys_kept == std::llround(kKeep * static_cast<double>(usage.visual_keys)) &&
         usage.kv_bytes_after < usage.kv_bytes_before;
}

// All pairs of one policy.
class Pairs {
 public:
  bool add(const Asked& kept, const Asked& whole) {
    if (!forgot_as_told(kept, whole)) return false;
    more_percent_.push_back(100 * (kept.prefill_ms - whole.prefill_ms) / whole.prefill_ms);
    kept_ms_.push_back(kept.prefill_ms);
    whole_ms_.push_back(whole.prefill_ms);
    kept_steps_.insert(kept_steps_.end(), kept.steps_ms.begin(), kept.steps_ms.end());
    whole_steps_.insert(whole_steps_.end(), whole.steps_ms.begin(), whole.steps_ms.end());
    tokens_ = kept.usage.image_tokens;
    kept_bytes_ = kept.kv_bytes;
    whole_bytes_ = whole.kv_bytes;
    return true;
  }

  void add_rows(Bench& bench, const std::string& name) const {
    const double whole = quantile(whole_ms_, 0.5);
    bench.add(true,
              {name + "/prefill",
               quantile(more_percent_, 0.5),
               "% more",
               {},
               fmt::format("{} visual tokens, the median of {} pairs, quartiles {:.1f} and "
                           "{:.1f}; {:.2f} ms, {:.2f} with all keys; the least {:.2f}, {:.2f}",
                           tokens_, more_percent_.size(), quantile(more_percent_, 0.25),
                           quantile(more_percent_, 0.75), quantile(kept_ms_, 0.5), whole,
                           quantile(kept_ms_, 0), quantile(whole_ms_, 0))});
    const double step = quantile(kept_steps_, 0.5);
    const double whole_step = quantile(whole_steps_, 0.5);
    bench.add(true, {name + "/decode",
                     step,
                     "ms",
                     {},
                     fmt::format("a token; {:.3f} with all keys: {:.2f}x as fast", whole_step,
                                 whole_step / step)});
    bench.add(true, {name + "/bytes",
                     static_cast<double>(kept_bytes_) / (1 << 20),
                     "MiB",
                     {},
                     fmt::format("of keys and values at the end; {:.2f} with all keys",
                                 static_cast<double>(whole_bytes_) / (1 << 20))});
  }

 private:
  std::vector<double> more_percent_;
  std::vector<double> kept_ms_;
  std::vector<double> whole_ms_;
  std::vector<double> kept_steps_;
  std::vector<double> whole_steps_;
  int64_t tokens_ = 0;
  int64_t kept_bytes_ = 0;
  int64_t whole_bytes_ = 0;
};

void bench_policy(Bench& bench, const Asker& asker, const std::string& policy,
                  const std::string& name) {
  AskOptions whole;
  whole.plan = "uniform";
  AskOptions kept = whole;
  kept.keep = kKeep;
  kept.forget = policy;
  Pairs pairs;
  bool good = true;
  for (int pair = -1; pair < kPairs && good; ++pair) {
    const bool kept_first = pair % 2 == 0;
    const auto first = ask(asker, pair + 1, kept_first ? kept : whole);
    const auto second = ask(asker, pair + 1, kept_first ? whole : kept);
    good = first && second;
    // The first pair makes what later ones find made.
    if (good && pair >= 0)
      good = kept_first ? pairs.add(*first, *second) : pairs.add(*second, *first);
  }
  if (!good) return bench.add(false, {name, 0, "ms"});
  pairs.add_rows(bench, name);
}

void bench_keep(Bench& bench) {
  if (bench.error || bench.device != "cpu") return;  // a GPU keeps all keys
  std::vector<std::string> policies;
  for (const ForgetChoice& choice : forget_choices())
    if (bench.wants("keep/" + choice.name)) policies.push_back(choice.name);
  if (policies.empty()) return;
  LoadOptions options;
  options.weights = bench.weights;
  options.kernels = bench.kernels;
  options.threads = bench.threads.size();
  const auto engine = Engine::load(bench.model.empty() ? "tiny" : bench.model, options);
  if (!engine) {
    bench.error = engine.error();
    return;
  }
  const Asker asker(*engine, kPairs + 1);
  for (const std::string& policy : policies) {
    const std::string name = "keep/" + policy;
    bench.progress(name);
    bench_policy(bench, asker, policy, name);
  }
}

// After "requests", whose first request is the first one of the process.
const BenchRegistration kRegistration("requests", "requests-keep", bench_keep);

}  // namespace
}  // namespace fovea
