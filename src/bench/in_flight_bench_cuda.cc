// SPDX-License-Identifier: Apache-2.0
#include "bench/in_flight_bench_cuda.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/bench_front_end_cuda.h"
#include "language/sampler_cuda.h"
#include "pyramid/bench_pyramids_cuda.h"
#include "pyramid/upload_cuda.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

constexpr Size kCanvas = kEmulated ? Size{64, 64} : Size{1024, 1024};
constexpr int kRequests = kEmulated ? 3 : 32;
constexpr int kQuestionTokens = kEmulated ? 3 : 32;
constexpr int kAnswerTokens = kEmulated ? 2 : 32;
constexpr int kFrames = 1;         // of a still image
constexpr int kPassTokens = 4096;  // of a prefill: more do not make its products faster

Image busy_picture(Size size, uint32_t seed) { return scene_image(size, seed + 1, 300); }

class InFlight {
 public:
  InFlight(CudaBench& bench, const ModelConfig& config, CudaTower& tower, CudaDecoder& decoder)
      : bench_(bench), config_(config), tower_(tower), decoder_(decoder) {}

  void run(const std::string& name, MakerKind maker, int budget_tokens) {
    if (!bench_.report().wants(name)) return;
    bench_.report().progress(name);
    const CudaAccelerator::Lock lock(bench_.device());
    if (!make(maker, budget_tokens)) return bench_.settle(name);
    constexpr int kRounds = kEmulated ? 1 : 5;  // the first ones record graphs
    double first_ms = 0;
    double all_ms = 0;
    for (int round = 0; round < kRounds && bench_.good(); ++round) {
      start_ = std::chrono::steady_clock::now();
      to_first_tokens();
      first_ms = passed_ms();
      answer();
      all_ms = passed_ms();
    }
    if (!bench_.good()) return bench_.settle(name);
    const bool verified = sound();
    int tokens = 0;
    for (const int count : counts_) tokens += count;
    const std::string note =
        text_of("%d requests, %d + %d tokens of a prompt, answers of %d tokens", kRequests,
                tokens / kRequests, kQuestionTokens, kAnswerTokens);
    bench_.add(verified,
               {name,
                1000 * kRequests / all_ms,
                "images/s",
                {},
                note + text_of("; %.0f tokens/s", 1000.0 * kRequests * kAnswerTokens / all_ms)});
    bench_.add(verified, {name + "/first-token",
                          1000 * kRequests / first_ms,
                          "images/s",
                          {},
                          text_of("all of them after %.2f ms", first_ms)});
    bench_.add(verified, {name + "/decode",
                          1000.0 * kRequests * (kAnswerTokens - 1) / (all_ms - first_ms),
                          "tokens/s",
                          {},
                          "after the first"});
  }

 private:
  double passed_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

  bool make(MakerKind maker, int budget_tokens) {
    if (!pyramids_.make(bench_, kCanvas, kRequests, 0, 1, busy_picture) ||
        !front_end_.make(bench_, kCanvas, kRequests, maker, budget_tokens) ||
        !bench_.check(uploads_.open(kCanvas)) || !bench_.make(offsets_, kRequests + 1) ||
        !bench_.check(chosen_.at_least(kRequests)) ||
        !bench_.check(sampler_.open(bench_.get(), kRequests, config_.text.vocab_size)) ||
        !bench_.upload(states_, std::vector<SamplerState>(kRequests, make_sampler_state({}))))
      return false;
    const int room = front_end_.plans().room + kQuestionTokens + kAnswerTokens;
    for (int i = 0; i < kRequests; ++i) {
      prompts_.emplace_back(room, config_.text.vocab_size, static_cast<uint32_t>(i));
      owners_.emplace_back();
      const auto memory = decoder_.room_for(owners_.back(), 0, room);
      if (!memory) return bench_.check(memory.error());
      memories_.push_back(*memory);
    }
    return true;
  }

  void to_first_tokens() {
    if (!look()) return;
    std::vector<TowerRequest> requests;
    requests.reserve(counts_.size());
    for (const int count : counts_)
      requests.push_back({count * kPatchesPerCell, kCanvas, nullptr, 0, nullptr});
    auto tokens = tower_.run(requests, EncodeOptions(), kFrames);
    if (!tokens) {
      bench_.check(tokens.error());
      return;
    }
    tokens_ = std::move(*tokens);
    prefill();
    bench_.check(bench_.stream().wait());
  }

  // Canvases to the device, and their patches into the tower's memory. The host must know how many
  // each has.
  bool look() {
    const auto input = tower_.input(static_cast<int>(front_end_.room_cells()) * kPatchesPerCell);
    if (!input) return bench_.check(input.error());
    PyramidsOnDevice& pyramids = pyramids_.sets.front();
    uploads_.begin(pyramids.view());
    for (int i = 0; i < kRequests; ++i)
      if (!bench_.check(uploads_.push(pyramids_.of(i).rgb.data()))) return false;
    uploads_.hand_over(bench_.get());
    front_end_.enqueue(
        bench_.get(), pyramids,
        {kFrames, reinterpret_cast<uint16_t*>(input->patches), input->places, offsets_.data()});
    uploads_.release(bench_.get());
    counts_ = bench_.on_host(front_end_.plans().counts, kRequests);
    return bench_.good();
  }

