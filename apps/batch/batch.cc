// SPDX-License-Identifier: Apache-2.0
// fovea batch: one question about many pictures.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "base/text.h"
#include "batch/flags.h"
#include "batch/run.h"
#include "fovea/bar.h"

namespace fovea::batch {
namespace {

using app::complain;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string count_of(size_t count, const char* what) {
  return fmt::format("{} {}{}", with_commas(static_cast<int64_t>(count)), what,
                     count == 1 ? "" : "s");
}

// For a person: what all lines hold, and how fast those of this run came.
void summarize(const BatchFlags& flags, const Tally& tally, size_t before, double took_s) {
  const size_t now = tally.pictures - before;
  std::string text = count_of(tally.pictures, "picture");
  if (before > 0) text += fmt::format(" ({} of them before)", before);
  text += fmt::format(", {} failed", tally.failed);
  if (now > 0 && took_s > 0)
    text += fmt::format("; {:.2f} images/s", static_cast<double>(now) / took_s);
  text += fmt::format("; {} visual tokens, all would be {}", with_commas(tally.image_tokens),
                      with_commas(tally.image_tokens_full));
  app::note(flags.common, text);
}

void print_stats(const Job& job, const Engine& engine, double load_ms, double took_s) {
  const double mb = 1e-6;
  app::tell(
      "load {:.0f} ms, answers {:.1f} s; {} at once, {} decoding ahead; {:.0f} MB of weights\n",
      load_ms, took_s, job.at_once, count_of(static_cast<size_t>(job.decoders), "thread"),
      static_cast<double>(engine.info().weights_bytes) * mb);
}

int run(BatchFlags& flags) {
  const auto job = job_of(flags);
  if (!job) return complain(job.error());
  const auto settings = settings_json(flags, *job);
  if (!settings) return complain(settings.error());
  const auto answers = Answers::open(flags.output, *settings, job->pictures);
  if (!answers) return complain(answers.error());
  const Tally& tally = (*answers)->tally();
  const size_t before = tally.pictures;

  double took_s = 0;
  if (before < job->pictures.size()) {
    double load_ms = 0;
    const auto engine = app::load_model(flags, load_ms);
    if (!engine) return complain(engine.error());
    if (const auto checked = check_job(*engine, *job); !checked) return complain(checked.error());
    const app::StopOnInterrupt stop;
    const auto start = std::chrono::steady_clock::now();
    const auto finished = [&] {
      app::Bar bar(flags.common);
      return answer_all(*engine, *job, **answers,
                        {[&](size_t done, size_t total) { bar.draw("asking", done, total); },
                         [] { return !app::StopOnInterrupt::asked(); }});
    }();
    if (!finished) return complain(finished.error());
    if (!*finished) {
      if (flags.output != "-")
        app::note(flags.common,
                  fmt::format("stopped; the same command goes on from {}", flags.output));
      return app::kInterrupted;
    }
    took_s = seconds_since(start);
    if (flags.stats) print_stats(*job, *engine, load_ms, took_s);
  }
  summarize(flags, tally, before, took_s);
  if (tally.failed == 0) return app::kGood;
  return complain(failed(fmt::format("{} of {} failed; the first: {}", tally.failed,
                                     count_of(tally.pictures, "picture"), tally.first_failure)));
}

}  // namespace
}  // namespace fovea::batch

namespace fovea::app {

Run add_batch(CLI::App& program) {
  auto flags = std::make_shared<batch::BatchFlags>();
  CLI::App* command = program.add_subcommand("batch", "Answer one question about many pictures");
  batch::add_batch_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  fovea batch photos --question \"What is on the table?\" -m DIR -o answers.jsonl\n"
      "  fovea batch cards/images --question \"Which code is on the red star?\" -o answers.jsonl\n"
      "  fovea batch a.jpg b.png photos --question \"Read the sign\" -m DIR --budget 160 -o - | jq "
      ".text\n"
      "The same command goes on where it was stopped. docs/batch.md says what the lines hold.");
  return [flags] { return batch::run(*flags); };
}

}  // namespace fovea::app
