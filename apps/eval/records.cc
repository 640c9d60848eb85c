// SPDX-License-Identifier: Apache-2.0
#include "eval/records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace fovea::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The settings two runs differ in, for a person.
std::string difference(const Json& kept, const Json& wanted) {
  for (const auto& [key, value] : wanted.items())
    if (!kept.contains(key) || kept[key] != value)
      return fmt::format("{} is {} there, {} here", key,
                         kept.contains(key) ? kept[key].dump() : "missing", value.dump());
  return "it has settings this version does not know";
}

template <class T>
bool take(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found == json.end()) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return false;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) return false;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!found->is_number()) return false;
  } else {
    if (!found->is_number_unsigned()) return false;
  }
  value = found->get<T>();
  return true;
}

}  // namespace

Records::~Records() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<Records>> Records::open(const std::string& path,
                                               const std::string& settings_json, size_t questions) {
  std::unique_ptr<Records> records(new Records);
  if (path.empty()) return records;
  records->path_ = path;
  records->fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (records->fd_ < 0)
    return bad_input(fmt::format("--resume {}: {}", path, std::strerror(errno)));
  if (auto read = records->read(path, settings_json, questions); !read) return read.error();
  return records;
}

Status Records::read(const std::string& path, const std::string& settings_json, size_t questions) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  // A line without its end was being written when the program was stopped.
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size()) {
    const bool ours = whole > 0 || text.starts_with("{\"settings\"");
    if (!ours || ::ftruncate(fd_, static_cast<off_t>(whole)) != 0)
      return bad_input(fmt::format("--resume {}: no file of fovea eval; give another", path));
    text.resize(whole);
  }
  const Json wanted = Json::parse(settings_json);
  if (text.empty()) return write(line_of({{"settings", wanted}}));

  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (++number == 1) {
      const Json header = Json::parse(line, nullptr, false);
      if (!header.is_object() || !header.contains("settings"))
        return bad_input(fmt::format("--resume {}: no file of fovea eval; give another", path));
      if (header["settings"] != wanted)
        return bad_input(fmt::format("--resume {}: another run: {}; give another file", path,
                                     difference(header["settings"], wanted)));
    } else if (!read_line(line, questions)) {
      return bad_input(fmt::format("--resume {}:{}: no record of fovea eval: {}", path, number,
                                   in_quotes(line)));
    }
  }
  return Done{};
}

bool Records::read_line(const std::string& line, size_t questions) {
  const Json json = Json::parse(line, nullptr, false);
  Key key;
  size_t question = 0;
  if (!json.is_object() || !take(json, "arm", key.first) || !take(json, "budget", key.second) ||
      !take(json, "question", question) || question >= questions)
    return false;
  if (json.contains("ttft_ms")) {
    Timing timing{question, 0, 0};
    if (!take(json, "ttft_ms", timing.first_token_ms) || !take(json, "answer_ms", timing.answer_ms))
      return false;
    timings_[key][question] = timing;
    return true;
  }
  Record record;
  record.question = question;
  if (!take(json, "answer", record.answer) || !take(json, "right", record.right) ||
      !take(json, "tokens", record.tokens) || !take(json, "patches", record.patches))
    return false;
  if (double covered = 0; take(json, "covered", covered)) record.covered = covered;
  records_[key][question] = std::move(record);
  return true;
}

Status Records::write(const std::string& lines) {
  if (fd_ < 0) return Done{};
  for (size_t done = 0; done < lines.size();) {
    const ssize_t wrote = ::write(fd_, lines.data() + done, lines.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed(fmt::format("--resume {}: {}", path_, std::strerror(errno)));
    done += static_cast<size_t>(wrote);
  }
  return Done{};
}

Status Records::add(const Setting& setting, const std::vector<Record>& records) {
  const std::scoped_lock lock(mutex_);
  std::string lines;
  for (const Record& record : records) {
    Json json{{"arm", setting.arm},          {"budget", setting.budget_tokens},
              {"question", record.question}, {"answer", record.answer},
              {"right", record.right},       {"tokens", record.tokens},
              {"patches", record.patches}};
    if (record.covered) json["covered"] = *record.covered;
    lines += line_of(json);
    records_[{setting.arm, setting.budget_tokens}][record.question] = record;
  }
  return write(lines);
}

Status Records::add(const Setting& setting, const Timing& timing) {
  const std::scoped_lock lock(mutex_);
  timings_[{setting.arm, setting.budget_tokens}][timing.question] = timing;
  return write(line_of({{"arm", setting.arm},
                        {"budget", setting.budget_tokens},
                        {"question", timing.question},
                        {"ttft_ms", timing.first_token_ms},
                        {"answer_ms", timing.answer_ms}}));
}

bool Records::has(const Setting& setting, size_t begin, size_t end) const {
  const std::scoped_lock lock(mutex_);
  const auto found = records_.find({setting.arm, setting.budget_tokens});
  if (found == records_.end()) return begin == end;
  for (size_t question = begin; question < end; ++question)
    if (!found->second.contains(question)) return false;
  return true;
}

bool Records::has_timing(const Setting& setting, size_t question) const {
  const std::scoped_lock lock(mutex_);
  const auto found = timings_.find({setting.arm, setting.budget_tokens});
  return found != timings_.end() && found->second.contains(question);
}

std::vector<Record> Records::of(const Setting& setting) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Record> records;
  if (const auto found = records_.find({setting.arm, setting.budget_tokens});
      found != records_.end())
    for (const auto& [question, record] : found->second) records.push_back(record);
  return records;
}

std::vector<Timing> Records::timings_of(const Setting& setting) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Timing> timings;
  if (const auto found = timings_.find({setting.arm, setting.budget_tokens});
      found != timings_.end())
    for (const auto& [question, timing] : found->second) timings.push_back(timing);
  return timings;
}

}  // namespace fovea::eval
