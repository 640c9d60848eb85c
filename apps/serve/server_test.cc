// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "places.h"

namespace fovea::serve {
namespace {

// A connection on which that has been asked; below 0: none.
int send_to(const Server& server, const std::string& first_line, const std::string& body) {
  const std::string address = server.address();
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  if (client < 0) return client;
  const std::string request = fmt::format(
      "{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
      first_line, body.size(), body);
  if (connect(client, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0 &&
      send(client, request.data(), request.size(), MSG_NOSIGNAL) > 0)
    return client;
  close(client);
  return -1;
}

// Whatever the server answers to one request, with its head.
std::string ask(const Server& server, const std::string& first_line, const std::string& body = "") {
  const int client = send_to(server, first_line, body);
  if (client < 0) return "no connection";
  std::string got;
  char bytes[4096];
  for (ssize_t size; (size = recv(client, bytes, sizeof bytes, 0)) > 0;)
    got.append(bytes, static_cast<size_t>(size));
  close(client);
  return got;
}

constexpr const char* kAsk = "POST /v1/chat/completions";
constexpr const char* kBody =
    R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})";

TEST(Server, WhileItLoadsItIsThereAndTakesNoQuestions) {
  ServeOptions options;
  options.http.port = 0;
  options.log = LogForm::kOff;
  options.model = "tiny";
  auto server = Server::listen(std::move(options));
  ASSERT_TRUE(server) << server.error().message;
  ASSERT_TRUE((*server)->start_workers());
  std::thread http([&] { (*server)->run(); });
  for (const char* line : {"GET /health", kAsk, "POST /v1/responses", "POST /tokenize"}) {
    const std::string got = ask(**server, line, line[0] == 'G' ? "" : kBody);
    EXPECT_TRUE(got.starts_with("HTTP/1.1 503 ")) << line << ": " << got;
    EXPECT_NE(got.find("\"code\":\"loading\""), std::string::npos) << line << ": " << got;
    EXPECT_NE(got.find("Retry-After: 1\r\n"), std::string::npos) << line << ": " << got;
  }
  EXPECT_TRUE(ask(**server, "GET /v1/models").starts_with("HTTP/1.1 200 "));
  auto engine = Engine::load(source_dir() + "/models/tiny");
  EXPECT_TRUE(engine);
  if (engine) (*server)->set_engine(*std::move(engine));
  EXPECT_TRUE(ask(**server, "GET /health").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(ask(**server, kAsk, kBody).starts_with("HTTP/1.1 200 "));
  (*server)->stop(std::chrono::milliseconds(0));
  http.join();
}

// They are read by workers, which are not there until the clients have left.
TEST(Server, WhoLeavesBeforeTheEngineHasTheQuestionHasALineInTheLog) {
  ServeOptions options;
  options.http.port = 0;
  auto server = Server::listen(std::move(options));
  ASSERT_TRUE(server) << server.error().message;
  auto engine = Engine::load(source_dir() + "/models/tiny");
  ASSERT_TRUE(engine) << engine.error().message;
  (*server)->set_engine(*std::move(engine));
  for (const char* line : {kAsk, "POST /tokenize"}) {
    const int client = send_to(**server, line, kBody);
    ASSERT_GE(client, 0);
    close(client);
  }
  std::thread http([&] { (*server)->run(); });
  const auto metric = [&](const std::string& line) {
    return ask(**server, "GET /metrics").find("\n" + line + "\n") != std::string::npos;
  };
  while (!metric("vllm:num_requests_waiting{model_name=\"\"} 2") ||
         !metric("fovea:connections{model_name=\"\"} 1"))
    std::this_thread::yield();
  testing::internal::CaptureStderr();
  const bool started = static_cast<bool>((*server)->start_workers());
  while (started && !metric("fovea:http_responses_total{status=\"499\"} 2"))
    std::this_thread::yield();
  EXPECT_TRUE(ask(**server, "GET /health").starts_with("HTTP/1.1 200 "));
  (*server)->stop(std::chrono::milliseconds(0));
  http.join();
  server->reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(" POST /v1/chat/completions 499 "), std::string::npos) << log;
  EXPECT_NE(log.find(" POST /tokenize 499 "), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << "and no other: " << log;
}

TEST(Server, ATemplateIsToldWhatTheClientSays) {
  const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("told_{}", getpid());
  std::filesystem::copy(source_dir() + "/models/tiny", folder);
  std::filesystem::permissions(folder / "chat_template.jinja", std::filesystem::perms::owner_all);
  std::ofstream(folder / "chat_template.jinja")
      << "{{ tone | default('no tone') }}{{ '!' * depth if depth }} {{ messages[0].content }}";
  ServeOptions options;
  options.http.port = 0;
  options.log = LogForm::kOff;
  auto server = Server::listen(std::move(options));
  ASSERT_TRUE(server) << server.error().message;
  auto engine = Engine::load(folder.string());
  ASSERT_TRUE(engine) << engine.error().message;
  (*server)->set_engine(*std::move(engine));
  ASSERT_TRUE((*server)->start_workers());
  std::thread http([&] { (*server)->run(); });
  const auto told = [&](const std::string& kwargs) {
    std::string body = kBody;
    body.insert(1, R"("fovea": {"trace": true}, "chat_template_kwargs": )" + kwargs + ", ");
    return ask(**server, kAsk, body);
  };
  const auto expect = [](const std::string& got, const std::string& must_hold) {
    EXPECT_NE(got.find(must_hold), std::string::npos) << got;
  };
  expect(told("{}"), R"("prompt":"no tone Hi")");
  expect(told(R"({"tone": "dry", "depth": 2, "unknown": [1]})"), R"("prompt":"dry!! Hi")");
  const std::string refused = told(R"({"messages": []})");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 400 "));
  expect(refused, R"("param":"chat_template_kwargs.messages")");
  (*server)->stop(std::chrono::milliseconds(0));
  http.join();
  server->reset();
  std::filesystem::remove_all(folder);
}

// A server whose engine fails once spoil() has changed a file that it computes with.
class FailingServerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("failing_{}", getpid());
    std::filesystem::copy(source_dir() + "/models/tiny", folder_);
    ServeOptions options;
    options.http.port = 0;
    options.log = LogForm::kOff;
    options.device_works = [this]() -> Status {
      ++asked_;
      if (works_) return Done{};
      return failed("CUDA: a computation: unspecified launch failure");
    };
    auto server = Server::listen(std::move(options));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    ASSERT_TRUE(server_->start_workers());
    auto engine = Engine::load(folder_.string());
    ASSERT_TRUE(engine) << engine.error().message;
    server_->set_engine(*std::move(engine));
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (server_) server_->stop(std::chrono::milliseconds(0));
    if (thread_.joinable()) thread_.join();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  void spoil() {
    std::fstream file(folder_ / "model-00001-of-00002.safetensors",
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-4096, std::ios::end);
    file << std::string(4096, '?');
  }

  std::filesystem::path folder_;
  std::atomic<bool> works_ = true;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(FailingServerTest, AnAnswerThatComesAsksNothingOfTheDevice) {
  works_ = false;
  EXPECT_TRUE(ask(*server_, kAsk, kBody).starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(server_->device_failure(), "");
}

TEST_F(FailingServerTest, AFailureOfAQuestionAloneEndsNothing) {
  spoil();
  EXPECT_TRUE(ask(*server_, kAsk, kBody).starts_with("HTTP/1.1 500 "));
  while (asked_ == 0) std::this_thread::yield();
  EXPECT_EQ(server_->device_failure(), "");
  EXPECT_NE(ask(*server_, "GET /health").find("\"model_changed\""), std::string::npos);
}

TEST_F(FailingServerTest, ADeviceThatHasFailedIsToldAndTakesNoQuestions) {
  works_ = false;
  spoil();
  EXPECT_TRUE(ask(*server_, kAsk, kBody).starts_with("HTTP/1.1 500 "));
  while (server_->device_failure().empty()) std::this_thread::yield();
  EXPECT_EQ(server_->device_failure(), "CUDA: a computation: unspecified launch failure");
  for (const std::string& got : {ask(*server_, "GET /health"), ask(*server_, kAsk, kBody)}) {
    EXPECT_TRUE(got.starts_with("HTTP/1.1 503 ")) << got;
    EXPECT_NE(got.find("\"device_failed\""), std::string::npos) << got;
    EXPECT_EQ(got.find("CUDA"), std::string::npos) << "the reason is for the log";
  }
}

}  // namespace
}  // namespace fovea::serve
