// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <gtest/gtest.h>

namespace fovea::serve {
namespace {

TEST(Metrics, BucketsHoldAllUpToTheirBound) {
  Histogram histogram({1, 2});
  for (const double value : {0.5, 1.0, 1.5, 2.5}) histogram.add(value);
  std::string text;
  histogram.write("x", "help", "a=\"b\"", text);
  EXPECT_EQ(text,
            "# HELP x help\n# TYPE x histogram\n"
            "x_bucket{a=\"b\",le=\"1\"} 2\nx_bucket{a=\"b\",le=\"2\"} 3\n"
            "x_bucket{a=\"b\",le=\"+Inf\"} 4\nx_sum{a=\"b\"} 5.5\nx_count{a=\"b\"} 4\n");
}

TEST(Metrics, TokensAreCountedAndThoseThatWereNotNeeded) {
  Metrics metrics("a\"model\\");
  Answer answer;
  answer.finish = "length";
  answer.trace.usage.text_tokens = 10;
  answer.trace.usage.image_tokens = 96;
  answer.trace.usage.image_tokens_full = 1024;
  answer.trace.usage.answer_tokens = 3;
  answer.trace.times = {{"first_token", 12.0}};
  answer.tokens.resize(3);
  metrics.add(answer, 0.5);
  metrics.add_status(200);
  const std::string text = metrics.text({.running = 2, .connections = 5});
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"a\\\"model\\\\\"} 2\n", "} 106\n",
        "fovea:visual_tokens_saved_total{model_name=\"a\\\"model\\\\\"} 928\n",
        "finished_reason=\"length\"} 1\n", "{status=\"200\"} 1\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"a\\\"model\\\\\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(Metrics, MemoryThatIsHeldIsToldFromWhatIsKeptForLater) {
  Load load;
  load.memory.resident = int64_t{5} << 30;
  load.memory.cached = int64_t{2} << 30;
  load.memory.reserved = int64_t{4} << 30;
  const std::string text = Metrics("m").text(load);
  for (const char* line : {"fovea:kv_held_bytes{model_name=\"m\"} 3221225472\n",
                           "fovea:kv_cached_bytes{model_name=\"m\"} 2147483648\n",
                           "fovea:kv_reserved_bytes{model_name=\"m\"} 4294967296\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace fovea::serve
