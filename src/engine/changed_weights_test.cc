// SPDX-License-Identifier: Apache-2.0
// Weights that change while they are used: an error, and no text that was made with them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "engine/test_ask.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using test::ask_path;

enum class Damage { kCut, kOverwritten };

void damage(const fs::path& file, Damage how) {
  const auto bytes = static_cast<int64_t>(fs::file_size(file));
  if (how == Damage::kCut) return fs::resize_file(file, 20'000);
  std::fstream open(file, std::ios::in | std::ios::out | std::ios::binary);
  open.seekp(bytes / 4);
  const std::string noise(static_cast<size_t>(bytes / 2), '\x3f');
  open.write(noise.data(), static_cast<std::streamsize>(noise.size()));
}

// A copy of the model, written a while ago.
class ChangedWeights : public testing::TestWithParam<Damage> {
 protected:
  ChangedWeights() {
    fs::remove_all(folder_);
    fs::copy(ask_path(), folder_);
    fs::permissions(file_, fs::perms::owner_all);
    written_ = fs::last_write_time(file_) - std::chrono::seconds(10);
    fs::last_write_time(file_, written_);
  }
  ~ChangedWeights() override { fs::remove_all(folder_); }

  static AskOptions long_answer() {
    AskOptions options;
    options.budget_tokens = 12;
    options.max_tokens = 60;
    options.ignore_end = true;
    return options;
  }
  static void expect_names_the_file(const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::kFailed);
    EXPECT_NE(error.message.find("model.safetensors"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("load the model again"), std::string::npos) << error.message;
  }

  fs::path folder_ = fs::temp_directory_path() / ("fovea_changed_" + std::to_string(getpid()));
  fs::path file_ = folder_ / "model.safetensors";
  fs::file_time_type written_;
};

TEST_P(ChangedWeights, InMidAnswerNoFurtherTextLeaves) {
  const auto engine = Engine::load(folder_.string());
  ASSERT_TRUE(engine) << engine.error().message;
  Session session = engine->session();
  ASSERT_TRUE(session.add(ask_path("wide.png")));
  AskOptions options = long_answer();
  int pieces = 0;
  int logits = 0;
  options.on_logits = [&](std::span<const float>) { ++logits; };
  int logits_then = 0;
  const auto answer = session.ask("What is this?", options, [&](std::string_view) {
    if (++pieces == 3) {
      damage(file_, GetParam());
      logits_then = logits;
    }
    return true;
  });
  ASSERT_FALSE(answer) << answer->text;
  expect_names_the_file(answer.error());
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(logits, logits_then);
  // Once changed is changed: the time that was there before makes nothing good.
  if (GetParam() == Damage::kOverwritten) fs::last_write_time(file_, written_);
  const auto again = session.ask("And now?", options);
  ASSERT_FALSE(again);
  expect_names_the_file(again.error());
}

TEST_P(ChangedWeights, WhileItLooksNothingIsSaid) {
  for (const std::string look : {"mixed", "crops"}) {
    fs::remove(file_);
    fs::copy(ask_path("model.safetensors"), file_);
    fs::permissions(file_, fs::perms::owner_all);
    fs::last_write_time(file_, written_);
    const auto engine = Engine::load(folder_.string());
    ASSERT_TRUE(engine) << engine.error().message;
    AskOptions options = long_answer();
    options.look = look;
    options.looks = 2;
    options.sure = 1;
    int calls = 0;
    std::string text;
    options.keep_going = [&] {
      if (++calls == 2) damage(file_, GetParam());
      return true;
    };
    const auto answer =
        engine->ask({ask_path("wide.png")}, "What?", options, [&](std::string_view piece) {
          text += piece;
          return true;
        });
    ASSERT_FALSE(answer) << look;
    expect_names_the_file(answer.error());
    EXPECT_EQ(text, "");
  }
}

TEST_P(ChangedWeights, WhileTheyAreLoadedNoModelComesOfThem) {
  for (const std::string weights : {"", "f32", "bf16", "int8"}) {
    fs::remove(file_);
    fs::copy(ask_path("model.safetensors"), file_);
    fs::permissions(file_, fs::perms::owner_all);
    fs::last_write_time(file_, written_);
    LoadOptions options;
    options.weights = weights;
    int calls = 0;
    options.on_progress = [&](int64_t, int64_t) {
      if (++calls == 3) damage(file_, GetParam());
    };
    const auto engine = Engine::load(folder_.string(), options);
    ASSERT_FALSE(engine) << weights;
    expect_names_the_file(engine.error());
  }
}

TEST_P(ChangedWeights, CopiesStayWhatTheyWere) {
  const auto engine = Engine::load(folder_.string(), {.weights = "int8"});
  ASSERT_TRUE(engine) << engine.error().message;
  const auto before = engine->ask({ask_path("wide.png")}, "What?", long_answer());
  ASSERT_TRUE(before);
  int pieces = 0;
  const auto answer =
      engine->ask({ask_path("wide.png")}, "What?", long_answer(), [&](std::string_view) {
        if (++pieces == 3) damage(file_, GetParam());
        return true;
      });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, before->text);
}

INSTANTIATE_TEST_SUITE_P(files, ChangedWeights, testing::Values(Damage::kCut, Damage::kOverwritten),
                         [](const auto& test) {
                           return test.param == Damage::kCut ? "Cut" : "Overwritten";
                         });

}  // namespace
}  // namespace fovea
