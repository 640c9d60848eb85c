// SPDX-License-Identifier: Apache-2.0
// Answers as JSON, and as figures for a person.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fovea/model_flags.h"

namespace fovea::app {
namespace {

using Json = nlohmann::ordered_json;

// A token's bytes may end inside a character, which JSON cannot hold: they stand beside it.
Json token_json(const LikelyToken& token) {
  Json bytes = Json::array();
  for (const char byte : token.token) bytes.push_back(static_cast<uint8_t>(byte));
  return {{"token", token.token},
          {"id", token.id},
          {"logprob", token.logprob},
          {"bytes", std::move(bytes)}};
}

Json points_json(const std::vector<Point>& points) {
  Json json = Json::array();
  for (const Point& point : points) json.push_back({point.x_px, point.y_px});
  return json;
}

Json saccade_json(const Saccade& saccade) {
  Json json;
  json["begin"] = saccade.begin;
  json["end"] = saccade.end;
  json["fixations"] = points_json(saccade.fixations);
  if (!saccade.crops.empty()) json["crops"] = Json::array();
  for (const Area& crop : saccade.crops)
    json["crops"].push_back({crop.x_px, crop.y_px, crop.size.width_px, crop.size.height_px});
  json["confidence"] = saccade.confidence;
  json["look_ms"] = saccade.look_ms;
  json["read_ms"] = saccade.read_ms;
  return json;
}

Json look_json(const Look& look) {
  Json json;
  json["image"] = {look.image.width_px, look.image.height_px};
  json["canvas"] = {look.canvas.width_px, look.canvas.height_px};
  json["plan"] = look.plan.maker;
  json["budget"] = look.plan.budget_tokens;
  json["tokens"] = look.plan.tokens();
  json["tokens_full"] = look.tokens_full;
  json["glance_tokens"] = look.glance_tokens;
  json["encoded_tokens"] = look.encoded_tokens;
  json["fixations"] = points_json(look.fixations);
  json["cells"] = Json::array();
  for (const Cell& cell : look.plan.cells)
    json["cells"].push_back({cell.level, cell.row, cell.col});
  if (look.look.empty()) return json;  // another maker's plan
  json["look"] = look.look;
  json["saccades"] = Json::array();
  for (const Saccade& saccade : look.saccades) json["saccades"].push_back(saccade_json(saccade));
  return json;
}

Json map_json(const Map& map) {
  Json rows = Json::array();
  for (int row = 0; row < map.grid.rows; ++row) {
    Json scores = Json::array();
    for (int col = 0; col < map.grid.cols; ++col) scores.push_back(map.at(row, col));
    rows.push_back(std::move(scores));
  }
  return rows;
}

Json times_json(const std::vector<StageTime>& times, double load_ms) {
  Json json;
  json["load"] = load_ms;
  for (const StageTime& time : times) json[time.stage] = time.ms;
  return json;
}

Json base_json(const Answer& answer, double load_ms) {
  const Trace& trace = answer.trace;
  Json json;
  json["text"] = answer.text;
  json["finish"] = answer.finish;
  json["token_ids"] = Json::array();
  json["logprobs"] = Json::array();
  for (const AnswerToken& token : answer.tokens) {
    json["token_ids"].push_back(token.id);
    Json step = token_json(token);
    if (!token.likely.empty()) {
      step["top_logprobs"] = Json::array();
      for (const LikelyToken& likely : token.likely)
        step["top_logprobs"].push_back(token_json(likely));
    }
    json["logprobs"].push_back(std::move(step));
  }
  json["usage"] = {{"text_tokens", trace.usage.text_tokens},
                   {"image_tokens", trace.usage.image_tokens},
                   {"image_tokens_full", trace.usage.image_tokens_full},
                   {"patches", trace.usage.patches},
                   {"kept_tokens", trace.usage.kept_tokens},
                   {"answer_tokens", trace.usage.answer_tokens}};
  json["confidence"] = trace.confidence;
  json["looks"] = Json::array();
  for (const Look& look : trace.looks) json["looks"].push_back(look_json(look));
  json["times_ms"] = times_json(trace.times, load_ms);
  json["peak_bytes"] = trace.peak_bytes;
  return json;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double time_of(const Trace& trace, const std::string& stage) {
  for (const StageTime& time : trace.times)
    if (time.stage == stage) return time.ms;
  return 0;
}

}  // namespace

std::string answer_json(const Answer& answer, double load_ms) {
  return dump(base_json(answer, load_ms));
}

std::string trace_json(const Answer& answer, const std::string& question, double load_ms) {
  Json json = base_json(answer, load_ms);
  json["question"] = question;
  json["prompt"] = answer.trace.prompt;
  json["prompt_ids"] = answer.trace.prompt_ids;
  json["weights_bytes"] = answer.trace.weights_bytes;
  json["kv_bytes"] = answer.trace.kv_bytes;
  for (size_t i = 0; i < answer.trace.looks.size(); ++i) {
    const Look& look = answer.trace.looks[i];
    Json& target = json["looks"][i];
    target["patch_bytes"] = look.patch_bytes;
    target["attention"] = look.attention;
    target["maps"] = {{"information", map_json(look.information)},
                      {"salience", map_json(look.salience)},
                      {"coupling", map_json(look.coupling)},
                      {"relevance", map_json(look.relevance)}};
    for (size_t k = 0; k < look.saccades.size(); ++k)
      target["saccades"][k]["maps"] = {{"coupling", map_json(look.saccades[k].coupling)},
                                       {"relevance", map_json(look.saccades[k].relevance)}};
    target["times_ms"] = times_json(look.times, 0);
    target["times_ms"].erase("load");
  }
  return dump(json);
}

void print_stats(const Answer& answer, double load_ms) {
  const Trace& trace = answer.trace;
  const Usage& usage = trace.usage;
  const double generate_ms = time_of(trace, "generate");
  fmt::print(
      stderr,
      "prompt: {} tokens of text, {} of images (of {}), {} kept from before\n"
      "times: load {:.0f} ms, look {:.0f} (tower {:.0f}), read {:.0f}, prefill {:.0f}, first token "
      "{:.0f}",
      usage.text_tokens, usage.image_tokens, usage.image_tokens_full, usage.kept_tokens, load_ms,
      time_of(trace, "look"), time_of(trace, "tower"), time_of(trace, "read"),
      time_of(trace, "prefill"), time_of(trace, "first_token"));
  if (usage.answer_tokens > 1 && generate_ms > 0)
    fmt::print(stderr, ", then {:.1f} tokens/s",
               1000.0 * static_cast<double>(usage.answer_tokens - 1) / generate_ms);
  size_t looks = 0;
  for (const Look& look : trace.looks) looks += look.saccades.size();
  const double mb = 1e-6;
  fmt::print(
      stderr,
      "\nanswer: {} tokens, ended by {}, {:.0f} % sure of the first after {} look{}\nmemory: "
      "{:.0f} MB of weights, {:.0f} MB of keys "
      "and values, peak {:.0f} MB\n",
      usage.answer_tokens, answer.finish, 100 * trace.confidence, looks, looks == 1 ? "" : "s",
      static_cast<double>(trace.weights_bytes) * mb, static_cast<double>(trace.kv_bytes) * mb,
      static_cast<double>(trace.peak_bytes) * mb);
}

}  // namespace fovea::app
