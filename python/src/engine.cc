// SPDX-License-Identifier: Apache-2.0
// fovea._fovea.Engine and Session. ../fovea/engine.py is what users see of them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answer.h"
#include "errors.h"
#include "fovea/fovea.h"
#include "lock.h"
#include "module.h"
#include "options.h"
#include "pictures.h"
#include "request.h"
#include "text.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

// Something of the engine's that its threads belong to. Dropped without Python's lock, since it may
// wait for a thread that wants the lock; where Python ends, or in a process that was forked off, it
// is left to the system.
template <class T>
class Owned {
 public:
  explicit Owned(T value) : value_(std::make_unique<T>(std::move(value))) {}
  ~Owned() {
    if (value_ == nullptr) return;
    if (!home_.is_here() || is_ending()) {
      static_cast<void>(value_.release());
      return;
    }
    const Released released;
    value_.reset();
  }
  Owned(Owned&&) noexcept = default;
  Owned& operator=(Owned&&) = delete;

  T& get() const {  // raises
    home_.check();
    return *value_;
  }

 private:
  Home home_;
  std::unique_ptr<T> value_;
};

// Runs work that gives a Result without Python's lock, and raises its error.
template <class Work>
auto released(Work&& work) {
  std::optional<decltype(work())> result;
  {
    const Released unlocked;
    result.emplace(work());
  }
  return value_or_raise(*std::move(result));
}

std::vector<Picture> pictures_of(const nb::list& pictures) {
  std::vector<Picture> made;
  for (const nb::handle picture : pictures) made.push_back(picture_of(picture));
  return made;
}

class SessionBox {
 public:
  explicit SessionBox(Session session) : session_(std::move(session)) {}

  // The numbers of its images are theirs from then on.
  int add(const nb::list& pictures, int64_t max_pixels) {
    std::vector<Picture> sources = pictures_of(pictures);
    Session& session = session_.get();
    return released([&]() -> Result<int> {
      const std::lock_guard lock(mutex_);
      if (is_busy()) return busy();
      for (Picture& source : sources) {
        if (auto added = add_to(session, std::move(source), max_pixels); !added)
          return added.error();
        ++images_;
      }
      return images_;
    });
  }

  AskedRequest submit(const nb::list& messages, const nb::dict& keywords, bool stream, bool keep) {
    refuse_at_end();
    AskKeywords ask = ask_keywords(keywords);
    std::vector<Message> made = messages_of(messages);
    Session& session = session_.get();
    return released([&]() -> Result<AskedRequest> {
      const std::lock_guard lock(mutex_);
      if (is_busy()) return busy();
      auto request = python::submit(session, std::move(made), std::move(ask), {stream, keep});
      if (request) last_ = request->ticket();
      return request;
    });
  }
  nb::object ask(const nb::list& messages, const nb::dict& keywords) {
    return submit(messages, keywords, false, false).wait_for_answer();
  }

  int images() const { return images_; }

 private:
  bool is_busy() const { return last_ && !last_->done(); }
  static Error busy() {
    return bad_input(
        "the session is answering another question; wait for it, cancel it, or use another "
        "session");
  }

  Owned<Session> session_;
  std::mutex mutex_;  // taken without Python's lock
  int images_ = 0;
  std::optional<Ticket> last_;
};

class EngineBox {
 public:
  explicit EngineBox(Engine engine) : engine_(std::move(engine)) {}

  static std::unique_ptr<EngineBox> load(const std::string& model, const std::string& device,
                                         const std::string& weights, int threads, int64_t memory,
                                         const std::string& kernels) {
    const LoadOptions options{.device = device,
                              .kernels = kernels,
                              .weights = weights,
                              .threads = threads,
                              .memory_bytes = memory};
    return std::make_unique<EngineBox>(released([&] { return Engine::load(model, options); }));
  }

  // A session of its own for one question.
  AskedRequest submit(const nb::list& pictures, const nb::list& messages, const nb::dict& keywords,
                      bool stream, bool keep) {
    refuse_at_end();
    AskKeywords ask = ask_keywords(keywords);
    std::vector<Message> made = messages_of(messages);
    std::vector<Picture> sources = pictures_of(pictures);
    const Engine& engine = engine_.get();
    return released([&]() -> Result<AskedRequest> {
      Session session = engine.session();
      for (Picture& source : sources)
        if (auto added = add_to(session, std::move(source), ask.max_pixels); !added)
          return added.error();
      return python::submit(session, std::move(made), std::move(ask), {stream, keep});
    });
  }
  nb::object ask(const nb::list& pictures, const nb::list& messages, const nb::dict& keywords) {
    return submit(pictures, messages, keywords, false, false).wait_for_answer();
  }

  std::unique_ptr<SessionBox> session() const {
    return std::make_unique<SessionBox>(engine_.get().session());
  }

  nb::tuple info() const {
    const ModelInfo info = engine_.get().info();
    return nb::make_tuple(info.weights, info.parameters, info.weights_bytes, info.context_tokens);
  }
  nb::object memory() const { return memory_object(engine_.get().memory()); }

  std::vector<int> tokenize(const std::string& text, bool special) const {
    const Engine& engine = engine_.get();
    return released([&] { return engine.tokenize(text, special); });
  }
  nb::object detokenize(const std::vector<int>& ids, bool special) const {
    const Engine& engine = engine_.get();
    const std::string text = released([&] { return engine.detokenize(ids, special); });
    return text_object(text);
  }
  nb::tuple vocabulary() const {
    const Engine& engine = engine_.get();
    const TokenTexts texts = released([&] { return engine.vocabulary(); });
    nb::list tokens;
    for (const std::string& token : texts.tokens)
      tokens.append(nb::bytes(token.data(), token.size()));
    return nb::make_tuple(tokens, nb::cast(texts.end_ids));
  }

 private:
  Owned<Engine> engine_;
};

}  // namespace

void add_engine(nb::module_& module) {
  add_request(module);
  nb::class_<SessionBox>(module, "Session")
      .def("add", &SessionBox::add, nb::arg("pictures"), nb::arg("max_pixels"))
      .def("submit", &SessionBox::submit, nb::arg("messages"), nb::arg("keywords"),
           nb::arg("stream"), nb::arg("keep"))
      .def("ask", &SessionBox::ask, nb::arg("messages"), nb::arg("keywords"))
      .def("images", &SessionBox::images);
  nb::class_<EngineBox>(module, "Engine")
      .def_static("load", &EngineBox::load, nb::arg("model"), nb::arg("device"), nb::arg("weights"),
                  nb::arg("threads"), nb::arg("memory"), nb::arg("kernels"))
      .def("submit", &EngineBox::submit, nb::arg("pictures"), nb::arg("messages"),
           nb::arg("keywords"), nb::arg("stream"), nb::arg("keep"))
      .def("ask", &EngineBox::ask, nb::arg("pictures"), nb::arg("messages"), nb::arg("keywords"))
      .def("session", &EngineBox::session)
      .def("info", &EngineBox::info)
      .def("memory", &EngineBox::memory)
      .def("tokenize", &EngineBox::tokenize, nb::arg("text"), nb::arg("special"))
      .def("detokenize", &EngineBox::detokenize, nb::arg("ids"), nb::arg("special"))
      .def("vocabulary", &EngineBox::vocabulary);
  module.def("end", &end);
}

}  // namespace fovea::python
