// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea::serve {
namespace {

// As Prometheus wants a label's value.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

void write_head(const std::string& name, const std::string& help, const char* type,
                std::string& text) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

// In vLLM's words.
const char* reason_of(const std::string& finish) {
  if (finish == "length" || finish == "deadline") return "length";
  return finish == "cancelled" ? "abort" : "stop";
}

double time_of(const Trace& trace, const char* stage) {
  for (const StageTime& time : trace.times)
    if (time.stage == stage) return time.ms / 1000;
  return 0;
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::add(double value) {
  const auto above = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<size_t>(above - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(const std::string& name, const std::string& help, const std::string& labels,
                      std::string& text) const {
  write_head(name, help, "histogram", text);
  int64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                        i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf", count);
  }
  text +=
      fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name, labels, count);
}

void Metrics::add(const Answer& answer, double seconds) {
  const Usage& usage = answer.trace.usage;
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += usage.text_tokens + usage.image_tokens;
  kept_tokens_ += usage.kept_tokens;
  answer_tokens_ += usage.answer_tokens;
  visual_tokens_ += usage.image_tokens;
  visual_tokens_saved_ += std::max<int64_t>(0, usage.image_tokens_full - usage.image_tokens);
  ++finished_[reason_of(answer.finish)];
  whole_.add(seconds);
  if (const double first = time_of(answer.trace, "first_token"); first > 0) first_token_.add(first);
  for (size_t i = 1; i < answer.tokens.size(); ++i) between_tokens_.add(answer.tokens[i].ms / 1000);
}

void Metrics::add_status(int status) {
  const std::lock_guard lock(mutex_);
  ++statuses_[status];
}

std::string Metrics::text(const Load& load) const {
  const std::lock_guard lock(mutex_);
  const std::string labels = fmt::format("model_name=\"{}\"", escaped(model_));
  std::string text;
  const auto one = [&](const char* name, const char* help, const char* type, double value) {
    write_head(name, help, type, text);
    text += fmt::format("{}{{{}}} {}\n", name, labels, value);
  };
  const auto counted = [](int64_t count) { return static_cast<double>(count); };
  one("vllm:num_requests_running", "Requests that the engine has.", "gauge", load.running);
  one("vllm:num_requests_waiting", "Requests whose pictures are on their way.", "gauge",
      load.waiting);
  const double capacity = std::max(1.0, counted(load.memory.capacity));
  one("vllm:kv_cache_usage_perc", "Share of the memory of keys and values that is taken, 0 to 1.",
      "gauge", counted(load.memory.resident - load.memory.cached) / capacity);
  one("fovea:kv_held_bytes", "Keys and values that requests and kept conversations hold.", "gauge",
      counted(load.memory.resident - load.memory.cached));
  one("fovea:kv_cached_bytes", "Keys and values that are kept for later requests alone.", "gauge",
      counted(load.memory.cached));
  one("fovea:kv_reserved_bytes", "Keys and values that are promised to requests.", "gauge",
      counted(load.memory.reserved));
  one("vllm:prompt_tokens_total", "Tokens of prompts.", "counter", counted(prompt_tokens_));
  one("vllm:prefix_cache_hits_total", "Tokens of prompts that were known already.", "counter",
      counted(kept_tokens_));
  one("vllm:prefix_cache_queries_total", "Tokens of prompts.", "counter", counted(prompt_tokens_));
  one("vllm:generation_tokens_total", "Tokens of answers.", "counter", counted(answer_tokens_));
  one("fovea:visual_tokens_total", "Visual tokens of prompts.", "counter", counted(visual_tokens_));
  one("fovea:visual_tokens_saved_total", "Visual tokens that were not needed.", "counter",
      counted(visual_tokens_saved_));
  one("fovea:connections", "Connections that are open.", "gauge", load.connections);
  write_head("vllm:request_success_total", "Answers by how they ended.", "counter", text);
  for (const auto& [finish, count] : finished_)
    text += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels,
                        finish, count);
  write_head("fovea:http_responses_total", "Answers by status of HTTP.", "counter", text);
  for (const auto& [status, count] : statuses_)
    text += fmt::format("fovea:http_responses_total{{status=\"{}\"}} {}\n", status, count);
  first_token_.write("vllm:time_to_first_token_seconds", "Seconds to the first token.", labels,
                     text);
  between_tokens_.write("vllm:inter_token_latency_seconds", "Seconds between two tokens.", labels,
                        text);
  whole_.write("vllm:e2e_request_latency_seconds", "Seconds of a whole request.", labels, text);
  return text;
}

}  // namespace fovea::serve
