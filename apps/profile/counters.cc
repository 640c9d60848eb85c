// SPDX-License-Identifier: Apache-2.0
#include "profile/counters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "device/profile.h"

namespace fovea::app {
namespace {

// The fields of a line, all in quotes; a quote within one is doubled. A value that is in quotes may
// hold commas, and newlines do not occur.
std::vector<std::string> split_line(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

// "1,234.5" -> 1234.5; nothing for "n/a", "nan" and the like, where a kernel had nothing to count.
std::optional<double> number_of(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// One launch.
struct Kernel {
  std::string name;
  int blocks = 0;  // of its grid, in x
  std::map<std::string, double> metrics;

  double at(const char* metric) const {
    const auto found = metrics.find(metric);
    return found == metrics.end() ? 0 : found->second;
  }
};

// Where the columns are; their number and order differ between versions.
struct Columns {
  size_t id = 0, name = 0, grid = 0, metric = 0, value = 0;

  size_t last() const { return std::max({id, name, grid, metric, value}); }
};

std::optional<Columns> find_columns(const std::vector<std::string>& header) {
  Columns columns;
  const std::pair<const char*, size_t*> wanted[] = {{"ID", &columns.id},
                                                    {"Kernel Name", &columns.name},
                                                    {"Grid Size", &columns.grid},
                                                    {"Metric Name", &columns.metric},
                                                    {"Metric Value", &columns.value}};
  for (const auto& [name, place] : wanted) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) return std::nullopt;
    *place = static_cast<size_t>(found - header.begin());
  }
  return columns;
}

// "(7, 1, 1)" -> 7
int first_number(const std::string& text) {
  const size_t digit = text.find_first_of("0123456789");
  int value = 0;
  if (digit != std::string::npos)
    std::from_chars(text.data() + digit, text.data() + text.size(), value);
  return value;
}

// In the order of their launches. Lines of ncu's own, which start with ==, are passed over.
Result<std::vector<Kernel>> read_kernels(std::string_view csv) {
  std::vector<Kernel> kernels;
  std::optional<Columns> columns;
  std::string last_id;
  while (!csv.empty()) {
    const size_t end = std::min(csv.find('\n'), csv.size());
    const std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (!line.starts_with('"')) continue;
    const std::vector<std::string> fields = split_line(line);
    if (!columns) {
      columns = find_columns(fields);
      continue;
    }
    if (fields.size() <= columns->last()) continue;
    if (kernels.empty() || fields[columns->id] != last_id) {
      kernels.push_back({fields[columns->name], first_number(fields[columns->grid]), {}});
      last_id = fields[columns->id];
    }
    if (const auto value = number_of(fields[columns->value]))
      kernels.back().metrics[fields[columns->metric]] = *value;
  }
  if (kernels.empty()) return failed("ncu counted no kernels");
  return kernels;
}

Counters counters_of(const Kernel& kernel) {
  constexpr double kPercent = 0.01;
  Counters counters;
  counters.kernels = 1;
  counters.ns = kernel.at("gpu__time_duration.sum");
  counters.dram_bytes = kernel.at("dram__bytes_read.sum") + kernel.at("dram__bytes_write.sum");
  counters.l2_sectors = kernel.at("lts__t_sectors.sum");
  counters.l2_hits = counters.l2_sectors * kPercent * kernel.at("lts__t_sector_hit_rate.pct");
  counters.load_sectors = kernel.at("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum");
  counters.load_used = counters.load_sectors * kPercent *
                       kernel.at("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct");
  return counters;
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  kernels += other.kernels;
  ns += other.ns;
  dram_bytes += other.dram_bytes;
  l2_sectors += other.l2_sectors;
  l2_hits += other.l2_hits;
  load_sectors += other.load_sectors;
  load_used += other.load_used;
  return *this;
}

Result<RequestCounters> read_counters(std::string_view csv) {
  const auto kernels = read_kernels(csv);
  if (!kernels) return kernels.error();
  RequestCounters request;
  Counters since_mark;
  const auto close = [&](size_t stage) {
    request.stages[stage] += since_mark;
    request.total += since_mark;
    since_mark = {};
  };
  for (const Kernel& kernel : *kernels) {
    const auto stage = static_cast<size_t>(kernel.blocks) - 1;
    if (kernel.name.find(kStageMark) != std::string::npos && stage < kStageCount)
      close(stage);
    else
      since_mark += counters_of(kernel);
  }
  close(static_cast<size_t>(Stage::kOther));
  return request;
}

std::vector<Verdict> judge(const Counters& foveated, const Counters& dense) {
  std::vector<Verdict> verdicts;
  if (dense.dram_bytes > 0)
    verdicts.push_back({"DRAM bytes of the dense path's", foveated.dram_bytes / dense.dram_bytes,
                        0.5, /*at_most=*/true});
  if (foveated.l2_sectors > 0) verdicts.push_back({"L2 hit rate", foveated.l2_hit_rate(), 0.8});
  if (foveated.load_sectors > 0)
    verdicts.push_back({"coalescing of loads", foveated.coalescing(), 0.9});
  return verdicts;
}

}  // namespace fovea::app
