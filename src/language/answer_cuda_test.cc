// SPDX-License-Identifier: Apache-2.0
// Answers drawn and read on a GPU, against the same tokens chosen and read one by one.
#include "language/answer_cuda.h"

#include <algorithm>
#include <optional>

#include "device/cuda/test_accelerator.h"
#include "language/test_decoders.h"

namespace fovea {
namespace {

using test::RandomPrompt;

// The head's norm may be within its product or before it: roundings to bf16 of up to 2^-9.
constexpr double kNearLogprob = 0.02;
// Steps of many rows take products of another kind, which round elsewhere as well.
constexpr double kNearInCompany = 0.04;

class AnswerCuda : public AcceleratorTest {
 protected:
  void SetUp() override {
    AcceleratorTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    config_ = test::config_of(test::DecoderSize{.hidden = 16, .head_dim = 8, .intermediate = 24});
    const test::StoredTensors tensors = test::random_tensors(config_, 4);
    decoder_.emplace(
        *Decoder::build(config_, test::source_of(tensors, WeightFormat::kBf16), device_));
  }

  struct Told {
    std::vector<int> ids;
    std::vector<double> logprobs;
  };
  RandomPrompt prompt(uint32_t seed, int tokens = 9) { return {config_.text, {}, tokens, 0, seed}; }
  void read(const RandomPrompt& prompt, DecoderMemory& memory) {
    ASSERT_TRUE(*decoder_->read(threads_, prompt.run(), memory, {.leave_logits = true}));
  }
  std::unique_ptr<DeviceAnswer> start(const RandomPrompt& prompt, DecoderMemory& memory,
                                      const SamplingOptions& sampling, int64_t most) {
    auto answer = decoder_->answer(memory, {.sampling = sampling,
                                            .context = prompt.ids,
                                            .position = prompt.positions.next,
                                            .most_tokens = most});
    EXPECT_TRUE(answer);
    return std::move(*answer);
  }
  static void take(DeviceAnswer& answer, int64_t count, Told& told) {
    for (int64_t i = 0; i < count; ++i) {
      const auto token = answer.next();
      ASSERT_TRUE(token) << token.error().message;
      told.ids.push_back(token->id);
      told.logprobs.push_back(token->logprob);
    }
  }
  Told tell(const RandomPrompt& prompt, DecoderMemory& memory, const SamplingOptions& sampling,
            int64_t count) {
    Told told;
    read(prompt, memory);
    const auto answer = start(prompt, memory, sampling, count);
    take(*answer, count, told);
    return told;
  }

  // The logits after the prompt and each token of the answer but the last, by the decoder.
  std::vector<std::vector<float>> logits_along(const RandomPrompt& prompt,
                                               const std::vector<int>& ids) {
    std::vector<std::vector<float>> all;
    DecoderMemory memory;
    const auto add = [&](const Buffer<float>& logits) {
      all.emplace_back(logits.begin(), logits.end());
    };
    add(*decoder_->forward(threads_, prompt.run(), memory));
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const TokenPosition at = text_position(prompt.positions.next + static_cast<float>(i));
      add(*decoder_->forward(threads_, {{&ids[i], 1}, {&at, 1}, {}}, memory));
    }
    return all;
  }
  static double logprob_of(const std::vector<float>& logits, int id) {
    const float most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit} - most);
    return double{logits[static_cast<size_t>(id)]} - most - std::log(sum);
  }

  ModelConfig config_;
  Threads threads_{1};
  std::optional<Decoder> decoder_;
};

TEST_P(AnswerCuda, IsTheMostLikelyTokenEachTime) {
  for (const uint32_t seed : {1u, 2u}) {
    const RandomPrompt asked = prompt(seed);
    DecoderMemory memory;
    const Told told = tell(asked, memory, {}, 12);  // past the memory of the prompt
    const auto along = logits_along(asked, told.ids);
    for (size_t i = 0; i < told.ids.size(); ++i) {
      const float most = *std::max_element(along[i].begin(), along[i].end());
      EXPECT_LE(most - along[i][static_cast<size_t>(told.ids[i])], kNearLogprob) << "token " << i;
      EXPECT_NEAR(told.logprobs[i], logprob_of(along[i], told.ids[i]), kNearLogprob);
    }
    // All but the last have been read.
    EXPECT_EQ(memory.tokens(), 9 + 11);
    const TokenPosition at = text_position(asked.positions.next + 11);
    const Buffer<float> after =
        *decoder_->forward(threads_, {{&told.ids[11], 1}, {&at, 1}, {}}, memory);
    std::vector<int> longer = told.ids;
    longer.push_back(0);
    const auto expected = logits_along(asked, longer).back();
    EXPECT_LE(relative_error(expected, {after.data(), after.size()}), 1e-2);
  }
}

