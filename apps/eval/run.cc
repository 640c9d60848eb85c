// SPDX-License-Identifier: Apache-2.0
#include "eval/run.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "base/out_of_memory.h"
#include "eval/random.h"
#include "eval/score.h"
#include "pyramid/canvas.h"

namespace fovea::eval {
namespace {

// One answer in a session that holds the question's picture.
struct Asked {
  Record record;
  Timing timing;
  bool stopped = false;
};

class Asker {
 public:
  Asker(const Job& job, const Watcher& watcher) : job_(job), watcher_(watcher) {}

  Result<Asked> ask(Session& session, Size image, const Setting& setting, size_t number) const {
    const Question& question = job_.set->questions[number];
    ArmScene scene;
    scene.image = image;
    const auto canvas = canvas_size(image, {job_.min_pixels, std::numeric_limits<int64_t>::max()});
    if (!canvas) return about(setting, number, canvas.error());
    scene.canvas = *canvas;
    scene.evidence = boxes_on_canvas(question.evidence, image, *canvas);
    scene.seed = hash_text(setting.arm, job_.seed * 0x9e3779b97f4a7c15 + number);
    AskOptions options = job_.ask;
    options.share = false;  // an arm's time holds all that it asks for
    choose_arm(setting, scene, options);

    options.keep_going = [&] { return watcher_.keep_going(); };
    const auto start = std::chrono::steady_clock::now();
    const auto answer = session.ask(question.text, options);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (!answer) return about(setting, number, answer.error());
    Asked asked;
    asked.stopped = answer->finish == "cancelled";
    asked.record = record_of(*answer, question, number, image);
    asked.timing = {number, 0, took.count()};
    for (const StageTime& time : answer->trace.times)
      if (time.stage == "first_token") asked.timing.first_token_ms = time.ms;
    return asked;
  }

  Result<Session> session_with(const Engine& engine, const Image& picture) const {
    Session session = engine.session();
    if (auto added = session.add(picture); !added) return added.error();
    return session;
  }

 private:
  static Record record_of(const Answer& answer, const Question& question, size_t number,
                          Size image) {
    Record record;
    record.question = number;
    record.answer = answer.text;
    record.right = is_right(question, answer.text);
    const Usage& usage = answer.trace.usage;
    record.tokens = usage.image_tokens;
    if (usage.visual_keys > 0)  // what is left of each layer's keys, on average
      record.tokens =
          (usage.image_tokens * usage.visual_keys_kept + usage.visual_keys / 2) / usage.visual_keys;
    record.patches = answer.trace.usage.patches;
    record.kv_bytes = answer.trace.kv_bytes;
    if (question.evidence.empty() || answer.trace.looks.empty()) return record;
    std::vector<Cell> cells;
    for (const Look& look : answer.trace.looks)
      cells.insert(cells.end(), look.plan.cells.begin(), look.plan.cells.end());
    record.covered = share_covered(
        cells, boxes_on_canvas(question.evidence, image, answer.trace.looks.front().canvas));
    return record;
  }

  Error about(const Setting& setting, size_t number, const Error& error) const {
    return {error.kind, fmt::format("arm {}, question {}: {}", setting.arm,
                                    job_.set->questions[number].id, error.message)};
  }

  const Job& job_;
  const Watcher& watcher_;
};

// What the workers of answer_all share.
class Pool {
 public:
  Pool(const Job& job, Records& records, const Watcher& watcher)
      : job_(job),
        records_(records),
        watcher_(watcher),
        asker_(job, watcher),
        ranges_(questions_of_pictures(*job.set)) {
    for (const QuestionRange& range : ranges_)
      for (const Setting& setting : job.settings)
        if (records.has(setting, range.begin, range.end)) done_ += range.end - range.begin;
    report(0);
  }

  void work(const Engine& engine) {
    for (size_t picture; (picture = next_++) < ranges_.size() && !halted();)
      if (auto status = within_memory([&] { return do_picture(engine, picture); }); !status) {
        const std::scoped_lock lock(mutex_);
        if (!error_) error_ = status.error();
      }
  }

