// SPDX-License-Identifier: Apache-2.0
// What each path answers.
#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "serve/access.h"
#include "serve/chat_job.h"
#include "serve/openapi.h"
#include "serve/percent.h"
#include "serve/small_calls.h"
#include "serve/workers.h"
#include "view/page.h"

namespace fovea::serve {
namespace {

// One request on its way through the routes.
struct Call {
  std::shared_ptr<HttpExchange> exchange;
  const HttpRequest& request;
  int key = -1;           // which of the keys it has
  std::string_view rest;  // of the path, behind a route that ends with '/'
  std::vector<std::pair<std::string, std::string>> fields;  // of the answer, for browsers
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

bool is_own_address(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]:") ||
         address.starts_with("[::ffff:127.");
}

// One more while it lives. Copies, which std::function asks for, count together.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count)
      : one_(&count, [](std::atomic<int>* counted) { --*counted; }) {
    ++count;
  }

 private:
  std::shared_ptr<std::atomic<int>> one_;
};

// Whether the engine takes questions: one whose time is over is taken, and ends without having cost
// anything, or it is refused.
bool takes_questions(const Engine& engine) {
  Request request;
  request.messages = {{"user", {{-1, "?"}}}};
  request.deadline = std::chrono::steady_clock::time_point::min();
  return static_cast<bool>(engine.submit(std::move(request)));
}

ApiError loading() { return {503, "the model is loading", "", "loading"}; }

ApiError device_failed() {
  return {503, "the device has failed, and the server ends", "", "device_failed"};
}

}  // namespace

struct Server::State {
  explicit State(ServeOptions options) : serving(std::move(options)) {}

  Serving serving;
  std::mutex mutex;
  std::optional<Engine> engine;  // empty while it loads; guarded by mutex
  std::string device_failure;    // guarded by mutex
  std::unique_ptr<HttpServer> http;
  bool local = true;  // it listens on this machine's own address alone
  OneByOne compiles;  // of grammars
  Workers workers;    // ended before the rest goes

  struct Route {
    const char* method;
    const char* path;  // with '/' at its end: anything may follow
    bool guarded;      // by a key
    void (State::*answer)(Call& call);
  };
  static std::span<const Route> routes();

  void handle(const std::shared_ptr<HttpExchange>& exchange);
  const Route* find_route(Call& call, std::string& allowed) const;
  std::optional<ApiError> check_access(Call& call, const Route& route) const;
  std::optional<Engine> ready_engine();
  std::string why_device_failed();
  void look_at_device();

  void page(Call& call);
  void health(Call& call);
  void version_of(Call& call);
  void models(Call& call);
  void model(Call& call);
  void metrics(Call& call);
  void openapi(Call& call);
  void chat(Call& call) { ask(call, Api::kChat); }
  void responses(Call& call) { ask(call, Api::kResponses); }
  void ask(Call& call, Api api);
  void prepare(const std::shared_ptr<ChatJob>& job);
  void tokenize(Call& call);
  void detokenize(Call& call);
  void see(Call& call);

  void note(const Call& call, int status, std::string_view error = "");
  void answer(Call& call, HttpReply reply);
  bool is_full(Call& call);
  void refuse(Call& call, const ApiError& error);
  void note_refusal(int status, std::string_view message, std::string_view client);
  // On a worker, where it may take its time; needs the engine only if `work` does. `gone` says that
  // nobody waits for the answer any more.
  using Work =
      std::function<ApiResult<std::string>(const HttpRequest&, const std::atomic<bool>& gone)>;
  void later(Call& call, Work work);
  Load load();
  bool is_busy() const { return serving.jobs > 0 || serving.accepted > 0; }
};

