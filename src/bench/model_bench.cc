// SPDX-License-Identifier: Apache-2.0
// A model from its files to answers: `fovea bench model --model DIR [--weights int8]`. The sizes
// are those that docs/results.md compares: a picture of 1024x1024 px, whole and with 68 tokens.
#include "bench/model_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <random>

#include "bench/bench.h"
#include "patches/patches.h"

namespace fovea {

double ms_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Image random_picture(Size size) {
  Image image(size);
  std::mt19937 random(11);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random() >> 24);
  return image;
}

std::string long_question(const std::shared_ptr<const Model>& model, AskOptions options) {
  Session session = session_of(model);
  std::string text = "What";
  options.max_tokens = 1;
  for (int more = 0; more < kQuestionTokens; ++more) {
    const auto answer = session.ask(text, options);
    if (!answer) break;
    const int64_t missing = kQuestionTokens - 2 - answer->trace.usage.text_tokens;
    if (missing <= 0) break;
    for (int64_t i = 0; i < missing; ++i) text += " is";
  }
  return text;
}

double stage_ms(const Answer& answer, const std::string& stage) {
  for (const StageTime& time : answer.trace.times)
    if (time.stage == stage) return time.ms;
  return 0;
}

namespace {

// What disturbs a call only ever makes it longer.
double best_ms(int calls, const std::function<void()>& body) {
  double best = ms_of(body);
  for (int i = 1; i < calls; ++i) best = std::min(best, ms_of(body));
  return best;
}

bool all_finite(const Buffer<float>& values) {
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [](float value) { return std::isfinite(value); });
}

double cosine(const Buffer<float>& a, const Buffer<float>& b) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

Plan square_plan(int side_cells) {
  Plan plan;
  for (int row = 0; row < side_cells; ++row)
    for (int col = 0; col < side_cells; ++col) plan.cells.push_back({0, row, col});
  return plan;
}

// One model in one format, and the names of its rows.
class ModelBench {
 public:
  ModelBench(Bench& bench, std::shared_ptr<const Model> model)
      : bench_(bench), model_(std::move(model)), format_(weight_format_name(model_->format)) {}

  void run(double load_ms) {
    add(true, "load", load_ms, "ms");
    ask_whole();
    ask_small();
    pyramid_ = std::make_unique<Pyramid>(build_pyramid(*model_->threads, random_picture()));
    for (const int patches : {256, 272, 4096}) tower(patches);
    for (const int tokens : {100, 512, 1056}) prefill(tokens);
    decode();
    decode_together();
  }

 private:
  void add(bool verified, const std::string& name, double value, const std::string& unit,
           std::optional<double> limit = {}, const std::string& note = "") {
    bench_.add(verified, {name + "/" + format_, value, unit, limit, note});
  }

  Session session_with_picture() const {
    Session session = session_of(model_);
    (void)session.add(random_picture());
    return session;
  }

  void ask_whole() {
    AskOptions options;
    options.max_tokens = 1;
    options.plan = "uniform";
    Session session = session_with_picture();
    const std::string asked = long_question(model_, options);
    const auto answer = session.ask(asked, options);
    if (!answer) return bench_.add(false, {"ask/1024x1024/" + format_ + "/first_token", 0, "ms"});
    const Trace& trace = answer->trace;
    bench_.add(trace.usage.image_tokens == 1024,
               {"ask/1024x1024/" + format_ + "/first_token",
                stage_ms(*answer, "first_token"),
                "ms",
                {},
                fmt::format("{} + {} tokens", trace.usage.image_tokens, trace.usage.text_tokens)});
    const double allowed =
        static_cast<double>(trace.weights_bytes + trace.kv_bytes) + 300 * 1048576.0;
    add(true, "peak", static_cast<double>(trace.peak_bytes), "bytes", allowed,
        "limit: weights + keys and values + 300 MiB");
  }

