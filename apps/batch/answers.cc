// SPDX-License-Identifier: Apache-2.0
#include "batch/answers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "fovea/answer_json.h"

namespace fovea::batch {
namespace {

using Json = nlohmann::ordered_json;  // what is written
using FileJson = nlohmann::json;      // what is read

// As JSON holds it: names of files need not be UTF-8.
std::string name_in_json(const std::string& picture) {
  const auto name = parse_json(json_text(FileJson(picture)));
  return name ? name->get<std::string>() : picture;
}

bool take_count(const FileJson& usage, const char* key, int64_t& count) {
  const auto found = usage.find(key);
  if (found == usage.end() || !found->is_number_unsigned()) return false;
  const auto value = found->get<uint64_t>();
  if (value > uint64_t{1} << 40) return false;
  count = static_cast<int64_t>(value);
  return true;
}

bool is_text(const FileJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string();
}

// What is counted of a line that an earlier run wrote; nothing where it is none.
std::optional<Line> read_line(const FileJson& json) {
  Line line;
  if (is_text(json, "error")) {
    line.error = json["error"].get<std::string>();
    if (line.error.empty()) return std::nullopt;
    return line;
  }
  const auto usage = json.find("usage");
  if (!is_text(json, "text") || usage == json.end() || !usage->is_object() ||
      !take_count(*usage, "image_tokens", line.image_tokens) ||
      !take_count(*usage, "image_tokens_full", line.image_tokens_full))
    return std::nullopt;
  return line;
}

}  // namespace

Line line_of(const std::string& picture, const Answer& answer) {
  Json basis = app::basis_json(answer);
  Json json = Json::object();
  json["picture"] = picture;
  json["text"] = answer.text;
  json["finish"] = answer.finish;
  json["tokens"] = answer.tokens.size();
  for (const char* part : {"usage", "confidence", "times_ms"}) json[part] = std::move(basis[part]);
  const Usage& usage = answer.trace.usage;
  return {json_text(json), "", usage.image_tokens, usage.image_tokens_full};
}

Line line_of(const std::string& picture, const Error& error) {
  Json json = Json::object();
  json["picture"] = picture;
  json["error"] = error.message;
  return {json_text(json), error.message, 0, 0};
}

Result<std::unique_ptr<Answers>> Answers::open(const std::string& path,
                                               const std::string& settings_json,
                                               const std::vector<std::string>& pictures) {
  std::unique_ptr<Answers> answers(new Answers(pictures));
  if (path == "-") {
    auto out = NewFile::create(path);
    if (!out) return out.error();
    answers->stdout_.emplace(std::move(*out));
    return answers;
  }
  auto file = kept::KeptLines::open(path, {"-o", "fovea batch", "{\"picture\":\""}, settings_json,
                                    [&](const std::string& text) { return answers->take(text); });
  if (!file) return file.error();
  answers->file_ = std::move(*file);
  return answers;
}

Result<bool> Answers::take(const std::string& text) {
  const auto json = parse_json(text);
  if (!json || !json->is_object() || !is_text(*json, "picture")) return false;
  auto line = read_line(*json);
  if (!line) return false;
  if (tally_.pictures == pictures_.size())
    return bad_input(
        fmt::format("more lines than the {} pictures; give another file, or all "
                    "pictures that this one is of",
                    with_commas(static_cast<int64_t>(pictures_.size()))));
  const std::string& picture = pictures_[tally_.pictures];
  const auto& there = (*json)["picture"].get_ref<const std::string&>();
  if (there != name_in_json(picture))
    return bad_input(fmt::format("other pictures: {} there, {} here; give another file",
                                 in_quotes(there), in_quotes(picture)));
  count(*line);
  return true;
}

void Answers::count(const Line& line) {
  if (!line.error.empty() && tally_.failed++ == 0) {
    const std::string& picture = pictures_[tally_.pictures];
    const bool is_named = line.error.find(picture) != std::string::npos;
    tally_.first_failure = is_named ? line.error : picture + ": " + line.error;
  }
  ++tally_.pictures;
  tally_.image_tokens += line.image_tokens;
  tally_.image_tokens_full += line.image_tokens_full;
}

Status Answers::add(const Line& line) {
  const std::string whole = line.text + "\n";
  if (auto written = stdout_ ? stdout_->write(whole) : file_->append(whole); !written)
    return written;
  count(line);
  return Done{};
}

}  // namespace fovea::batch