std::span<const Server::State::Route> Server::State::routes() {
  static constexpr Route kRoutes[] = {
      {"GET", "/", false, &State::page},  // it asks for the key itself
      {"GET", "/health", false, &State::health},
      {"GET", "/version", true, &State::version_of},
      {"GET", "/metrics", true, &State::metrics},
      {"GET", "/openapi.json", true, &State::openapi},
      {"GET", "/v1/models", true, &State::models},
      {"GET", "/v1/models/", true, &State::model},
      {"POST", "/v1/chat/completions", true, &State::chat},
      {"POST", "/v1/responses", true, &State::responses},
      {"POST", "/tokenize", true, &State::tokenize},
      {"POST", "/detokenize", true, &State::detokenize},
      {"POST", "/fovea/see", true, &State::see},
  };
  return kRoutes;
}

void Server::State::handle(const std::shared_ptr<HttpExchange>& exchange) {
  Call call{exchange, exchange->request()};
  const std::string_view origin = call.request.field("origin");
  if (is_local_origin(origin))
    call.fields = {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
  std::string allowed;
  const Route* route = find_route(call, allowed);
  if (call.request.method == "OPTIONS" && !allowed.empty()) {
    call.fields.emplace_back("Access-Control-Allow-Methods", allowed + ", OPTIONS");
    const std::string_view wanted = call.request.field("access-control-request-headers");
    if (is_local_origin(origin) && !wanted.empty())
      call.fields.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
    return answer(call, {.status = 204});
  }
  if (route == nullptr && !allowed.empty()) {
    call.fields.emplace_back("Allow", allowed + ", OPTIONS");
    return refuse(call,
                  {405, fmt::format("this path takes {}", allowed), "", "method_not_allowed"});
  }
  if (route == nullptr)
    return refuse(call, {404, "there is nothing at this path; see /openapi.json", "", "not_found"});
  if (const auto error = check_access(call, *route)) return refuse(call, *error);
  (this->*route->answer)(call);
}

// `allowed` gets the methods that the path takes; none: there is no such path.
const Server::State::Route* Server::State::find_route(Call& call, std::string& allowed) const {
  const std::string& path = call.request.path;
  const std::string_view method = call.request.method;
  const Route* found = nullptr;
  for (const Route& route : routes()) {
    const std::string_view its_path = route.path;
    const bool open_end = its_path.size() > 1 && its_path.ends_with('/');
    if (open_end ? !path.starts_with(its_path) || path == its_path : path != its_path) continue;
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
    if (method != route.method) continue;
    found = &route;
    call.rest = std::string_view(path).substr(std::min(path.size(), its_path.size()));
  }
  return found;
}

std::optional<ApiError> Server::State::check_access(Call& call, const Route& route) const {
  const std::vector<std::string>& keys = serving.options.keys;
  if (local && !is_local_host(call.request.field("host")))
    return ApiError{403, "this server answers to its own address alone", "", "wrong_host"};
  const std::string_view origin = call.request.field("origin");
  if (local && !origin.empty() && !is_local_origin(origin))
    return ApiError{403, "pages of other origins may not ask this server", "", "wrong_origin"};
  if (keys.empty()) return std::nullopt;
  call.key = find_key(call.request.field("authorization"), keys);
  if (call.key >= 0 || !route.guarded) return std::nullopt;
  call.fields.emplace_back("WWW-Authenticate", "Bearer");
  return ApiError{401, "give a key of this server as Authorization: Bearer KEY", "",
                  "invalid_api_key"};
}

std::optional<Engine> Server::State::ready_engine() {
  const std::lock_guard lock(mutex);
  return engine;
}

std::string Server::State::why_device_failed() {
  const std::lock_guard lock(mutex);
  return device_failure;
}

// Whether what failed was one question, or all that come after it will.
void Server::State::look_at_device() {
  const Status works = serving.options.device_works();
  if (works) return;
  const std::lock_guard lock(mutex);
  device_failure = works.error().message;
}

// Those who watch the server ask for its health and its metrics all the time: they have no line.
void Server::State::note(const Call& call, int status, std::string_view error) {
  serving.metrics.add_status(status);
  const HttpRequest& request = call.request;
  if (request.path == "/health" || request.path == "/metrics") return;
  LogLine line{request.client, request.method, request.path, status};
  line.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - call.start)
                .count();
  line.error = std::string(error);
  write_log(serving.options.log, line);
}

