// SPDX-License-Identifier: Apache-2.0
// What the server has done so far, in the form Prometheus reads, by the names vLLM has for it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/answer.h"

namespace fovea::serve {

// Counts values up to each of some bounds.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);

  void add(double value);
  void write(const std::string& name, const std::string& help, const std::string& labels,
             std::string& text) const;

 private:
  std::vector<double> bounds_;   // rising
  std::vector<int64_t> counts_;  // [bounds + 1]: of values in between, the last above all
  double sum_ = 0;
};

// What is known at one moment.
struct Load {
  int running = 0;  // requests that the engine has, whether they wait for room or not
  int waiting = 0;  // requests whose pictures are still being fetched
  int connections = 0;
  MemoryUsage memory;
};

class Metrics {
 public:
  explicit Metrics(std::string model) : model_(std::move(model)) {}

  void add(const Answer& answer, double seconds);
  void add_status(int status);  // of every answer but those that http/ gives by itself
  std::string text(const Load& load) const;

 private:
  std::string model_;
  mutable std::mutex mutex_;
  int64_t prompt_tokens_ = 0;
  int64_t kept_tokens_ = 0;
  int64_t answer_tokens_ = 0;
  int64_t visual_tokens_ = 0;
  int64_t visual_tokens_saved_ = 0;
  std::map<std::string, int64_t> finished_;
  std::map<int, int64_t> statuses_;
  Histogram first_token_{{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0,
                          2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0}};
  Histogram between_tokens_{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                             0.4, 0.5, 0.75, 1.0, 2.5}};
  Histogram whole_{{0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0,
                    40.0, 50.0, 60.0, 120.0}};
};

}  // namespace fovea::serve
