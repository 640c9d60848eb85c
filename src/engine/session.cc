// SPDX-License-Identifier: Apache-2.0
// Session: its images, and the questions' common form.
#include "engine/session.h"

#include <fmt/format.h>

#include <utility>

#include "engine/see_parts.h"
#include "media/decode.h"

namespace fovea {
namespace {

ImageView view_of(std::string name, Image image, int64_t max_pixels) {
  ImageView view;
  view.name = std::move(name);
  view.max_pixels = max_pixels;
  view.image = std::move(image);
  return view;
}

}  // namespace

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session session_of(std::shared_ptr<const Model> model) {
  return Session(std::make_unique<SessionState>(std::move(model)));
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::add(const std::string& path, int64_t max_pixels) {
  auto image = read_image(path, decode_limits_of({.max_pixels = max_pixels}));
  if (!image) return image.error();
  state_->views.push_back(view_of(path, std::move(*image), max_pixels));
  return Done{};
}

Status Session::add(std::span<const uint8_t> file_bytes, int64_t max_pixels) {
  const std::string name = fmt::format("image {}", state_->views.size());
  auto image = decode_image(file_bytes, name, decode_limits_of({.max_pixels = max_pixels}));
  if (!image) return image.error();
  state_->views.push_back(view_of(name, std::move(*image), max_pixels));
  return Done{};
}

Status Session::add(Image image, int64_t max_pixels) {
  if (auto checked = check_image(image, {.max_pixels = max_pixels}); !checked) return checked;
  const std::string name = fmt::format("image {}", state_->views.size());
  state_->views.push_back(view_of(name, std::move(image), max_pixels));
  return Done{};
}

Result<Answer> Session::ask(const std::string& question, const AskOptions& options,
                            const OnText& on_text) {
  Turn turn;
  for (size_t i = 0; i < state_->views.size(); ++i) turn.parts.push_back({static_cast<int>(i), ""});
  turn.parts.push_back({-1, question});
  return ask(std::span(&turn, 1), options, on_text);
}

}  // namespace fovea