void Server::State::answer(Call& call, HttpReply reply) {
  note(call, reply.status);
  reply.fields.insert(reply.fields.end(), call.fields.begin(), call.fields.end());
  call.exchange->reply(std::move(reply));
}

// What HTTP refuses by itself: nothing of the request is known, but who sent it.
void Server::State::note_refusal(int status, std::string_view message, std::string_view client) {
  serving.metrics.add_status(status);
  LogLine line{std::string(client), "-", "-", status};
  line.error = std::string(message);
  write_log(serving.options.log, line);
}

void Server::State::refuse(Call& call, const ApiError& error) { answer(call, error_reply(error)); }

// Refuses it where too many have no answer yet.
bool Server::State::is_full(Call& call) {
  if (serving.accepted < serving.options.max_queue) return false;
  refuse(call, {429,
                fmt::format("{} requests are being answered or wait already; try again",
                            serving.options.max_queue),
                "", "queue_full"});
  return true;
}

void Server::State::later(Call& call, Work work) {
  if (is_full(call)) return;
  auto gone = std::make_shared<std::atomic<bool>>(false);
  call.exchange->on_gone([gone] { *gone = true; });
  workers.add(
      [this, call, gone, work = std::move(work), counted = Counted(serving.accepted)]() mutable {
        try {
          if (*gone) return note(call, kClientLeft, "the client went away");
          auto made = work(call.request, *gone);
          if (*gone) return note(call, kClientLeft, "the client went away");
          if (const auto* error = std::get_if<ApiError>(&made))
            refuse(call, *error);
          else
            answer(call, {.status = 200, .body = std::move(std::get<std::string>(made))});
        } catch (const std::bad_alloc&) {
          call.exchange->reply({.status = 503, .body = std::string(kOutOfMemoryBody)});
          note(call, 503, "out of memory");
        }
      });
}

Load Server::State::load() {
  Load load;
  load.running = serving.room.size();
  load.waiting = std::max(0, serving.accepted - load.running);
  load.connections = http->connections();
  if (const auto ready = ready_engine()) load.memory = ready->memory();
  return load;
}

void Server::State::page(Call& call) {
  call.fields.emplace_back("Content-Security-Policy", view::page_policy());
  call.fields.emplace_back("X-Content-Type-Options", "nosniff");
  call.fields.emplace_back("Referrer-Policy", "no-referrer");
  call.fields.emplace_back("Cache-Control", "no-cache");  // the next version has another one
  answer(call,
         {.status = 200, .type = "text/html; charset=utf-8", .body = std::string(view::page())});
}

void Server::State::health(Call& call) {
  const auto ready = ready_engine();
  if (!ready) return refuse(call, loading());
  if (!why_device_failed().empty()) return refuse(call, device_failed());
  if (!takes_questions(*ready))
    return refuse(call,
                  {503,
                   "the model's files have changed since they were loaded, and no question is "
                   "answered; start the server again",
                   "", "model_changed"});
  answer(call, {.status = 200, .body = R"({"status":"ok"})"});
}

void Server::State::version_of(Call& call) {
  answer(call, {.status = 200, .body = fmt::format(R"({{"version":"{}"}})", version())});
}

void Server::State::models(Call& call) {
  const auto ready = ready_engine();
  answer(call, {.status = 200, .body = models_json(serving.options.model, ready)});
}

void Server::State::model(Call& call) {
  // Clients write the slash of "org/model" as %2F, or as it is.
  if (call.rest != serving.options.model && percent_decoded(call.rest) != serving.options.model)
    return refuse(
        call, {404, "this model is not served here; see /v1/models", "model", "model_not_found"});
  answer(call, {.status = 200, .body = model_json(serving.options.model, ready_engine())});
}

void Server::State::metrics(Call& call) {
  answer(call, {.status = 200,
                .type = "text/plain; version=0.0.4; charset=utf-8",
                .body = serving.metrics.text(load())});
}