  void ask_small() {
    AskOptions options;
    options.max_tokens = 1;
    options.budget_tokens = kSmallBudget;
    options.share = false;  // a session pays for all of it
    const std::string asked = long_question(model_, options);
    double first_ms = 1e30;
    double next_ms = 1e30;
    bool verified = true;
    for (int i = 0; i < 3; ++i) {
      Session session = session_with_picture();
      const auto first = session.ask(asked, options);
      const auto next = session.ask("Now, " + asked, options);
      verified = verified && first && next && first->trace.usage.image_tokens == kSmallBudget;
      if (!verified) break;
      first_ms = std::min(first_ms, stage_ms(*first, "first_token"));
      next_ms = std::min(next_ms, stage_ms(*next, "first_token"));
    }
    const std::string name = fmt::format("ask/1024x1024/{}/{}/", kSmallBudget, format_);
    bench_.add(verified, {name + "first_token", first_ms, "ms"});
    bench_.add(verified, {name + "follow_up", next_ms, "ms"});
  }

  void tower(int patch_count) {
    const int side = static_cast<int>(std::sqrt(patch_count / 4));
    Plan plan = square_plan(side);
    for (int col = 0; plan.tokens() < patch_count / 4; ++col) plan.cells.push_back({0, side, col});
    const Patches patches = sample_patches(*model_->threads, *pyramid_, plan);
    VisualTokens tokens;
    const double ms = best_ms(patch_count > 1000 ? 1 : 3, [&] {
      TowerMemory memory;
      tokens = *model_->tower.encode(*model_->threads, patches, pyramid_->canvas(), memory,
                                     {.keep = false});
    });
    add(tokens.count == plan.tokens() && all_finite(tokens.features),
        fmt::format("tower/{}", patch_count), ms, "ms");
  }

  int random_id(std::mt19937& random) const {
    return static_cast<int>(random() % static_cast<uint32_t>(model_->config().text.vocab_size));
  }

