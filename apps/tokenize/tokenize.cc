// SPDX-License-Identifier: Apache-2.0
// fovea tokenize: texts to token ids and back, one JSON value a line.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "base/text.h"
#include "fovea/command.h"
#include "fovea/stdin_text.h"
#include "language/tokenizer.h"

namespace fovea::app {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostLineBytes = size_t{16} << 20;  // its ids take about 30 times as much

struct Options {
  Common common;
  std::string model;
  bool decode = false;
  bool plain = false;         // special tokens in a text are text
  bool skip_special = false;  // and are left out of decoded text
};

struct Totals {
  int64_t lines = 0;
  size_t bytes = 0;
  double ms = 0;
};

Result<std::string> encode_line(const Tokenizer& tokenizer, const Json& line,
                                const Options& options, Totals& totals) {
  if (!line.is_string()) return bad_input("give one JSON string a line");
  const auto& text = line.get_ref<const std::string&>();
  const auto start = Clock::now();
  const auto ids = tokenizer.encode(text, !options.plain);
  totals.ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  totals.bytes += text.size();
  if (!ids) return ids.error();
  return Json(*ids).dump();
}

Result<std::string> decode_line(const Tokenizer& tokenizer, const Json& line,
                                const Options& options, Totals& totals) {
  std::vector<int> ids;
  if (!line.is_array()) return bad_input("give one JSON array of ids a line");
  for (const Json& id : line) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      return bad_input(fmt::format("{} is not a token id", in_quotes(json_text(id))));
    ids.push_back(id.get<int>());
  }
  const auto start = Clock::now();
  const std::string text = tokenizer.decode(ids, options.skip_special);
  totals.ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  totals.bytes += text.size();
  return Json(text).dump();
}

int run(const Options& options) {
  if (const auto checked = check_cpu(options.common.device); !checked)
    return complain(checked.error());
  const auto tokenizer = Tokenizer::load(options.model);
  if (!tokenizer) return complain(tokenizer.error());
  auto results = NewFile::create("-");
  if (!results) return complain(results.error());
  Totals totals;
  StdinLines lines(kMostLineBytes);
  for (std::string line;;) {
    const auto read = lines.next(line);
    if (!read) return complain(read.error());
    if (!*read) break;
    ++totals.lines;
    const auto json = parse_json(line);
    if (!json)
      return complain(
          bad_input(fmt::format("line {} on stdin: {}", totals.lines, json.error().message)));
    const auto out = options.decode ? decode_line(*tokenizer, *json, options, totals)
                                    : encode_line(*tokenizer, *json, options, totals);
    if (!out)
      return complain(bad_input(fmt::format("line {}: {}", totals.lines, out.error().message)));
    if (const auto written = results->write(*out + "\n"); !written)
      return complain(written.error());
  }
  note(options.common, fmt::format("{} lines, {} bytes of text in {:.3f} ms", totals.lines,
                                   totals.bytes, totals.ms));
  const auto written = results->commit();
  return written ? kGood : complain(written.error());
}

}  // namespace

Run add_tokenize(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("tokenize", "Texts to token ids and back, as JSON lines");
  command->add_option("--model", options->model, "A checkpoint folder, or its tokenizer.json")
      ->required();
  command->add_flag("--decode", options->decode, "Read arrays of ids, write texts");
  command->add_flag("--plain", options->plain, "Special tokens in a text are text like any other");
  command->add_flag("--skip-special", options->skip_special, "Leave special tokens out of texts");
  add_common(*command, options->common);
  command->footer(
      "Examples:\n"
      "  echo '\"What is on the table?\"' | fovea tokenize --model DIR\n"
      "  echo '[3838, 374, 389]' | fovea tokenize --model DIR --decode");
  return [options] { return run(*options); };
}

}  // namespace fovea::app
