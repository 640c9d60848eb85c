// SPDX-License-Identifier: Apache-2.0
// fovea eval: how accuracy depends on tokens, for every way of choosing them.
#include <fmt/format.h>

#include <memory>

#include "eval/flags.h"
#include "eval/plot.h"
#include "eval/report.h"
#include "eval/run.h"
#include "fovea/bar.h"
#include "fovea/fovea.h"
#include "fovea/model_flags.h"
#include "kept/model_fingerprint.h"
#include "weights/config.h"
#include "weights/model_folder.h"

namespace fovea::eval {
namespace {

using app::complain;
using app::note;

constexpr int64_t kSmallParameters = 200'000'000;

Result<Engine> load_engine(const EvalFlags& flags, const std::string& folder) {
  LoadOptions options;
  options.device = flags.common.device;
  options.kernels = flags.kernels;
  options.weights = flags.weights;
  options.memory_bytes = flags.memory;
  options.threads = flags.common.threads;
  return Engine::load(folder, options);
}

// Small models answer faster one question a thread than one question on all threads; a device does
// one thing at a time.
bool asks_on_each_thread(const EvalFlags& flags, const Engine& engine) {
  return flags.common.device == "cpu" && engine.info().parameters < kSmallParameters;
}

Status write_report(const EvalFlags& flags, const Report& report) {
  if (flags.json != "-" && flags.plot != "-")
    if (auto written = save_text("-", table_of(report)); !written) return written;
  if (!flags.json.empty())
    if (auto written = save_text(flags.json, json_of(report)); !written) return written;
  if (flags.plot.empty()) return Done{};
  const std::string about =
      fmt::format("{}; {} questions of {}{}", kept::model_name(flags.model), report.rows.front().n,
                  flags.data.empty() ? "CardField" : flags.data,
                  flags.honesty == "off" ? "" : "; " + flags.honesty + " hidden");
  return save_png(
      flags.plot,
      draw_plot(report, about, flags.plot_over == "bytes" ? PlotOver::kBytes : PlotOver::kTokens));
}

int run(EvalFlags& flags) {
  if (const auto checked = check_eval_flags(flags); !checked) return complain(checked.error());
  const auto path = find_model(flags.model);
  if (!path) return complain(path.error());
  const auto folder = ModelFolder::open(*path);
  if (!folder) return complain(folder.error());
  const auto processor = read_processor_config(*folder);
  if (!processor) return complain(processor.error());
  Threads threads(flags.common.threads > 0 ? flags.common.threads : usable_cores());
  const auto set = questions_of(flags, threads);
  if (!set) return complain(set.error());
  const auto settings = settings_json(flags, *path, *set);
  if (!settings) return complain(settings.error());
  auto records = Records::open(flags.resume, *settings, set->questions.size());
  if (!records) return complain(records.error());
  const auto engine = load_engine(flags, *path);
  if (!engine) return complain(engine.error());

  const app::StopOnInterrupt stop;
  Job job{&*set, settings_of(flags.arms, flags.budgets), flags.ask, processor->min_pixels,
          flags.common.seed};
  {
    app::Bar bar(flags.common);
    const auto watcher = [&](const char* what) {
      return Watcher{[&bar, what](size_t done, size_t total) { bar.draw(what, done, total); },
                     [] { return !app::StopOnInterrupt::asked(); }};
    };
    Threads alone(1);
    auto finished = answer_all(asks_on_each_thread(flags, *engine) ? threads : alone, *engine, job,
                               **records, watcher("asking"));
    if (finished && *finished) finished = time_some(*engine, job, **records, watcher("timing"));
    if (!finished) return complain(finished.error());
    if (!*finished) {
      if (!flags.resume.empty())
        note(flags.common,
             fmt::format("\nstopped; the same command goes on from {}", flags.resume));
      return app::kInterrupted;
    }
  }
  const Report report = make_report(*set, job.settings, **records, *settings);
  if (const auto written = write_report(flags, report); !written) return complain(written.error());
  return app::kGood;
}

}  // namespace
}  // namespace fovea::eval

namespace fovea::app {

Run add_eval(CLI::App& program) {
  auto flags = std::make_shared<eval::EvalFlags>();
  CLI::App* command = program.add_subcommand(
      "eval", "Measure how accuracy depends on tokens, for every way of choosing them");
  eval::add_eval_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  fovea eval --cards 200 --seed 7 --arms uniform,random,coupling,oracle\n"
      "  fovea eval --cards 8000 --seed 7 --arms full,coupling --json rows.json --plot "
      "p.png\n"
      "  fovea eval --data vstar -m Qwen3-VL-2B-Instruct --look crops --resume vstar.jsonl\n"
      "  fovea eval --cards 400 --honesty payload --arms coupling --budgets 96\n"
      "docs/eval.md says what each arm is and how to read the table.");
  return [flags] { return eval::run(*flags); };
}

}  // namespace fovea::app
