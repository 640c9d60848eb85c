// SPDX-License-Identifier: Apache-2.0
// fovea serve: flags, loading, signals.
#include "serve/server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "device/accelerator.h"
#include "fovea/command.h"
#include "fovea/fovea.h"
#include "fovea/model_flags.h"
#include "serve/access.h"

namespace fovea::app {
namespace {

struct ServeFlags {
  ModelFlags model;  // of its flags those alone that say how a model is loaded
  serve::ServeOptions options;
  std::string key_file;
  std::string name;
  std::string log = "text";
  int drain_seconds = 30;
  int64_t body_bytes = 64 << 20;
};

Status read_flags(ServeFlags& flags) {
  serve::ServeOptions& options = flags.options;
  if (!flags.key_file.empty()) {
    auto keys = serve::read_keys(flags.key_file);
    if (!keys) return keys.error();
    options.keys = std::move(*keys);
  } else if (const char* key = std::getenv("FOVEA_API_KEY"); key != nullptr && *key != '\0') {
    auto keys = serve::keys_of(key, "$FOVEA_API_KEY");
    if (!keys) return keys.error();
    options.keys = std::move(*keys);
  }
  options.log = flags.log == "json"                              ? serve::LogForm::kJson
                : flags.log == "off" || flags.model.common.quiet ? serve::LogForm::kOff
                                                                 : serve::LogForm::kText;
  options.model = flags.name;
  if (options.model.empty()) {
    const std::filesystem::path path(flags.model.model);
    options.model = (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  std::error_code error;
  if (!options.pictures.folder.empty() &&
      !std::filesystem::is_directory(options.pictures.folder, error))
    return bad_input(
        fmt::format("--allow-folder {}: there is no such folder", options.pictures.folder));
  serve::HttpLimits& bounds = options.http.limits;
  bounds.body_bytes = static_cast<size_t>(flags.body_bytes);
  bounds.all_bodies_bytes = std::max(bounds.all_bodies_bytes, bounds.body_bytes);
  options.pictures.pixels = flags.model.max_pixels;
  // Of some errors (a kernel that read where nothing is) a GPU does not recover: whatever a process
  // asks of it fails then, and so does opening it.
  const std::string& device = flags.model.common.device;
  if (device != "cpu")
    options.device_works = [device]() -> Status {
      const auto opened = open_accelerator(device, /*portable=*/false);
      if (!opened) return opened.error();
      return Done{};
    };
  return Done{};
}

template <class Work>
Status start_thread(std::thread& thread, Work work) {
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return failed(fmt::format("cannot start a thread of the server: {}", error.code().message()));
  }
  return Done{};
}

// How long /health says that the device has failed before the process ends.
constexpr std::chrono::seconds kTellsOfFailure{5};

// Waits for SIGTERM and SIGINT, which all threads have blocked. The first lets what was accepted be
// answered, the second ends that. Ends a server whose device has failed, too.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  Status start(serve::Server& server, const ServeFlags& flags) {
    return start_thread(thread_, [this, &server, &flags] {
      for (int count = 0; !over_;) {
        end_failed(server);
        const timespec wait{0, 100'000'000};
        if (sigtimedwait(&set_, nullptr, &wait) < 0) continue;
        asked_ = true;
        server.stop(std::chrono::seconds(flags.drain_seconds));
        if (count++ == 0) note(flags.model.common, "ending: what was accepted is answered first");
      }
    });
  }
  void end() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  bool asked() const { return asked_; }

 private:
  using Clock = std::chrono::steady_clock;

  void end_failed(serve::Server& server) {
    if (end_at_ && Clock::now() >= *end_at_) server.stop(std::chrono::seconds(0));
    if (end_at_) return;
    const std::string failure = server.device_failure();
    if (failure.empty()) return;
    tell("fovea: the device has failed, and the server ends: {}\n", failure);
    end_at_ = Clock::now() + kTellsOfFailure;
  }

