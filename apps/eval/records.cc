// SPDX-License-Identifier: Apache-2.0
#include "eval/records.h"

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace fovea::eval {
namespace {

using Json = nlohmann::ordered_json;  // what is written
using FileJson = nlohmann::json;      // what is read

std::string line_of(const Json& json) { return json_text(json) + "\n"; }

template <class T>
bool take(const FileJson& json, const char* key, T& value) {
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
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<T>::max());
    if (found->template get<uint64_t>() > kMost) return false;
  }
  value = found->get<T>();
  return true;
}

}  // namespace

Result<std::unique_ptr<Records>> Records::open(const std::string& path,
                                               const std::string& settings_json, size_t questions) {
  std::unique_ptr<Records> records(new Records);
  if (path.empty()) return records;
  auto file = kept::KeptLines::open(
      path, {"--resume", "fovea eval", "{\"arm\":\""}, settings_json,
      [&](const std::string& line) { return Result<bool>(records->read_line(line, questions)); });
  if (!file) return file.error();
  records->file_ = std::move(*file);
  return records;
}

bool Records::read_line(const std::string& line, size_t questions) {
  const auto parsed = parse_json(line);
  if (!parsed || !parsed->is_object()) return false;
  const FileJson& json = *parsed;
  Key key;
  size_t question = 0;
  if (!take(json, "arm", key.first) || !take(json, "budget", key.second) ||
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
  if (json.contains("kv_bytes")) {
    int64_t kv_bytes = 0;
    if (!take(json, "kv_bytes", kv_bytes)) return false;
    record.kv_bytes = kv_bytes;
  }
  records_[key][question] = std::move(record);
  return true;
}

Status Records::write(const std::string& lines) {
  return file_ ? file_->append(lines) : Status(Done{});
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
    if (record.kv_bytes) json["kv_bytes"] = *record.kv_bytes;
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
