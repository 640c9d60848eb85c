// SPDX-License-Identifier: Apache-2.0
// Session: its images, and the questions' common form.
#include "engine/session.h"

#include <fmt/format.h>

#include <utility>

#include "base/out_of_memory.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/see_parts.h"
#include "media/decode.h"

namespace fovea {
namespace {

ImageView view_of(const Model& model, std::string name, Image image, int64_t max_pixels) {
  ImageView view;
  if (model.pool) view.memory.pages = std::make_shared<Reservation>(model.pool);
  view.name = std::move(name);
  view.max_pixels = max_pixels;
  view.image = std::move(image);
  return view;
}

// Takes views that were added back, unless they are to be kept.
class NewViews {
 public:
  explicit NewViews(std::vector<ImageView>& views) : views_(views), before_(views.size()) {}
  ~NewViews() {
    if (!kept_) views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(before_), views_.end());
  }
  NewViews(const NewViews&) = delete;
  NewViews& operator=(const NewViews&) = delete;
  void keep() { kept_ = true; }

 private:
  std::vector<ImageView>& views_;
  size_t before_;
  bool kept_ = false;
};

}  // namespace

void forget_computed(SessionState& state) {
  DecoderMemory empty;
  empty.pages = state.memory.pages;
  state.memory = std::move(empty);
  state.kept.clear();
  state.gaze_rows.clear();
  for (ImageView& view : state.views) forget_parts(view);
}

Status add_image(SessionState& state, Image image, int64_t max_pixels) {
  if (auto checked = check_image(image, {.max_pixels = max_pixels}); !checked) return checked;
  const std::string name = fmt::format("image {}", state.views.size());
  state.views.push_back(view_of(*state.model, name, std::move(image), max_pixels));
  return Done{};
}

Session::Session(std::shared_ptr<SessionState> state) : state_(std::move(state)) {}
Session session_of(std::shared_ptr<const Model> model) {
  return Session(std::make_shared<SessionState>(std::move(model)));
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::add(const std::string& path, int64_t max_pixels) {
  std::vector<uint8_t> file_bytes;
  return add(path, max_pixels, file_bytes);
}

Status Session::add(const std::string& path, int64_t max_pixels, std::vector<uint8_t>& file_bytes) {
  return within_memory([&]() -> Status {
    const ImageLimits limits = image_limits_of({.max_pixels = max_pixels});
    auto bytes = read_image_file(path, limits);
    if (!bytes) return bytes.error();
    auto image = decode_image(*bytes, path == "-" ? "stdin" : path, limits);
    if (!image) return image.error();
    file_bytes = std::move(*bytes);
    state_->views.push_back(view_of(*state_->model, path, std::move(*image), max_pixels));
    return Done{};
  });
}

Status Session::add(std::span<const uint8_t> file_bytes, int64_t max_pixels) {
  return within_memory([&]() -> Status {
    const std::string name = fmt::format("image {}", state_->views.size());
    auto image = decode_image(file_bytes, name, image_limits_of({.max_pixels = max_pixels}));
    if (!image) return image.error();
    state_->views.push_back(view_of(*state_->model, name, std::move(*image), max_pixels));
    return Done{};
  });
}

Status Session::add(Image image, int64_t max_pixels) {
  return within_memory([&] { return add_image(*state_, std::move(image), max_pixels); });
}

Result<Answer> Session::ask(const std::string& question, const AskOptions& options,
                            const OnText& on_text) {
  return within_memory([&] {
    Message message;
    for (size_t i = 0; i < state_->views.size(); ++i)
      message.parts.push_back({static_cast<int>(i), ""});
    message.parts.push_back({-1, question});
    return ask(std::span(&message, 1), options, on_text);
  });
}

Result<Answer> Session::ask(std::span<const Message> messages, const AskOptions& options,
                            const OnText& on_text) {
  return within_memory([&]() -> Result<Answer> {
    if (CallbackThread::is_this()) return CallbackThread::refusal();
    Request request;
    request.messages.assign(messages.begin(), messages.end());
    request.options = options;
    Callbacks callbacks;
    if (on_text) callbacks.on_text = [&](int, std::string_view piece) { return on_text(piece); };
    auto active = ActiveRequest::make(state_, std::move(request), std::move(callbacks));
    if (!active) return active.error();
    const std::shared_ptr<TicketState> ticket = (*active)->ticket();
    if (auto submitted = state_->model->scheduler->submit(std::move(*active)); !submitted)
      return submitted.error();
    ticket->wait();
    return std::move(*ticket->answer);
  });
}

Result<Ticket> Session::submit(Request request, Callbacks callbacks) {
  return within_memory([&]() -> Result<Ticket> {
    NewViews added(state_->views);
    for (Image& image : request.images)
      if (auto checked = add_image(*state_, std::move(image), request.max_pixels); !checked)
        return checked.error();
    request.images.clear();
    auto active = ActiveRequest::make(state_, std::move(request), std::move(callbacks));
    if (!active) return active.error();
    auto ticket = state_->model->scheduler->submit(std::move(*active));
    if (ticket) added.keep();
    return ticket;
  });
}

}  // namespace fovea
