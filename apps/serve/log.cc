// SPDX-License-Identifier: Apache-2.0
#include "serve/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace fovea::serve {
namespace {

std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

// What a client chose of a line. A line with all of it is shorter than what a pipe takes at once.
constexpr size_t kMostMethod = 20;
constexpr size_t kMostPath = 200;
constexpr size_t kMostError = 500;

std::string as_json(const LogLine& line) {
  nlohmann::ordered_json json = {{"time", now()},
                                 {"client", line.client},
                                 {"method", printable_line(line.method, kMostMethod)},
                                 {"path", printable_line(line.path, kMostPath)},
                                 {"status", line.status},
                                 {"ms", line.ms}};
  if (line.usage != nullptr) {
    json["text_tokens"] = line.usage->text_tokens;
    json["image_tokens"] = line.usage->image_tokens;
    json["image_tokens_full"] = line.usage->image_tokens_full;
    json["cached_tokens"] = line.usage->kept_tokens;
    json["answer_tokens"] = line.usage->answer_tokens;
    json["finish"] = line.finish;
  }
  if (!line.error.empty()) json["error"] = printable_line(line.error, kMostError);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Names of paths come from anybody: nothing in them may act on a terminal.
std::string as_text(const LogLine& line) {
  std::string text = fmt::format("{} {} {} {} {} {:.1f} ms", now(), line.client,
                                 printable_line(line.method, kMostMethod),
                                 printable_line(line.path, kMostPath), line.status, line.ms);
  if (line.usage != nullptr)
    text += fmt::format(", prompt {} + {} of {} visual ({} cached), answer {} ({})",
                        line.usage->text_tokens, line.usage->image_tokens,
                        line.usage->image_tokens_full, line.usage->kept_tokens,
                        line.usage->answer_tokens, line.finish);
  if (!line.error.empty()) text += ": " + printable_line(line.error, kMostError);
  return text;
}

}  // namespace

void write_log(LogForm form, const LogLine& line) {
  if (form == LogForm::kOff) return;
  const std::string text = (form == LogForm::kJson ? as_json(line) : as_text(line)) + "\n";
  // In one piece, so that lines do not mix. Nobody waits for a reader of the log: a line for which
  // there is no room is left out.
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0)
    (void)!write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace fovea::serve