  Buffer<float> run_tokens(int count, int chunk, DecoderMemory& memory) const {
    std::mt19937 random(static_cast<uint32_t>(count));
    std::vector<int> ids;
    std::vector<TokenPosition> positions;
    const int first = static_cast<int>(memory.tokens());
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<float>(first + i);
      ids.push_back(random_id(random));
      positions.push_back({at, at, at});
    }
    ForwardOptions options;
    options.chunk_tokens = chunk;
    auto logits = model_->decoder.forward(*model_->threads, {ids, positions, {}}, memory, options);
    return logits ? *std::move(logits) : Buffer<float>();
  }

  void prefill(int tokens) {
    Buffer<float> logits;
    const double ms = best_ms(tokens > 600 ? 1 : 2, [&] {
      DecoderMemory memory;
      logits = run_tokens(tokens, 512, memory);
    });
    bool verified = all_finite(logits);
    if (tokens == 100) {  // in other chunks, the same: in int8 but for the rounding of activations
      DecoderMemory memory;
      verified = verified && cosine(logits, run_tokens(tokens, 37, memory)) > 0.999;
    }
    add(verified, fmt::format("prefill/{}", tokens), ms, "ms", {},
        fmt::format("{:.1f} tokens/s", 1000 * tokens / ms));
  }

  // As many tokens a second as follow a prompt of 100, the median of 32.
  void decode() {
    DecoderMemory memory;
    memory.reserve(160);
    Buffer<float> logits = run_tokens(100, 512, memory);
    std::vector<double> times;
    bool verified = true;
    for (int i = 0; i < 32; ++i) {
      times.push_back(ms_of([&] { logits = run_tokens(1, 512, memory); }));
      verified = verified && all_finite(logits);
    }
    std::sort(times.begin(), times.end());
    const double ms = times[times.size() / 2];
    const double limit_ms =
        static_cast<double>(model_->decoder.bytes()) / bench_.read_bytes_per_ms();
    add(verified, "decode", 1000 / ms, "tokens/s", {},
        fmt::format("{:.1f} GB/s, {:.0f} % of read bandwidth",
                    static_cast<double>(model_->decoder.bytes()) / ms / 1e6, 100 * limit_ms / ms));
  }

  // Sequences after prompts of different length that step together. One of them takes steps of its
  // own alternately, so that a disturbance meets both.
  struct Stepping {
    DecoderMemory memory;
    int id = 0;
    TokenPosition at;
  };
  static ForwardRequest step_of(Stepping& one, int id) {
    one.id = id;
    const auto at = static_cast<float>(one.memory.tokens());
    one.at = {at, at, at};
    return {{{&one.id, 1}, {&one.at, 1}, {}}, &one.memory, {}, /*wants_logits=*/true};
  }

  void decode_together() {
    constexpr int kSequences = 8;
    constexpr int kSteps = 16;
    constexpr int kPrompt = 100;
    std::deque<Stepping> sequences(kSequences);
    for (int i = 0; i < kSequences; ++i) {
      sequences[static_cast<size_t>(i)].memory.reserve(kPrompt + 2 * kSteps);
      (void)run_tokens(kPrompt - 9 * i, 512, sequences[static_cast<size_t>(i)].memory);
    }
    std::mt19937 random(5);
    std::vector<ForwardRequest> requests;
    requests.reserve(sequences.size());
    for (Stepping& one : sequences) requests.push_back(step_of(one, 0));
    bool verified = true;
    std::vector<double> alone_ms;
    std::vector<double> all_ms;
    for (int i = 0; i < kSteps; ++i) {
      for (size_t s = 0; s < sequences.size(); ++s)
        requests[s].run = step_of(sequences[s], random_id(random)).run;
      Stepping& chosen = sequences[static_cast<size_t>(i % kSequences)];
      const ForwardRequest& together = requests[static_cast<size_t>(i % kSequences)];
      ForwardRequest alone = step_of(chosen, chosen.id);
      alone_ms.push_back(ms_of([&] { model_->decoder.work(*model_->threads, {&alone, 1}); }));
      chosen.memory.truncate(chosen.memory.tokens() - 1);
      all_ms.push_back(ms_of([&] { model_->decoder.work(*model_->threads, requests); }));
      for (const ForwardRequest& request : requests)
        verified = verified && request.done() && all_finite(request.logits);
      verified = verified && std::equal(alone.logits.begin(), alone.logits.end(),
                                        together.logits.begin(), together.logits.end());
    }
    std::sort(alone_ms.begin(), alone_ms.end());
    std::sort(all_ms.begin(), all_ms.end());
    const double alone = 1000 / alone_ms[alone_ms.size() / 2];
    const double all = 1000 * kSequences / all_ms[all_ms.size() / 2];
    add(verified, fmt::format("decode/{}", kSequences), all, "tokens/s", {},
        fmt::format("{:.2f} times one sequence's {:.1f} tokens/s", all / alone, alone));
  }

  Bench& bench_;
  std::shared_ptr<const Model> model_;
  std::string format_;
  std::unique_ptr<Pyramid> pyramid_;
};

void bench_model(Bench& bench) {
  LoadOptions options;
  options.weights = bench.weights;
  options.threads = bench.threads.size();
  Result<std::shared_ptr<const Model>> model = failed("not loaded");
  const double load_ms = ms_of([&] { model = load_model(bench.model, options); });
  if (!model) {
    bench.error = model.error();
    return;
  }
  ModelBench(bench, *model).run(load_ms);
  if ((*model)->format != WeightFormat::kInt8) return;
  const auto source_bytes = static_cast<double>((*model)->checkpoint.source_bytes());
  bench.add(true, {"convert/int8",
                   source_bytes / load_ms / 1e6,
                   "GB/s",
                   {},
                   fmt::format("of the files, {:.0f} % of read bandwidth",
                               100 * source_bytes / load_ms / bench.read_bytes_per_ms())});
}

const BenchRegistration kRegistered("model", "model", bench_model);

}  // namespace
}  // namespace fovea
