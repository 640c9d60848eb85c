// SPDX-License-Identifier: Apache-2.0
#include "serve/small_calls.h"

#include <climits>
#include <ctime>
#include <utility>

#include "base/json.h"
#include "fovea/answer_json.h"
#include "serve/check_look.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {
namespace {

// When this was first asked: models have no date of their own.
int64_t first_asked() {
  static const int64_t time = std::time(nullptr);
  return time;
}

Json model_of(const std::string& name, const std::optional<Engine>& engine) {
  Json json = {
      {"id", name}, {"object", "model"}, {"created", first_asked()}, {"owned_by", "fovea"}};
  if (engine) {
    const ModelInfo info = engine->info();
    json["max_model_len"] = info.context_tokens;
    json["parameters"] = info.parameters;
    json["weights"] = info.weights;
  }
  return json;
}

Fault read_ids(const Fields& fields, std::vector<int>& ids) {
  auto found = fields.list("tokens");
  if (auto* error = std::get_if<ApiError>(&found)) return std::move(*error);
  const Json* list = std::get<Json*>(found);
  if (list == nullptr) return fields.wrong("tokens", "give a list of token ids");
  ids.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    int64_t id = 0;
    if (auto fault = read_int((*list)[i], "tokens[" + std::to_string(i) + "]", {0, INT_MAX}, id))
      return fault;
    ids.push_back(static_cast<int>(id));
  }
  return {};
}

Fault read_fixations(const Fields& fields, std::vector<Point>& points) {
  auto found = fields.list("fixations");
  if (auto* error = std::get_if<ApiError>(&found)) return std::move(*error);
  const Json* list = std::get<Json*>(found);
  if (list == nullptr) return {};
  constexpr size_t kMost = 256;
  if (list->size() > kMost) return fields.wrong("fixations", "give 256 at most");
  for (const Json& place : *list) {
    Point point;
    constexpr NumberRange kWhere{-1e9, 1e9};
    if (!place.is_array() || place.size() != 2)
      return fields.wrong("fixations", "give [x, y], in pixels of the picture");
    if (auto fault = read_number(place[0], "fixations", kWhere, point.x_px)) return fault;
    if (auto fault = read_number(place[1], "fixations", kWhere, point.y_px)) return fault;
    points.push_back(point);
  }
  return {};
}

struct SeeCall {
  std::string image;
  SeeOptions options;
  bool maps = false;
};

Fault read_see(const Fields& fields, SeeCall& call) {
  SeeOptions& options = call.options;
  options.draw = false;
  if (auto fault = fields.read("image", call.image)) return fault;
  if (call.image.empty())
    return fields.wrong("image", "give the URL of a picture, such as data:image/png;base64,...");
  if (auto fault = fields.read("plan", options.plan)) return fault;
  if (auto fault = fields.read("budget", {1, 1 << 30}, options.budget_tokens)) return fault;
  if (auto fault = fields.read("balance", options.balance)) return fault;
  if (auto fault = fields.read("centre_bias", options.centre_bias)) return fault;
  if (auto fault = fields.read("maps", call.maps)) return fault;
  return read_fixations(fields, options.fixations);
}

}  // namespace

std::string models_json(const std::string& name, const std::optional<Engine>& engine) {
  return json_text(Json{{"object", "list"}, {"data", Json::array({model_of(name, engine)})}});
}

std::string model_json(const std::string& name, const std::optional<Engine>& engine) {
  return json_text(model_of(name, engine));
}

ApiResult<std::string> tokenize_json(const Engine& engine, std::string_view body) {
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const Fields fields(std::get<Json>(parsed), "");
  std::string prompt;
  if (!fields.has("prompt")) return fields.wrong("prompt", "it is missing; give the text");
  if (auto fault = fields.read("prompt", prompt)) return std::move(*fault);
  const auto ids = engine.tokenize(prompt, /*special=*/true);
  if (!ids) return api_error_of(ids.error());
  return json_text(Json{
      {"count", ids->size()}, {"max_model_len", engine.info().context_tokens}, {"tokens", *ids}});
}

ApiResult<std::string> detokenize_json(const Engine& engine, std::string_view body) {
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const Fields fields(std::get<Json>(parsed), "");
  std::vector<int> ids;
  if (auto fault = read_ids(fields, ids)) return std::move(*fault);
  const auto text = engine.detokenize(ids);
  if (!text) return api_error_of(text.error());
  return json_text(Json{{"prompt", *text}});
}

ApiResult<std::string> see_json(std::string_view body, const PictureLimits& limits,
                                PictureRoom& room, const std::atomic<bool>& gone) {
  ApiError nobody{503, "the client went away", "", "gone"};
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  SeeCall call;
  if (auto fault = read_see(Fields(std::get<Json>(parsed), ""), call)) return std::move(*fault);
  if (auto error = check_see(call.options)) return std::move(*error);
  auto file = read_picture(call.image, limits, "image");
  if (auto* error = std::get_if<ApiError>(&file)) return std::move(*error);
  if (gone) return nobody;
  const auto& bytes = std::get<std::vector<uint8_t>>(file);
  PictureRoom::Share share;
  if (!room.take(pixels_of(bytes, limits), share)) return no_picture_room("image");
  auto image = decode_picture(bytes, limits, "image");
  if (auto* error = std::get_if<ApiError>(&image)) return std::move(*error);
  if (gone) return nobody;
  call.options.max_pixels = limits.pixels;
  const auto sight = see(std::move(std::get<Image>(image)), call.options);
  if (!sight) return see_error_of(sight.error());
  if (gone) return nobody;
  return json_text(app::sight_json(*sight, call.maps));
}

}  // namespace fovea::serve
