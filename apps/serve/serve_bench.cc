// SPDX-License-Identifier: Apache-2.0
// What HTTP adds: the same questions in process and over the loopback, one at a time and 32 at
// once, and what connections cost that say nothing. `fovea bench serve [--model DIR] [--device
// cuda]`. The embedded model answers with a code; answers of another have kAnswerTokens. On a CPU
// both sides must say the same. On a GPU a question in other company may round elsewhere, and so
// end in another word: there an answer must be whole.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/json.h"
#include "bench/bench.h"
#include "cards/cards.h"
#include "fovea/fovea.h"
#include "media/encode_png.h"
#include "serve/bench_client.h"
#include "serve/server.h"

namespace fovea::serve {
namespace {

constexpr int kClients = 32;
constexpr int kEach = 2;  // questions of a client in a round
constexpr int kRounds = 5;
constexpr int kAlone = 40;  // questions one after the other
constexpr int kIdle = 2000;
constexpr int kAnswerTokens = 32;  // of a model that was not made for these scenes

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

std::string base64(const std::vector<uint8_t>& bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < left ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= left ? kLetters[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

Asked make_question_about_scene(uint64_t seed, int answer_tokens) {
  const CardScene scene = make_scene(seed);
  Asked asked;
  asked.file = encode_png(scene.image);
  asked.question = "Which code is on the " + card_name(scene.cards.front()) + "?";
  asked.answer_tokens = answer_tokens;
  const std::string length =
      answer_tokens > 0 ? fmt::format(R"("max_tokens":{},"ignore_eos":true,)", answer_tokens) : "";
  asked.body =
      fmt::format(R"({{"stream":true,"stream_options":{{"include_usage":true}},{})"
                  R"("messages":[{{"role":"user","content":[)"
                  R"({{"type":"image_url","image_url":{{"url":"data:image/png;base64,{}"}}}},)"
                  R"({{"type":"text","text":"{}"}}]}}]}})",
                  length, base64(asked.file), asked.question);
  return asked;
}

Heard ask_here(const Engine& engine, const Asked& asked) {
  const auto start = Clock::now();
  Heard heard;
  Request request;
  auto image = load_image(asked.file);
  if (!image) return heard;
  request.images.push_back(std::move(*image));
  request.messages = {{"user", {{0, ""}, {-1, asked.question}}}};
  request.options.max_tokens = asked.answer_tokens > 0 ? asked.answer_tokens : 4096;
  request.options.ignore_end = asked.answer_tokens > 0;
  Callbacks callbacks;
  callbacks.on_text = [&](int, std::string_view piece) {
    if (heard.text.empty()) heard.first_ms = ms_since(start);
    const std::string quoted = json_text(nlohmann::json(piece));
    heard.text += quoted.substr(1, quoted.size() - 2);
    return true;
  };
  const auto ticket = engine.submit(std::move(request), std::move(callbacks));
  if (!ticket) return heard;
  if (const Result<Answer>& answer = ticket->wait())
    heard.tokens = answer->trace.usage.answer_tokens;
  return heard;
}

// Questions a second of all clients together; `answers` gets what they heard.
double ask_all(const std::vector<Asked>& asked,
               const std::function<Heard(int client, size_t i)>& ask, std::vector<Heard>& answers) {
  answers.assign(asked.size(), {});
  const auto start = Clock::now();
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (int client = 0; client < kClients; ++client)
    clients.emplace_back([&, client] {
      for (auto i = static_cast<size_t>(client); i < asked.size(); i += kClients)
        answers[i] = ask(client, i);
    });
  for (std::thread& client : clients) client.join();
  return 1000.0 * static_cast<double>(asked.size()) / ms_since(start);
}

int64_t resident_bytes() {
  long pages = 0;
  long resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int read = std::fscanf(file, "%ld %ld", &pages, &resident);  // NOLINT: the kernel's own
  std::fclose(file);
  return read == 2 ? int64_t{resident} * sysconf(_SC_PAGESIZE) : 0;
}

class ServeBench {
 public:
  ServeBench(Bench& bench, Engine engine, uint16_t port)
      : bench_(bench), engine_(std::move(engine)), port_(port) {}

  void run() {
    if (bench_.wants("serve/first-token")) first_tokens();
    if (bench_.wants("serve/requests")) many();
    if (bench_.wants("serve/idle")) idle();
  }

 private:
  bool on_cpu() const { return bench_.device == "cpu"; }

  // Scenes that differ, so that nothing is known of one from another.
  std::vector<Asked> make_questions(int count, uint64_t seed) {
    std::vector<Asked> all(static_cast<size_t>(count));
    const int answer_tokens = bench_.model.empty() ? 0 : kAnswerTokens;
    bench_.threads.for_each(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        all[static_cast<size_t>(i)] =
            make_question_about_scene(seed + static_cast<uint64_t>(i), answer_tokens);
    });
    return all;
  }

  // Whether an answer is whole and, where the other side was asked too, the same there.
  static bool is_right(const Asked& asked, const Heard& heard, const Heard* other) {
    const bool is_whole =
        !heard.text.empty() &&
        (asked.answer_tokens > 0 ? heard.tokens == asked.answer_tokens : heard.tokens > 0);
    return is_whole && (other == nullptr || heard.text == other->text);
  }

  // Each side has scenes of its own, since what one has computed of a picture serves the other.
  // What it heard is checked on the other side afterwards.
  void first_tokens() {
    bench_.progress("serve/first-token");
    const auto for_here = make_questions(kAlone, 1);
    const auto for_there = make_questions(kAlone, 10'000);
    Client client(port_);
    std::vector<double> here;
    std::vector<double> there;
    bool same = client.is_open();
    for (size_t i = 0; i < kAlone; ++i) {  // alternately, so that a disturbance meets both
      const Heard in_process = ask_here(engine_, for_here[i]);
      const Heard over_http = client.ask(for_there[i]);
      here.push_back(in_process.first_ms);
      there.push_back(over_http.first_ms);
      const Heard there_too = on_cpu() ? client.ask(for_here[i]) : in_process;
      const Heard here_too = on_cpu() ? ask_here(engine_, for_there[i]) : over_http;
      same = same && is_right(for_here[i], in_process, &there_too) &&
             is_right(for_there[i], over_http, &here_too);
    }
    bench_.add(same, {.name = "serve/first-token/in-process",
                      .value = median(here),
                      .unit = "ms",
                      .note = fmt::format("least {:.2f}", least(here))});
    bench_.add(same, {.name = "serve/first-token/http",
                      .value = median(there),
                      .unit = "ms",
                      .note = fmt::format("{:+.2f} ms; least {:.2f}, {:+.2f} ms",
                                          median(there) - median(here), least(there),
                                          least(there) - least(here))});
  }

  void many() {
    bench_.progress("serve/requests");
    const auto clients = connect_all(kClients);
    const auto in_process = [&](const std::vector<Asked>& asked, std::vector<Heard>& heard) {
      return ask_all(
          asked, [&](int, size_t i) { return ask_here(engine_, asked[i]); }, heard);
    };
    const auto over_http = [&](const std::vector<Asked>& asked, std::vector<Heard>& heard) {
      return ask_all(
          asked,
          [&](int client, size_t i) { return clients[static_cast<size_t>(client)]->ask(asked[i]); },
          heard);
    };
    std::vector<double> here;
    std::vector<double> there;
    bool same = true;
    const auto check = [&](const std::vector<Asked>& asked, const std::vector<Heard>& heard,
                           const std::vector<Heard>& others) {
      for (size_t i = 0; i < asked.size(); ++i)
        same = same && is_right(asked[i], heard[i], others.empty() ? nullptr : &others[i]);
    };
    for (uint64_t round = 0; round < kRounds; ++round) {
      const auto for_here = make_questions(kClients * kEach, 100'000 * (2 * round + 1));
      const auto for_there = make_questions(kClients * kEach, 100'000 * (2 * round + 2));
      std::vector<Heard> heard_here;
      std::vector<Heard> heard_there;
      std::vector<Heard> again;
      here.push_back(in_process(for_here, heard_here));
      there.push_back(over_http(for_there, heard_there));
      if (on_cpu()) (void)over_http(for_here, again);
      check(for_here, heard_here, again);
      if (on_cpu()) (void)in_process(for_there, again);
      check(for_there, heard_there, again);
    }
    bench_.add(same, {.name = fmt::format("serve/requests/{}/in-process", kClients),
                      .value = median(here),
                      .unit = "1/s",
                      .note = fmt::format("rounds of {:.4g} to {:.4g}", least(here), most(here))});
    bench_.add(
        same, {.name = fmt::format("serve/requests/{}/http", kClients),
               .value = median(there),
               .unit = "1/s",
               .note = fmt::format("{:.0f} % of in process; rounds of {:.4g} to {:.4g}",
                                   100 * median(there) / median(here), least(there), most(there))});
  }

  void idle() {
    bench_.progress("serve/idle");
    const int64_t before = resident_bytes();
    const auto clients = connect_all(kIdle);
    const bool open = std::all_of(clients.begin(), clients.end(),
                                  [](const auto& client) { return client->is_open(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until all are accepted
    const double mib = static_cast<double>(resident_bytes() - before) / (1 << 20);
    bench_.add(open, {.name = fmt::format("serve/idle/{}", kIdle), .value = mib, .unit = "MiB"});
  }

  std::vector<std::unique_ptr<Client>> connect_all(int count) const {
    std::vector<std::unique_ptr<Client>> clients;
    clients.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(port_));
    return clients;
  }

  Bench& bench_;
  Engine engine_;
  uint16_t port_;
};

void bench_serve(Bench& bench) {
  LoadOptions loading;
  loading.device = bench.device;
  loading.kernels = bench.kernels;
  loading.weights = bench.weights;
  loading.threads = bench.threads.size();
  auto engine = Engine::load(bench.model.empty() ? "tiny" : bench.model, loading);
  if (!engine) {
    bench.error = engine.error();
    return;
  }
  ServeOptions options;
  options.http.port = 0;
  options.model = "bench";
  options.log = LogForm::kOff;
  auto server = Server::listen(std::move(options));
  if (!server) {
    bench.error = server.error();
    return;
  }
  if (const auto started = (*server)->start_workers(); !started) {
    bench.error = started.error();
    return;
  }
  (*server)->set_engine(*engine);
  std::thread http([&] { (*server)->run(); });
  const std::string address = (*server)->address();
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  ServeBench(bench, *engine, port).run();
  (*server)->stop(std::chrono::milliseconds(0));
  http.join();
}

const BenchRegistration kRegistered("serve", "serve", bench_serve);

}  // namespace
}  // namespace fovea::serve