TEST_P(AnswerCuda, ASeedDrawsTheSameTokensEachTime) {
  const RandomPrompt asked = prompt(3);
  const SamplingOptions sampling{
      .temperature = 1.5, .top_k = 40, .repetition_penalty = 1.1, .seed = 11};
  std::vector<Told> all;
  for (int time = 0; time < 4; ++time) {
    DecoderMemory memory;
    all.push_back(tell(asked, memory, sampling, 8));
    EXPECT_EQ(all.back().ids, all.front().ids) << "time " << time;
    EXPECT_EQ(all.back().logprobs, all.front().logprobs) << "time " << time;
  }
  SamplingOptions other = sampling;
  other.seed = 12;
  DecoderMemory memory;
  EXPECT_NE(tell(asked, memory, other, 8).ids, all.front().ids);
}

// Each loads its own state when its turn comes.
TEST_P(AnswerCuda, AnswersByTurnsAreThoseAlone) {
  const RandomPrompt asked[] = {prompt(5), prompt(6, 4)};
  const std::vector<SamplingOptions> sampling = {
      {}, {.temperature = 1, .repetition_penalty = 1.2, .seed = 3}};
  std::vector<Told> alone;
  std::vector<DecoderMemory> memories(2);
  std::vector<std::unique_ptr<DeviceAnswer>> answers;
  for (size_t i = 0; i < 2; ++i) {
    DecoderMemory memory;
    alone.push_back(tell(asked[i], memory, sampling[i], 9));
  }
  for (size_t i = 0; i < 2; ++i) {
    read(asked[i], memories[i]);
    answers.push_back(start(asked[i], memories[i], sampling[i], 9));
  }
  std::vector<Told> told(2);
  for (const int64_t count : {1, 2, 1, 5})
    for (size_t i = 0; i < 2; ++i) take(*answers[i], count, told[i]);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(told[i].ids, alone[i].ids) << "answer " << i;
    EXPECT_EQ(told[i].logprobs, alone[i].logprobs) << "answer " << i;
  }
}

// An answer among others, from a step of theirs on.
struct Joining {
  int tokens_of_prompt = 1;
  int64_t most = 1;
  int from_step = 0;
  SamplingOptions sampling = {};
};

// They come and go, so that rows are taken, given back and moved, and steps have 1, 2, 4 and 8
// rows.
std::vector<Joining> joining() {
  const SamplingOptions drawn{.temperature = 1, .top_k = 30, .repetition_penalty = 1.3, .seed = 5};
  return {{9, 12, 0}, {4, 3, 0}, {1, 7, 1, drawn}, {6, 1, 3},
          {17, 9, 4}, {3, 5, 4}, {5, 6, 5, drawn}};
}

TEST_P(AnswerCuda, AnswersTogetherAreTheirMostLikelyTokens) {
  const std::vector<Joining> all = joining();
  std::vector<std::vector<Told>> times;
  for (int time = 0; time < 2; ++time) {
    std::vector<Told> told(all.size());
    std::vector<DecoderMemory> memories(all.size());
    std::vector<std::unique_ptr<DeviceAnswer>> answers(all.size());
    for (int step = 0; step < 16; ++step) {
      std::vector<DeviceAnswer*> going;
      for (size_t i = 0; i < all.size(); ++i) {
        const RandomPrompt asked = prompt(20 + static_cast<uint32_t>(i), all[i].tokens_of_prompt);
        if (all[i].from_step == step) {
          read(asked, memories[i]);
          answers[i] = start(asked, memories[i], all[i].sampling, all[i].most);
        }
        if (answers[i] != nullptr) going.push_back(answers[i].get());
      }
      if (!going.empty()) decoder_->draw(going);
      for (size_t i = 0; i < all.size(); ++i) {
        if (answers[i] == nullptr) continue;
        take(*answers[i], 1, told[i]);
        if (static_cast<int64_t>(told[i].ids.size()) == all[i].most) answers[i].reset();
      }
    }
    times.push_back(std::move(told));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Told& told = times[0][i];
    ASSERT_EQ(static_cast<int64_t>(told.ids.size()), all[i].most) << "answer " << i;
    EXPECT_EQ(told.ids, times[1][i].ids) << "answer " << i;
    EXPECT_EQ(told.logprobs, times[1][i].logprobs) << "answer " << i;
    const RandomPrompt asked = prompt(20 + static_cast<uint32_t>(i), all[i].tokens_of_prompt);
    const auto along = logits_along(asked, told.ids);
    for (size_t t = 0; t < told.ids.size(); ++t) {
      const float most = *std::max_element(along[t].begin(), along[t].end());
      const double behind = most - along[t][static_cast<size_t>(told.ids[t])];
      EXPECT_LE(all[i].sampling.temperature == 0 ? behind : 0, kNearInCompany)
          << "answer " << i << " token " << t;
      EXPECT_NEAR(told.logprobs[t], logprob_of(along[t], told.ids[t]), kNearInCompany)
          << "answer " << i << " token " << t;
    }
  }
}