  Result<bool> result() const {
    if (error_) return *error_;
    return !stopped_;
  }

 private:
  bool halted() {
    const std::scoped_lock lock(mutex_);
    return stopped_ || error_;
  }

  void report(size_t more) {
    const std::scoped_lock lock(mutex_);
    done_ += more;
    watcher_.on_progress(done_, job_.set->questions.size() * job_.settings.size());
  }

  Status do_picture(const Engine& engine, size_t picture) {
    const auto [begin, end] = ranges_[picture];
    std::optional<Image> image;
    for (const Setting& setting : job_.settings) {
      if (records_.has(setting, begin, end)) continue;
      if (!image) {
        auto loaded = job_.set->picture(picture);
        if (!loaded) return loaded.error();
        image = std::move(*loaded);
      }
      auto session = asker_.session_with(engine, *image);
      if (!session) return session.error();
      std::vector<Record> group;
      for (size_t number = begin; number < end; ++number) {
        if (halted()) return Done{};
        auto asked = asker_.ask(*session, image->size, setting, number);
        if (!asked) return asked.error();
        if (asked->stopped) {
          const std::scoped_lock lock(mutex_);
          stopped_ = true;
          return Done{};
        }
        group.push_back(std::move(asked->record));
        report(1);
      }
      if (auto added = records_.add(setting, group); !added) return added;
    }
    return Done{};
  }

  const Job& job_;
  Records& records_;
  const Watcher& watcher_;
  Asker asker_;
  std::vector<QuestionRange> ranges_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  size_t done_ = 0;             // guarded by mutex_
  bool stopped_ = false;        // guarded by mutex_
  std::optional<Error> error_;  // guarded by mutex_
};

// The first questions of each family.
std::vector<size_t> timed_questions(const QuestionSet& set) {
  const size_t families = std::max<size_t>(set.families.size(), 1);
  const size_t of_each = (kTimedQuestions + families - 1) / families;
  std::map<std::string, size_t> taken;
  std::vector<size_t> chosen;
  for (size_t i = 0; i < set.questions.size(); ++i)
    if (taken[set.questions[i].family]++ < of_each) chosen.push_back(i);
  return chosen;
}

}  // namespace

Result<bool> answer_all(Threads& askers, const Engine& engine, const Job& job, Records& records,
                        const Watcher& watcher) {
  Pool pool(job, records, watcher);
  // Loops of the engine's own threads run on the asking one in here.
  askers.for_each(askers.size(), 1, [&](int64_t, int64_t) { pool.work(engine); });
  return pool.result();
}

Result<bool> time_some(const Engine& engine, const Job& job, Records& records,
                       const Watcher& watcher) {
  const Asker asker(job, watcher);
  const std::vector<size_t> chosen = timed_questions(*job.set);
  size_t done = 0;
  bool warm = false;
  for (const size_t number : chosen) {
    std::optional<Image> image;
    for (const Setting& setting : job.settings) {
      watcher.on_progress(done++, chosen.size() * job.settings.size());
      if (records.has_timing(setting, number)) continue;
      if (!image) {
        auto loaded = job.set->picture(job.set->questions[number].picture);
        if (!loaded) return loaded.error();
        image = std::move(*loaded);
      }
      // The first answer of an engine also reads its weights from the disk.
      for (int turn = warm ? 1 : 0; turn < 2; ++turn) {
        auto session = asker.session_with(engine, *image);
        if (!session) return session.error();
        auto asked = asker.ask(*session, image->size, setting, number);
        if (!asked) return asked.error();
        if (asked->stopped) return false;
        if (turn == 0) continue;
        if (auto added = records.add(setting, asked->timing); !added) return added.error();
      }
      warm = true;
    }
  }
  watcher.on_progress(chosen.size() * job.settings.size(), chosen.size() * job.settings.size());
  return true;
}

}  // namespace fovea::eval