void Server::State::openapi(Call& call) {
  answer(call, {.status = 200, .body = std::string(openapi_json())});
}

void Server::State::ask(Call& call, Api api) {
  auto ready = ready_engine();
  if (!ready) return refuse(call, loading());
  if (!why_device_failed().empty()) return refuse(call, device_failed());
  if (is_full(call)) return;
  auto job = std::make_shared<ChatJob>(serving, api, std::move(*ready), call.exchange, call.key,
                                       std::move(call.fields));
  job->watch();
  workers.add([this, job] { prepare(job); });
}

// On a worker. Those whose grammar is to be compiled wait for one another without one.
void Server::State::prepare(const std::shared_ptr<ChatJob>& job) {
  const ChatJob::Step next = job->read();
  if (next == ChatJob::Step::kLoad) job->load();
  if (next != ChatJob::Step::kCompile) return;
  compiles.run([this, job] {
    if (job->compile() == ChatJob::Step::kLoad) workers.add([job] { job->load(); });
  });
}

void Server::State::tokenize(Call& call) {
  auto ready = ready_engine();
  if (!ready) return refuse(call, loading());
  later(call, [ready = std::move(*ready)](const HttpRequest& request, const std::atomic<bool>&) {
    return tokenize_json(ready, request.body);
  });
}

void Server::State::detokenize(Call& call) {
  auto ready = ready_engine();
  if (!ready) return refuse(call, loading());
  later(call, [ready = std::move(*ready)](const HttpRequest& request, const std::atomic<bool>&) {
    return detokenize_json(ready, request.body);
  });
}

void Server::State::see(Call& call) {
  later(call, [this](const HttpRequest& request, const std::atomic<bool>& gone) {
    return see_json(request.body, serving.options.pictures, serving.picture_room, gone);
  });
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Where run() has ended before the last of them, they use what would go here.
Server::~Server() {
  while (state_->is_busy()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

Result<std::unique_ptr<Server>> Server::listen(ServeOptions options) {
  options.http.error_body = [](int status, std::string_view message) {
    return error_body({status, std::string(message), "", ""});
  };
  auto refusals = std::make_shared<State*>(nullptr);  // whose they are is not there yet
  options.http.on_refusal = [refusals](int status, std::string_view message,
                                       std::string_view client) {
    (*refusals)->note_refusal(status, message, client);
  };
  auto state = std::make_unique<State>(std::move(options));
  State* const owner = state.get();
  *refusals = owner;
  auto http = HttpServer::listen(
      owner->serving.options.http,
      [owner](const std::shared_ptr<HttpExchange>& exchange) { owner->handle(exchange); });
  if (!http) return http.error();
  state->http = std::move(*http);
  owner->serving.on_worker = [owner](std::function<void()> work) {
    owner->workers.add(std::move(work));
  };
  owner->serving.on_failure = [owner] {
    if (!owner->serving.options.device_works) return;
    try {
      owner->serving.on_worker([owner] { owner->look_at_device(); });
    } catch (const std::bad_alloc&) {  // the next question that fails has it looked at
      return;
    }
  };
  state->local = is_own_address(state->http->address());
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

std::string Server::address() const { return state_->http->address(); }

Result<int> Server::start_workers() {
  const int started = state_->workers.start(kWorkers);
  if (started == 0) return failed("cannot start a thread of the server: the system has none left");
  return started;
}

void Server::set_engine(Engine engine) {
  const std::lock_guard lock(state_->mutex);
  state_->engine.emplace(std::move(engine));
}

bool Server::run() {
  state_->http->run();
  // All connections have ended, so what is left is for nobody. Most of it stops soon; a grammar
  // that is being compiled, or a sight, does not hear of it.
  const auto limit = std::chrono::steady_clock::now() + kAfterTheLast;
  while (state_->is_busy()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string Server::device_failure() const { return state_->why_device_failed(); }

void Server::stop(std::chrono::milliseconds limit) { state_->http->stop(limit); }

}  // namespace fovea::serve
