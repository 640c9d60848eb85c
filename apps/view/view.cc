// SPDX-License-Identifier: Apache-2.0
// fovea view: a trace as a page that opens alone.
#include <fmt/format.h>

#include <memory>

#include "base/read_file.h"
#include "fovea/command.h"
#include "view/page.h"

namespace fovea::app {
namespace {

constexpr int64_t kMostTraceBytes = int64_t{256} << 20;

struct ViewFlags {
  std::string trace;
  std::string output;
};

int run(ViewFlags& flags) {
  if (const auto settled = settle_outputs({{"--output", &flags.output}}); !settled)
    return complain(settled.error());
  if (const auto checked = check_writable(flags.output); !checked) return complain(checked.error());
  const auto trace = read_file(flags.trace, kMostTraceBytes, Takes::kStdin);
  if (!trace) return complain(trace.error());
  const auto page = view::page_with(*trace);
  if (!page)
    return complain(
        Error(page.error().kind, fmt::format("{}: {}", flags.trace, page.error().message)));
  const Status saved = save_text(flags.output, *page);
  return saved ? kGood : complain(saved.error());
}

}  // namespace

Run add_view(CLI::App& program) {
  auto flags = std::make_shared<ViewFlags>();
  CLI::App* command =
      program.add_subcommand("view", "Make a page of a trace: where was looked, and why");
  command->add_option("trace", flags->trace, "What ask --trace or the page wrote; - is stdin")
      ->required()
      ->check(some_path());
  command->add_option("-o,--output", flags->output, "The HTML file to write; - is stdout")
      ->required()
      ->check(some_path());
  command->footer(
      "Example:\n"
      "  fovea ask scene.png \"Which code is on the red star?\" --trace t.json --trace-picture\n"
      "  fovea view t.json -o page.html\n"
      "The page opens in a browser without a server, and asks nobody for anything.");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
