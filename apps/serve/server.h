// SPDX-License-Identifier: Apache-2.0
// fovea serve: OpenAI's API over HTTP, on the engine's scheduler (docs/serve.md).
//
//   auto server = Server::listen(options);
//   std::thread http([&] { (*server)->run(); });
//   (*server)->start_workers();
//   (*server)->set_engine(*Engine::load("tiny"));
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.h"
#include "serve/http/http.h"
#include "serve/log.h"
#include "serve/openai/chat_request.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {

struct ServeOptions {
  HttpOptions http;
  std::string model;              // the name that clients know it by
  std::vector<std::string> keys;  // none: anybody may ask
  PictureLimits pictures;
  ChatLimits chat;
  int max_queue = 256;     // requests that are being answered or wait; one more is 429
  int conversations = 64;  // whose sessions are kept in case they go on
  LogForm log = LogForm::kText;
  // Whether the engine's device can still be used, asked where the engine has failed; null: it can.
  std::function<Status()> device_works;
};

class Server {
 public:
  // Binds its address; an error says why not.
  static Result<std::unique_ptr<Server>> listen(ServeOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const;  // "127.0.0.1:8080"
  // Starts the threads that read bodies and load pictures: kWorkers of them, or as many as the
  // system has, which it says; an error where it has none. Requests wait until then.
  Result<int> start_workers();
  static constexpr int kWorkers = 16;  // those that wait for a picture hold up no other question
  // Until then questions are answered with 503.
  void set_engine(Engine engine);
  // Serves on the calling thread until stop() has ended it. False where something still works for
  // clients that have gone, kAfterTheLast later: who cannot wait for it, as the destructor does,
  // ends the process.
  bool run();
  static constexpr std::chrono::milliseconds kAfterTheLast{1000};
  // From any thread: no new requests; those that were accepted get their answers, up to `limit`.
  // A second call ends at once.
  void stop(std::chrono::milliseconds limit);
  // Why the device cannot be used any more, and no question is answered; empty while it can. The
  // process has to end: nothing else brings the device back.
  std::string device_failure() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fovea::serve
