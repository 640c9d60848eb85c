// SPDX-License-Identifier: Apache-2.0
// src/resample/resampler_parity_test.cc compares what it computes with transformers.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "engine/load_resampler.h"
#include "fovea/resampler.h"
#include "ops/test_values.h"
#include "places.h"

namespace fovea {
namespace {

std::string folder_of(const std::string& name) {
  return source_dir() + "/tests/fixtures/resample/" + name;
}

TEST(StateResampler, GivesTheTokensOfItsCheckpoint) {
  std::mt19937 random(3);
  for (const std::string name : {"qformer_odd", "perceiver_odd", "qformer_single"}) {
    auto resampler = StateResampler::load(folder_of(name), 2);
    ASSERT_TRUE(resampler) << resampler.error().message;
    const int count = 37;
    const auto states = random_values(static_cast<size_t>(count * resampler->state_size()), random);
    Threads threads(1);
    const auto inner = load_resampler(threads, folder_of(name));
    ASSERT_TRUE(inner) << inner.error().message;
    const VisualTokens wanted = inner->run(threads, states.data(), count);
    const StateResampler moved = *std::move(resampler);
    EXPECT_EQ(moved.tokens(), wanted.count);
    EXPECT_EQ(moved.token_size(), wanted.width);
    const auto tokens = moved.run(states);
    ASSERT_TRUE(tokens) << tokens.error().message;
    EXPECT_TRUE(same_bits(*tokens, {wanted.features.begin(), wanted.features.end()})) << name;
  }
}

TEST(StateResampler, SeveralThreadsMayUseOne) {
  const auto resampler = StateResampler::load(folder_of("perceiver_full"));
  ASSERT_TRUE(resampler) << resampler.error().message;
  std::mt19937 random(4);
  const auto states = random_values(static_cast<size_t>(50 * resampler->state_size()), random);
  const auto wanted = resampler->run(states);
  ASSERT_TRUE(wanted);
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      const auto tokens = resampler->run(states);
      ASSERT_TRUE(tokens);
      EXPECT_TRUE(same_bits(*tokens, *wanted));
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(StateResampler, WhatIsWrongIsSaid) {
  const auto nowhere = StateResampler::load("/nowhere/at/all");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("/nowhere/at/all"), std::string::npos);
  EXPECT_FALSE(StateResampler::load(folder_of("qformer_odd"), -1));
  const auto resampler = StateResampler::load(folder_of("qformer_odd"));
  ASSERT_TRUE(resampler);
  const auto size = static_cast<size_t>(resampler->state_size());
  EXPECT_FALSE(resampler->run({}));
  EXPECT_FALSE(resampler->run(std::vector<float>(2 * size + 1)));
  EXPECT_TRUE(resampler->run(std::vector<float>(2 * size)));
}

}  // namespace
}  // namespace fovea
