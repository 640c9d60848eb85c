// SPDX-License-Identifier: Apache-2.0
// fovea eval: how accuracy depends on tokens, for every way of choosing them.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "eval/flags.h"
#include "eval/plot.h"
#include "eval/report.h"
#include "eval/run.h"
#include "fovea/fovea.h"
#include "fovea/model_flags.h"
#include "weights/config.h"
#include "weights/model_folder.h"

namespace fovea::eval {
namespace {

using app::complain;
using app::note;

// Small models answer faster one question a thread than one question on all threads.
constexpr int64_t kSmallParameters = 200'000'000;

// A bar on a terminal, nothing elsewhere.
class Bar {
 public:
  explicit Bar(const app::Common& common) : show_(!common.quiet && isatty(STDERR_FILENO) != 0) {}
  ~Bar() {
    if (show_) fmt::print(stderr, "\r\x1b[K");
  }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;

  void draw(const char* what, size_t done, size_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!show_ || (done < total && now - drawn_ < std::chrono::milliseconds(100))) return;
    if (done < first_ || what != what_) {
      start_ = now;
      first_ = done;
      what_ = what;
    }
    drawn_ = now;
    constexpr size_t kWidth = 30;
    const size_t filled = total > 0 ? done * kWidth / total : 0;
    const double passed_s = std::chrono::duration<double>(now - start_).count();
    std::string left;
    if (done > first_ && done < total)
      left = fmt::format(", {:.0f} s left", passed_s * static_cast<double>(total - done) /
                                                static_cast<double>(done - first_));
    fmt::print(stderr, "\r\x1b[K{} [{:-<{}}] {}/{}{}", what, std::string(filled, '#'), kWidth, done,
               total, left);
    std::fflush(stderr);
  }

 private:
  bool show_;
  const char* what_ = nullptr;
  size_t first_ = SIZE_MAX;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

struct Engines {
  Engine whole;                 // on all threads, for times
  std::vector<Engine> workers;  // for answers
};

Result<Engines> load_engines(const EvalFlags& flags, const std::string& folder) {
  LoadOptions options;
  options.device = flags.common.device;
  options.kernels = flags.kernels;
  options.weights = flags.weights;
  options.threads = flags.common.threads > 0 ? flags.common.threads : usable_cores();
  auto whole = Engine::load(folder, options);
  if (!whole) return whole.error();
  Engines engines{*whole, {}};
  // A device does one thing at a time, and has room for one model.
  const bool alone = flags.common.device != "cpu" || whole->info().parameters >= kSmallParameters;
  const int workers = alone ? 1 : options.threads;
  options.threads = 1;
  for (int i = 0; workers > 1 && i < workers; ++i) {
    auto worker = Engine::load(folder, options);
    if (!worker) return worker.error();
    engines.workers.push_back(*worker);
  }
  if (engines.workers.empty()) engines.workers.push_back(*whole);
  return engines;
}

Status write_report(const EvalFlags& flags, const Report& report) {
  if (flags.json != "-")
    if (auto written = app::write_text("-", table_of(report)); !written) return written;
  if (!flags.json.empty())
    if (auto written = app::write_text(flags.json, json_of(report)); !written) return written;
  if (flags.plot.empty()) return Done{};
  const std::string about =
      fmt::format("{}; {} questions of {}{}", model_name(flags.model), report.rows.front().n,
                  flags.data.empty() ? "CardField" : flags.data,
                  flags.honesty == "off" ? "" : "; " + flags.honesty + " hidden");
  return save_png(flags.plot, draw_plot(report, about));
}

int run(const EvalFlags& flags) {
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
  const auto engines = load_engines(flags, *path);
  if (!engines) return complain(engines.error());

  const app::StopOnInterrupt stop;
  Job job{&*set, settings_of(flags.arms, flags.budgets), flags.ask, processor->min_pixels,
          flags.common.seed};
  {
    Bar bar(flags.common);
    const auto watcher = [&](const char* what) {
      return Watcher{[&bar, what](size_t done, size_t total) { bar.draw(what, done, total); },
                     [] { return !app::StopOnInterrupt::asked(); }};
    };
    auto finished = answer_all(engines->workers, job, **records, watcher("asking"));
    if (finished && *finished)
      finished = time_some(engines->whole, job, **records, watcher("timing"));
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