  // Prompts by passes: the visual tokens of each first, then its question.
  void prefill() {
    for (int begin = 0; begin < kRequests && bench_.good();) {
      std::vector<PassRun> requests;
      std::vector<VisualSpan> spans;
      spans.reserve(kRequests);
      int rows = 0;
      int end = begin;
      for (; end < kRequests; ++end) {
        const auto at = static_cast<size_t>(end);
        const int length = counts_[at] + kQuestionTokens;
        if (rows > 0 && rows + length > kPassTokens) break;
        spans.push_back({0, &tokens_[at], 0, counts_[at]});
        requests.push_back({prompts_[at].ids_of(0, length),
                            prompts_[at].positions_of(0, length),
                            {&spans.back(), 1},
                            memories_[at],
                            0});
        rows += length;
      }
      bench_.check(decoder_.run(requests, pass_options()));
      choose(begin, end - begin);
      begin = end;
    }
  }

  // The most likely tokens after the last pass, for the requests it had.
  void choose(int begin, int count) {
    TokenChoiceJob job;
    job.logits = decoder_.logits();
    job.sequences = count;
    job.vocab = config_.text.vocab_size;
    job.states = states_.data();
    job.greedy_only = true;
    job.out = chosen_.data() + begin;
    choose_tokens_cuda(bench_.get(), job, sampler_);
  }

  // Every request moves on by the token that was chosen for it.
  void answer() {
    for (int step = 0; step + 1 < kAnswerTokens && bench_.good(); ++step) {
      std::vector<PassRun> requests;
      for (size_t i = 0; i < kRequests; ++i) {
        const int at = counts_[i] + kQuestionTokens + step;
        prompts_[i].ids[static_cast<size_t>(at)] = chosen_.data()[i].id;
        requests.push_back({prompts_[i].ids_of(at, at + 1),
                            prompts_[i].positions_of(at, at + 1),
                            {},
                            memories_[i],
                            at});
      }
      bench_.check(decoder_.run(requests, pass_options()));
      choose(0, kRequests);
      bench_.check(bench_.stream().wait());
    }
  }
  CudaDecoder::PassOptions pass_options() const {
    CudaDecoder::PassOptions options;
    options.layers = kEmulated ? 1 : config_.text.num_layers;
    options.logits = true;
    return options;
  }

  // Every picture has tokens and every logit is a number; the last request's are those it gets
  // alone.
  bool sound() {
    for (size_t i = 0; i < kRequests; ++i)
      if (counts_[i] < 1 || chosen_.data()[i].fault != ChoiceFault::kNone) return false;
    const auto vocabulary = static_cast<size_t>(config_.text.vocab_size);
    const auto all = bench_.on_host(decoder_.logits(), kRequests * vocabulary);
    constexpr size_t kLast = kRequests - 1;
    const int at = counts_[kLast] + kQuestionTokens + kAnswerTokens - 2;
    const PassRun request{prompts_[kLast].ids_of(at, at + 1),
                          prompts_[kLast].positions_of(at, at + 1),
                          {},
                          memories_[kLast],
                          at};
    if (!bench_.check(decoder_.run({&request, 1}, pass_options()))) return false;
    const auto alone = bench_.on_host(decoder_.logits(), vocabulary);
    double dot = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < vocabulary; ++i) {
      const double packed = all[kLast * vocabulary + i];
      dot += packed * alone[i];
      aa += packed * packed;
      bb += double{alone[i]} * alone[i];
    }
    return std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); }) &&
           dot > 0.999 * std::sqrt(aa * bb);
  }

  CudaBench& bench_;
  const ModelConfig& config_;
  CudaTower& tower_;
  CudaDecoder& decoder_;
  BenchPyramids pyramids_;
  BenchFrontEnd front_end_;
  CanvasUploads uploads_;
  DeviceMemory<int> offsets_;
  DeviceMemory<SamplerState> states_;
  SamplerWorkspace sampler_;
  PinnedMemory<ChosenToken> chosen_;
  std::vector<PromptTokens> prompts_;
  std::vector<std::shared_ptr<OnDevice>> owners_;
  std::vector<DecoderKeyValues*> memories_;
  std::vector<int> counts_;
  std::vector<VisualTokens> tokens_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

void bench_in_flight_cuda(CudaBench& bench, const ModelConfig& config, CudaTower& tower,
                          CudaDecoder& decoder) {
  constexpr int kSmallBudget = kEmulated ? 4 : 68;
  const auto cells = static_cast<int>(grid_at(kCanvas, 0).cells());
  InFlight(bench, config, tower, decoder).run("in-flight/32", MakerKind::kQuadtree, kSmallBudget);
  InFlight(bench, config, tower, decoder).run("in-flight/32/full", MakerKind::kUniform, cells);
}

}  // namespace fovea
