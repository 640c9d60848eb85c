// SPDX-License-Identifier: Apache-2.0
#include "serve/check_look.h"

#include <gtest/gtest.h>

namespace fovea::serve {
namespace {

TEST(CheckLook, NamesTheKeyThatIsUnknown) {
  EXPECT_FALSE(check_look({}));
  EXPECT_EQ(check_look({.plan = "nothing"})->param, "fovea.plan");
  EXPECT_EQ(check_look({.look = "nothing"})->param, "fovea.look");
  EXPECT_EQ(check_look({.balance = "nothing"})->param, "fovea.balance");
  EXPECT_EQ(check_look({.tower_attention = "nothing"})->param, "fovea.attention");
  EXPECT_EQ(check_look({.tower_attention = "window"})->param, "fovea.attention");
  EXPECT_EQ(check_look({.text_attention = "hierarchical"})->param, "fovea.attention_text");
  EXPECT_EQ(check_look({.kv = "int8,int4"})->param, "fovea.kv");
  EXPECT_FALSE(check_look({.kv = "f32,int8"}));
  EXPECT_FALSE(
      check_look({.tower_attention = "dense,hierarchical:0.2", .text_attention = "prefix"}));
  EXPECT_EQ(check_look({.plan = "nothing"})->status, 400);
}

TEST(CheckLook, NamesTheKeyThatTheEngineSpeaksOf) {
  EXPECT_EQ(named_error_of(bad_input("logit_bias names token 9, but ...")).param, "logit_bias");
  EXPECT_EQ(named_error_of(bad_input("a fixation at (1, 2) lies outside")).param,
            "fovea.fixations");
  EXPECT_EQ(named_error_of(bad_input("attention has more kinds than the tower")).param, "fovea");
  EXPECT_EQ(named_error_of(bad_input("kv has more formats than")).param, "fovea.kv");
  EXPECT_EQ(named_error_of(bad_input("something else")).param, "");
  EXPECT_EQ(named_error_of(failed("logit_bias")).status, 500);
  EXPECT_EQ(named_error_of(failed("logit_bias names")).param, "");
}

TEST(CheckLook, BlamesTheFormWhereItLeadsNowhere) {
  const Error dead_end = bad_input(
      "choosing token 4 of the answer: the mask allows none of the 720 tokens; leave one bit set");
  const ApiError blamed = named_error_of(dead_end, "response_format");
  EXPECT_EQ(blamed.param, "response_format");
  EXPECT_EQ(blamed.message,
            "choosing token 4 of the answer: the form that response_format gives allows nothing "
            "there; check its schema");
  const Error biased = bad_input(
      "choosing token 1 of the answer: logit_bias and the mask forbid every token that the model "
      "allows; allow one");
  EXPECT_EQ(named_error_of(biased, "response_format").param, "logit_bias");
}

TEST(CheckLook, NamesTheKeysOfASight) {
  EXPECT_FALSE(check_see({}));
  EXPECT_EQ(check_see({.plan = "nothing"})->param, "plan");
  EXPECT_EQ(check_see({.balance = "nothing"})->param, "balance");
  EXPECT_EQ(see_error_of(bad_input("a fixation at (1, 2) lies outside")).param, "fixations");
  EXPECT_EQ(see_error_of(bad_input("fixation -9,0 lies outside")).param, "fixations");
  EXPECT_EQ(see_error_of(bad_input("something else")).param, "");
}

}  // namespace
}  // namespace fovea::serve