// One that finds no memory leaves the others as they are.
TEST_P(AnswerCuda, AnAnswerTogetherThatFailsFailsAlone) {
  if (!kEmulated) GTEST_SKIP() << "memory runs out when it should in an emulation alone";
  const RandomPrompt asked[] = {prompt(31), prompt(32)};
  std::vector<DecoderMemory> memories(2);
  memories[0].reserve(40);  // the other one has to grow
  for (size_t i = 0; i < 2; ++i) read(asked[i], memories[i]);
  std::vector<std::unique_ptr<DeviceAnswer>> answers;
  for (size_t i = 0; i < 2; ++i) answers.push_back(start(asked[i], memories[i], {}, 8));
  std::vector<DeviceAnswer*> going = {answers[0].get(), answers[1].get()};
  decoder_->draw(going);  // the device is one token ahead: both have read one
  Told told;
  take(*answers[0], 1, told);
  EXPECT_TRUE(answers[1]->next());
  limit_allocations(0);
  int failed_at = -1;
  for (int step = 1; step < 8; ++step) {
    decoder_->draw(going);
    take(*answers[0], 1, told);
    if (going.size() == 1 || answers[1]->next()) continue;
    failed_at = step;
    going.pop_back();
  }
  limit_allocations(-1);
  EXPECT_GE(failed_at, 1);
  DecoderMemory fresh;
  const Told alone = tell(asked[0], fresh, {}, 8);
  EXPECT_EQ(told.ids, alone.ids);
}

TEST_P(AnswerCuda, ConfidenceIsTheProbabilityOfTheFirst) {
  const RandomPrompt asked = prompt(8);
  DecoderMemory memory;
  read(asked, memory);
  const auto sure = decoder_->confidence(memory);
  ASSERT_TRUE(sure);
  const auto answer = start(asked, memory, {}, 1);
  Told told;
  take(*answer, 1, told);
  EXPECT_NEAR(*sure, std::exp(told.logprobs[0]), 1e-5);
}

TEST_P(AnswerCuda, NoMemoryIsAnErrorAndNoMore) {
  if (!kEmulated) GTEST_SKIP() << "memory runs out when it should in an emulation alone";
  const RandomPrompt asked = prompt(9);
  DecoderMemory fresh;
  const Told expected = tell(asked, fresh, {}, 3);
  int failures = 0;
  for (int allowed = 0; allowed < 8; ++allowed) {
    DecoderMemory memory;
    read(asked, memory);
    limit_allocations(allowed);
    Told told;
    bool failed = false;
    {
      auto answer = decoder_->answer(memory, {.sampling = {},
                                              .context = asked.ids,
                                              .position = asked.positions.next,
                                              .most_tokens = 3});
      failed = !answer;
      for (int i = 0; i < 3 && !failed; ++i) failed = !(*answer)->next();
    }
    limit_allocations(-1);
    failures += failed ? 1 : 0;
    DecoderMemory again;
    EXPECT_EQ(tell(asked, again, {}, 3).ids, expected.ids) << allowed;
  }
  EXPECT_GE(failures, 2);
}

INSTANTIATE_TEST_SUITE_P(kernels, AnswerCuda, testing::ValuesIn(kernel_choices()),
                         kernel_choice_name);

}  // namespace
}  // namespace fovea
