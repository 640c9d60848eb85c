// SPDX-License-Identifier: Apache-2.0
// The report as tables: settings under each other, families (or payloads) beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/utf8.h"
#include "eval/report.h"

namespace fovea::eval {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

// "98.2 ±0.9": half of the interval, which is not quite symmetric near 0 and 100 %.
std::string with_interval(const Row& row) {
  if (row.n == 0) return "-";
  return fmt::format("{} ±{}", percent(row.accuracy()),
                     percent((row.interval.high - row.interval.low) / 2));
}

std::string milliseconds(const std::optional<double>& ms) {
  return ms ? fmt::format("{:.{}f}", *ms, *ms < 100 ? 1 : 0) : "-";
}

std::string mebibytes(const std::optional<double>& bytes) {
  return bytes ? fmt::format("{:.1f}", *bytes / (1 << 20)) : "-";
}

// Columns as wide as their widest entry; the first is set left, the others right.
class Table {
 public:
  // Families are named by foreign files, and come before a terminal here.
  void add(std::vector<std::string> line) {
    constexpr size_t kWidest = 60;
    for (std::string& entry : line) entry = printable_line(entry, kWidest);
    lines_.push_back(std::move(line));
  }

  std::string text() const {
    std::vector<size_t> widths;
    for (const auto& line : lines_) {
      widths.resize(std::max(widths.size(), line.size()));
      for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
    }
    std::string text;
    for (const auto& line : lines_) {
      std::string out;
      for (size_t i = 0; i < line.size(); ++i) {
        const std::string space(widths[i] - width_of(line[i]), ' ');
        if (i > 0) out += "  ";
        out += i == 0 ? line[i] + space : space + line[i];
      }
      out.erase(out.find_last_not_of(' ') + 1);
      text += out + "\n";
    }
    return text;
  }

 private:
  // Characters, not bytes.
  static size_t width_of(const std::string& text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
  }

  std::vector<std::vector<std::string>> lines_;
};

std::vector<std::string> line_of(const Row& row) {
  return {row.setting.arm,
          row.setting.budget_tokens > 0 ? std::to_string(row.setting.budget_tokens) : "-"};
}

// Rows of one setting stand together: `begin(row)` starts a line with the first of them.
std::string lines_of_rows(const std::vector<Row>& rows, Table& table,
                          const std::function<std::vector<std::string>(const Row&)>& begin,
                          const std::function<std::string(const Row&)>& entry) {
  for (size_t i = 0; i < rows.size();) {
    std::vector<std::string> line = begin(rows[i]);
    const Setting& setting = rows[i].setting;
    for (; i < rows.size() && rows[i].setting == setting; ++i) line.push_back(entry(rows[i]));
    table.add(std::move(line));
  }
  return table.text();
}

std::string accuracy_table(const Report& report) {
  Table table;
  std::vector<std::string> head{"arm",    "budget",  "tokens",   "patches",
                                "KV MiB", "ttft ms", "answer ms"};
  head.insert(head.end(), report.families.begin(), report.families.end());
  std::vector<std::string> counts{"questions", "", "", "", "", "", ""};
  for (size_t i = 0; i < report.families.size() && i < report.rows.size(); ++i)
    counts.push_back(std::to_string(report.rows[i].n));
  std::vector<std::string> frequent{"chance, most frequent", "", "", "", "", "", ""};
  std::vector<std::string> uniform{"chance, uniform", "", "", "", "", "", ""};
  for (const Chance& chance : report.chance) {
    frequent.push_back(percent(chance.most_frequent));
    uniform.push_back(percent(chance.uniform));
  }
  table.add(head);
  lines_of_rows(
      report.rows, table,
      [](const Row& row) {
        std::vector<std::string> line = line_of(row);
        for (const std::string& more :
             {fmt::format("{:.0f}", row.tokens), fmt::format("{:.0f}", row.patches),
              mebibytes(row.kv_bytes), milliseconds(row.first_token_ms),
              milliseconds(row.answer_ms)})
          line.push_back(more);
        return line;
      },
      with_interval);
  table.add(frequent);
  table.add(uniform);
  table.add(counts);
  return "accuracy in % ± half of its 95 % interval\n" + table.text();
}

std::string recall_table(const Report& report) {
  std::vector<Row> rows;
  std::vector<std::string> head{"arm", "budget"};
  for (size_t i = 0; i < report.families.size(); ++i) {
    const auto known = [&](const Row& row) {
      return row.family == report.families[i] && row.evidence_recall;
    };
    if (!std::any_of(report.rows.begin(), report.rows.end(), known)) continue;
    head.push_back(report.families[i]);
  }
  if (head.size() == 2) return "";
  for (const Row& row : report.rows)
    if (std::find(head.begin() + 2, head.end(), row.family) != head.end()) rows.push_back(row);
  Table table;
  table.add(head);
  return "\nevidence recall in %: questions whose evidence lies wholly in level-0 cells\n" +
         lines_of_rows(rows, table, line_of, [](const Row& row) {
           return row.evidence_recall ? percent(*row.evidence_recall) : "-";
         });
}

std::string payload_table(const Report& report) {
  if (report.by_payload.empty()) return "";
  const std::string family = report.families.front();  // all, or the only one
  std::vector<Row> rows;
  std::set<int> sizes;
  for (const Row& row : report.by_payload) {
    if (row.family != family) continue;
    rows.push_back(row);
    sizes.insert(row.payload_px);
  }
  std::vector<std::string> head{"arm", "budget"};
  for (const int size : sizes) head.push_back(fmt::format("{} px", size));
  Table table;
  table.add(head);
  return "\naccuracy in % by the height of the payload, of questions that need one\n" +
         lines_of_rows(rows, table, line_of, with_interval);
}

}  // namespace

std::string table_of(const Report& report) {
  return accuracy_table(report) + recall_table(report) + payload_table(report);
}

}  // namespace fovea::eval
