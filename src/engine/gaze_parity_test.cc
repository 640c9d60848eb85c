// SPDX-License-Identifier: Apache-2.0
// The extra tensors of a model of ours, and the whole of glance, look and answer, equal what plain
// torch makes of them around transformers' own modules (tools/golden/gaze.py).
#include <gtest/gtest.h>

#include "engine/model.h"
#include "engine/read.h"
#include "engine/session.h"
#include "engine/test_ask.h"
#include "language/gaze_head.h"
#include "media/decode.h"

namespace fovea {
namespace {

using test::gaze_path;
using test::ids_of;
using test::load_engine;

const nlohmann::json& golden() {
  static const auto read = nlohmann::json::parse(std::ifstream(gaze_path("golden.json")));
  return read;
}

std::vector<Cell> cells_of(const nlohmann::json& cells) {
  std::vector<Cell> made;
  for (const auto& cell : cells) made.push_back({cell[0], cell[1], cell[2]});
  return made;
}

AskOptions options_of(const nlohmann::json& one) {
  AskOptions options;
  options.budget_tokens = one["budget"];
  options.max_tokens = static_cast<int>(one["tokens"].size());
  options.ignore_end = true;
  options.likely_tokens = 5;
  return options;
}

// The rooms one after the other, without the engine: the share of every place.
std::vector<float> shares_of(const nlohmann::json& one) {
  const auto model = *load_model(gaze_path(), {});
  Threads& threads = *model->threads;
  Stopwatch watch;
  SessionState state(model);
  ImageView& view = state.views.emplace_back();
  auto image = read_image(gaze_path("scene.png"));
  EXPECT_TRUE(image) << image.error().message;
  const ProcessorConfig& processor = model->checkpoint.processor();
  view.prepared.emplace(*prepare(threads, *model->front_end, *image,
                                 {processor.min_pixels, processor.max_pixels}, watch));
  const Size canvas = view.prepared->canvas();
  std::vector<Cell> glance = cells_of(one["cells"]);
  glance.resize(one["glance"]);
  Looked looked;
  const auto shown = show_cells(*model, view, glance, true, nullptr, looked);
  EXPECT_TRUE(shown && *shown);
  const std::vector<Message> messages = {{"user", {{0, ""}, {-1, one["question"]}}}};
  const AskOptions defaults;
  const std::function<bool()> keep_going = [] { return true; };
  const auto prompt = make_token_prompt({.model = *model,
                                         .messages = messages,
                                         .images = {},
                                         .views = state.views,
                                         .options = defaults,
                                         .keep_going = keep_going});
  EXPECT_TRUE(prompt);

  HiddenReadout hidden;
  hidden.layers = model->gaze->config().layer;
  ForwardOptions options;
  options.hidden = &hidden;
  const RunStorage run = run_of(*prompt, 0, prompt->tokens());
  EXPECT_TRUE(*model->decoder.read(threads, run.run, state.memory, options));
  const ImageRange& range = prompt->images.front();
  const int64_t width = model->config().text.hidden_size;
  const auto keys = model->gaze->keys(threads, hidden.hidden.data() + range.begin * width,
                                      range.end - range.begin);
  const auto queries = model->gaze->queries(threads, hidden.hidden.data() + range.end * width,
                                            prompt->tokens() - range.end);
  return gaze_shares(threads, model->gaze->config(), {queries.data(), queries.size()},
                     {keys.data(), keys.size()}, canvas, glance.front().level)
      .share;
}

TEST(parity_gaze, EveryPlaceHasItsShare) {
  for (const auto& [name, one] : golden().items()) {
    SCOPED_TRACE(name);
    const std::vector<float> shares = shares_of(one);
    const auto expected = one["shares"].get<std::vector<double>>();
    ASSERT_EQ(shares.size(), expected.size());
    for (size_t i = 0; i < shares.size(); ++i)
      // float32 in another order of sums, through the tower, two layers and an exponential.
      EXPECT_NEAR(shares[i] / expected[i], 1, 1e-4) << "place " << i;
  }
}

TEST(parity_gaze, TheLookAndTheAnswerAreThose) {
  const Engine engine = load_engine({}, gaze_path());
  for (const auto& [name, one] : golden().items()) {
    SCOPED_TRACE(name);
    const auto answer = engine.ask({gaze_path("scene.png")}, one["question"], options_of(one));
    ASSERT_TRUE(answer) << answer.error().message;
    const Look& look = answer->trace.looks.at(0);
    EXPECT_EQ(look.glance_tokens, one["glance"]);
    EXPECT_EQ(look.look, "mixed");
    EXPECT_EQ(look.plan.cells, cells_of(one["cells"]));
    ASSERT_EQ(look.saccades.size(), 1u);
    const Map& coupling = look.saccades[0].coupling;
    for (int row = 0; row < coupling.grid.rows; ++row)
      for (int col = 0; col < coupling.grid.cols; ++col)
        // A share within 1e-5 moves a score of about half by 0.2 steps; a mean may round twice.
        EXPECT_NEAR(coupling.at(row, col), one["coupling"][row][col].get<int>(), 1)
            << row << "," << col;
    EXPECT_EQ(answer->trace.prompt, one["prompt"].get<std::string>());
    ASSERT_EQ(ids_of(*answer), one["tokens"].get<std::vector<int>>());
    for (size_t step = 0; step < answer->tokens.size(); ++step)
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(answer->tokens[step].likely[i].id, one["likely"][step][i]);
        EXPECT_NEAR(answer->tokens[step].likely[i].logprob, one["logprobs"][step][i], 1e-4)
            << "step " << step << ", token " << i;
      }
    EXPECT_NEAR(answer->trace.confidence, std::exp(one["logprobs"][0][0].get<double>()), 1e-4);
  }
}

}  // namespace
}  // namespace fovea
