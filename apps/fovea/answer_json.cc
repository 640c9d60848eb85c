// SPDX-License-Identifier: Apache-2.0
#include "fovea/answer_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace fovea::app {
namespace {

using Json = nlohmann::ordered_json;

Json bytes_json(const std::string& text) {
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<uint8_t>(byte));
  return bytes;
}

// A token's bytes may end inside a character, which JSON cannot hold: they stand beside it.
Json token_json(const LikelyToken& token) {
  return {{"token", token.token},
          {"id", token.id},
          {"logprob", token.logprob},
          {"bytes", bytes_json(token.token)}};
}

Json points_json(const std::vector<Point>& points) {
  Json json = Json::array();
  for (const Point& point : points) json.push_back({point.x_px, point.y_px});
  return json;
}

Json saccade_json(const Saccade& saccade) {
  Json json = Json::object();
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
  Json json = Json::object();
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

Json maps_json(const Sight& sight) {
  return {{"information", map_json(sight.information)},
          {"salience", map_json(sight.salience)},
          {"coupling", map_json(sight.coupling)},
          {"relevance", map_json(sight.relevance)}};
}

Json times_json(const std::vector<StageTime>& times, Json json = Json::object()) {
  for (const StageTime& time : times) json[time.stage] = time.ms;
  return json;
}

Json memory_json(const MemoryUsage& memory) {
  return {{"capacity", memory.capacity},
          {"resident", memory.resident},
          {"shared", memory.shared},
          {"cached", memory.cached},
          {"reserved", memory.reserved},
          {"free", memory.free},
          {"largest_free_run", memory.largest_free_run},
          {"mapped", memory.mapped},
          {"hits", memory.hits},
          {"evictions", memory.evictions}};
}

Json whole_json(const Answer& answer, double load_ms) {
  const Trace& trace = answer.trace;
  Json json = Json::object();
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
  json.update(basis_json(answer));
  json["usage"]["memory"] = memory_json(trace.usage.memory);
  json["times_ms"] = times_json(trace.times, {{"load", load_ms}});
  json["peak_bytes"] = trace.peak_bytes;
  return json;
}

// To a millionth: shares of 1 over hundreds of cells.
Json shares_json(const std::vector<float>& shares) {
  Json json = Json::array();
  for (const float share : shares) json.push_back(std::round(double{share} * 1e6) / 1e6);
  return json;
}

Json answer_attention_json(const Answer& answer) {
  Json json = Json::array();
  for (const AnswerToken& token : answer.tokens) {
    if (token.attention.empty()) break;
    Json looks = Json::array();
    for (const std::vector<float>& shares : token.attention) looks.push_back(shares_json(shares));
    Json one = Json::object();
    one["token"] = token.token;
    one["bytes"] = bytes_json(token.token);
    one["looks"] = std::move(looks);
    json.push_back(std::move(one));
  }
  return json;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Json sight_json(const Sight& sight, bool maps) {
  Json json = Json::object();
  json["image"] = {sight.image.width_px, sight.image.height_px};
  json["canvas"] = {sight.canvas.width_px, sight.canvas.height_px};
  json["plan"] = sight.plan.maker;
  json["budget"] = sight.plan.budget_tokens;
  json["tokens"] = sight.plan.tokens();
  json["tokens_full"] = sight.tokens_full;
  json["patch_bytes"] = sight.patch_bytes;
  json["fixations"] = points_json(sight.fixations);
  json["cells"] = Json::array();
  for (const Cell& cell : sight.plan.cells)
    json["cells"].push_back({cell.level, cell.row, cell.col});
  json["times_ms"] = times_json(sight.times);
  if (maps) json["maps"] = maps_json(sight);
  return json;
}

Json basis_json(const Answer& answer) {
  const Trace& trace = answer.trace;
  Json json = Json::object();
  json["usage"] = {{"text_tokens", trace.usage.text_tokens},
                   {"image_tokens", trace.usage.image_tokens},
                   {"image_tokens_full", trace.usage.image_tokens_full},
                   {"patches", trace.usage.patches},
                   {"kept_tokens", trace.usage.kept_tokens},
                   {"answer_tokens", trace.usage.answer_tokens}};
  if (trace.usage.visual_keys > 0) {
    json["usage"]["visual_keys"] = trace.usage.visual_keys;
    json["usage"]["visual_keys_kept"] = trace.usage.visual_keys_kept;
    json["usage"]["kv_bytes_before"] = trace.usage.kv_bytes_before;
    json["usage"]["kv_bytes_after"] = trace.usage.kv_bytes_after;
  }
  json["confidence"] = trace.confidence;
  json["looks"] = Json::array();
  for (const Look& look : trace.looks) json["looks"].push_back(look_json(look));
  json["times_ms"] = times_json(trace.times);
  return json;
}

void add_trace(const Answer& answer, Json& json) {
  json["prompt"] = answer.trace.prompt;
  json["prompt_ids"] = answer.trace.prompt_ids;
  json["weights_bytes"] = answer.trace.weights_bytes;
  json["kv_bytes"] = answer.trace.kv_bytes;
  json["answer_attention"] = answer_attention_json(answer);
  for (size_t i = 0; i < answer.trace.looks.size(); ++i) {
    const Look& look = answer.trace.looks[i];
    Json& target = json["looks"][i];
    target["patch_bytes"] = look.patch_bytes;
    target["attention"] = look.attention;
    target["maps"] = maps_json(look);
    for (size_t k = 0; k < look.saccades.size(); ++k)
      target["saccades"][k]["maps"] = {{"coupling", map_json(look.saccades[k].coupling)},
                                       {"relevance", map_json(look.saccades[k].relevance)}};
    target["times_ms"] = times_json(look.times);
  }
}

std::string answer_json(const Answer& answer, double load_ms) {
  return dump(whole_json(answer, load_ms));
}

std::string trace_json(const Answer& answer, const std::string& question, double load_ms,
                       const std::vector<std::string>& pictures) {
  Json json = whole_json(answer, load_ms);
  json["question"] = question;
  add_trace(answer, json);
  for (size_t i = 0; i < std::min(pictures.size(), json["looks"].size()); ++i)
    json["looks"][i]["picture"] = pictures[i];
  return dump(json);
}

}  // namespace fovea::app
