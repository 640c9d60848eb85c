// SPDX-License-Identifier: Apache-2.0
#include "eval/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"

namespace fovea::eval {
namespace {

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Gathers the records that belong to one row.
class Gather {
 public:
  Gather(const QuestionSet& set, std::string family, int payload_px)
      : set_(set), family_(std::move(family)), payload_px_(payload_px) {}

  Row row(const Setting& setting, const std::vector<Record>& records,
          const std::vector<Timing>& timings) const {
    Row row;
    row.setting = setting;
    row.family = family_;
    row.payload_px = payload_px_;
    int64_t with_evidence = 0;
    int64_t whole = 0;
    double covered = 0;
    int64_t with_bytes = 0;
    double kv_bytes = 0;
    for (const Record& record : records) {
      if (!holds(record.question)) continue;
      ++row.n;
      row.right += record.right ? 1 : 0;
      row.tokens += static_cast<double>(record.tokens);
      row.patches += static_cast<double>(record.patches);
      with_bytes += record.kv_bytes ? 1 : 0;
      kv_bytes += static_cast<double>(record.kv_bytes.value_or(0));
      if (!record.covered) continue;
      ++with_evidence;
      whole += *record.covered >= 1 ? 1 : 0;
      covered += *record.covered;
    }
    row.interval = wilson(row.right, row.n);
    if (row.n > 0) row.tokens /= static_cast<double>(row.n);
    if (row.n > 0) row.patches /= static_cast<double>(row.n);
    if (with_bytes > 0) row.kv_bytes = kv_bytes / static_cast<double>(with_bytes);
    if (with_evidence > 0) {
      row.evidence_recall = static_cast<double>(whole) / static_cast<double>(with_evidence);
      row.evidence_covered = covered / static_cast<double>(with_evidence);
    }
    std::vector<double> first;
    std::vector<double> answer;
    for (const Timing& timing : timings) {
      if (!holds(timing.question)) continue;
      first.push_back(timing.first_token_ms);
      answer.push_back(timing.answer_ms);
    }
    row.first_token_ms = median(first);
    row.answer_ms = median(answer);
    return row;
  }

 private:
  bool holds(size_t number) const {
    const Question& question = set_.questions[number];
    return (family_ == "all" || question.family == family_) &&
           (payload_px_ == 0 || question.payload_px == payload_px_);
  }

  const QuestionSet& set_;
  std::string family_;
  int payload_px_;
};

nlohmann::ordered_json json_of(const Row& row) {
  nlohmann::ordered_json json{
      {"arm", row.setting.arm}, {"budget", row.setting.budget_tokens}, {"family", row.family}};
  if (row.payload_px > 0) json["payload_px"] = row.payload_px;
  const auto set = [&](const char* key, const std::optional<double>& value) {
    json[key] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  json["n"] = row.n;
  json["accuracy"] = row.accuracy();
  json["low"] = row.interval.low;
  json["high"] = row.interval.high;
  set("evidence_recall", row.evidence_recall);
  set("evidence_covered", row.evidence_covered);
  json["tokens"] = row.tokens;
  json["patches"] = row.patches;
  set("kv_bytes", row.kv_bytes);
  set("ttft_ms", row.first_token_ms);
  set("answer_ms", row.answer_ms);
  return json;
}

}  // namespace

Report make_report(const QuestionSet& set, std::span<const Setting> settings,
                   const Records& records, std::string settings_json) {
  Report report;
  report.settings_json = std::move(settings_json);
  if (set.families.size() != 1) report.families.emplace_back("all");
  report.families.insert(report.families.end(), set.families.begin(), set.families.end());
  for (const std::string& family : report.families) report.chance.push_back(chance_of(set, family));

  std::set<std::pair<std::string, int>> payloads;  // of each family
  for (const Question& question : set.questions)
    for (const char* family : {"all", question.family.c_str()})
      if (question.payload_px > 0) payloads.emplace(family, question.payload_px);
  for (const Setting& setting : settings) {
    const std::vector<Record> answers = records.of(setting);
    const std::vector<Timing> timings = records.timings_of(setting);
    for (const std::string& family : report.families) {
      report.rows.push_back(Gather(set, family, 0).row(setting, answers, timings));
      for (const auto& [of, payload_px] : payloads)
        if (of == family)
          report.by_payload.push_back(
              Gather(set, family, payload_px).row(setting, answers, timings));
    }
  }
  return report;
}

std::string json_of(const Report& report) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["settings"] = nlohmann::ordered_json::parse(report.settings_json);
  json["chance"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < report.families.size(); ++i)
    json["chance"][report.families[i]] = {{"most_frequent", report.chance[i].most_frequent},
                                          {"uniform", report.chance[i].uniform}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : report.rows) json["rows"].push_back(json_of(row));
  json["by_payload"] = nlohmann::ordered_json::array();
  for (const Row& row : report.by_payload) json["by_payload"].push_back(json_of(row));
  return json_text(json) + "\n";
}

}  // namespace fovea::eval