  sigset_t set_{};
  std::optional<Clock::time_point> end_at_;  // the device has failed
  std::atomic<bool> over_ = false;
  std::atomic<bool> asked_ = false;
  std::thread thread_;
};

Status print_welcome(const ServeFlags& flags, const serve::Server& server) {
  auto written = save_text("-", fmt::format("listening on http://{}\n", server.address()));
  if (!written) return written;
  note(flags.model.common, fmt::format("the page: http://{}/", server.address()));
  note(flags.model.common,
       fmt::format("try: curl http://{}/v1/chat/completions{} -H 'Content-Type: application/json' "
                   "-d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'",
                   server.address(),
                   flags.options.keys.empty() ? "" : " -H \"Authorization: Bearer KEY\""));
  return Done{};
}

Status start_workers(serve::Server& server, const ServeFlags& flags) {
  const auto started = server.start_workers();
  if (!started) return started.error();
  constexpr int kWanted = serve::Server::kWorkers;
  if (*started < kWanted)
    note(flags.model.common,
         fmt::format(
             "the system has threads for {} of {} workers: fewer pictures are loaded at once",
             *started, kWanted));
  return Done{};
}

// Loads the model into a server that answers already.
Status make_ready(serve::Server& server, ServeFlags& flags, const Signals& signals) {
  double load_ms = 0;
  Result<Engine> engine = load_model(flags.model, load_ms);
  if (!engine) return engine.error();
  // The vocabulary and some of the weights are read behind the loading: what cannot answer is not
  // offered.
  AskOptions options;
  options.max_tokens = 1;
  options.share = false;
  options.keep_going = [&] { return !signals.asked(); };
  if (const auto answer = engine->session().ask("Hello", options); !answer) {
    const bool no_room = answer.error().reason == Error::Reason::kRoom && flags.model.memory > 0;
    return no_room ? bad_input("--memory is too small for any question: " + answer.error().message)
                   : answer.error();
  }
  server.set_engine(*std::move(engine));
  return signals.asked() ? Status(Done{}) : print_welcome(flags, server);
}

int run(ServeFlags& flags) {
  if (const auto read = read_flags(flags); !read) return complain(read.error());
  Signals signals;  // before any other thread
  auto server = serve::Server::listen(flags.options);
  if (!server) return complain(server.error());
  bool all_ended = true;
  std::thread http;  // before the workers, which take what threads the system has
  if (auto begun = start_thread(http, [&] { all_ended = (*server)->run(); }); !begun)
    return complain(begun.error());
  int status = kGood;
  try {
    Status ready = signals.start(**server, flags);
    if (ready) ready = start_workers(**server, flags);
    if (ready) ready = make_ready(**server, flags, signals);
    if (!ready) {
      status = signals.asked() ? kGood : complain(ready.error());
      (*server)->stop(std::chrono::milliseconds(0));
    }
  } catch (const std::bad_alloc&) {  // the threads cannot be waited for: they may want memory too
    end_without_memory();
  }
  http.join();
  signals.end();
  const bool device_failed = !(*server)->device_failure().empty();
  if (device_failed) status = kFailed;
  // Nobody waits for what still works, and it may take long; a device that has failed may not even
  // give its memory back.
  if (!all_ended || device_failed) {
    std::fflush(stdout);
    std::fflush(stderr);
    std::_Exit(status);
  }
  return status;
}

}  // namespace

Run add_serve(CLI::App& program) {
  auto flags = std::make_shared<ServeFlags>();
  serve::ServeOptions& options = flags->options;
  CLI::App* command = program.add_subcommand(
      "serve", "Answer over HTTP as OpenAI's API does, many questions at once");
  const char* const kModel = "The model";
  const char* const kNetwork = "The network";
  const char* const kSafety = "Who may ask, and for what";
  add_load_flags(*command, flags->model);
  for (CLI::Option* option : command->get_options())
    if (!option->get_name().starts_with("--help")) option->group(kModel);
  command
      ->add_option("--name", flags->name,
                   "What clients call the model (default: its folder's name)")
      ->group(kModel);
  command->add_option("--host", options.http.host, "The address to listen on")
      ->capture_default_str()
      ->group(kNetwork);
  command->add_option("--port", options.http.port, "The port to listen on; 0 takes a free one")
      ->capture_default_str()
      ->check(whole_number(0, 65535))
      ->group(kNetwork);
  command
      ->add_option("--max-queue", options.max_queue,
                   "Requests that are being answered or wait; one more is told to come again (429)")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20))
      ->group(kNetwork);
  command
      ->add_option("--max-connections", options.http.limits.connections,
                   "Connections at once; one more is closed (503)")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20))
      ->group(kNetwork);
  command->add_option("--max-body", flags->body_bytes, "The most bytes of a request's body")
      ->capture_default_str()
      ->check(whole_number(1, uint64_t{1} << 40))
      ->group(kNetwork);
  command
      ->add_option("--drain-seconds", flags->drain_seconds,
                   "After SIGTERM, how long requests that were accepted may take")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 20))
      ->group(kNetwork);
  command
      ->add_option("--api-key-file", flags->key_file,
                   "A file with keys, one a line; without it $FOVEA_API_KEY, and without that "
                   "anybody may ask")
      ->check(some_path())
      ->group(kSafety);
  command
      ->add_option("--allow-host", options.pictures.hosts,
                   "Fetch pictures by http and https from this host; may be repeated (default: "
                   "from none)")
      ->take_all()
      ->allow_extra_args(false)
      ->group(kSafety);
  command
      ->add_option("--allow-folder", options.pictures.folder,
                   "Take pictures by file URLs from inside this folder (default: from none)")
      ->check(some_path())
      ->group(kSafety);
  command->add_option("--log", flags->log, "A line for each request on stderr: text, json or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json", "off"}))
      ->group(kNetwork);
  command->footer(
      "Examples:\n"
      "  fovea serve\n"
      "  fovea serve -m Qwen3-VL-2B-Instruct --weights int8 --host 0.0.0.0 --api-key-file keys\n"
      "Serves /v1/chat/completions, /v1/responses, /v1/models, /health, /metrics, /tokenize,\n"
      "/detokenize, /version, /fovea/see and /openapi.json, and at / a page to ask with;\n"
      "docs/serve.md says what each takes.");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
