// SPDX-License-Identifier: Apache-2.0
// fovea eval on the real program, with a small random checkpoint: it knows nothing, but what it
// says is always the same.
#include <sys/file.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

using nlohmann::json;

const std::string kModel = source_dir() + "/tests/fixtures/ask/";
const std::string kWide = kModel + "wide.png";

std::vector<std::string> small(std::vector<std::string> more) {
  std::vector<std::string> arguments{"eval",
                                     "-m",
                                     kModel,
                                     "--cards",
                                     "10",
                                     "--seed",
                                     "7",
                                     "--size",
                                     "512",
                                     "--card-count",
                                     "12",
                                     "--max-tokens",
                                     "2",
                                     "--families",
                                     "read,count,exist"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json run_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome run = run_fovea(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  return json::parse(run.out, nullptr, false);
}

// Times differ from run to run; everything else may not.
json without_times(json report) {
  for (const char* rows : {"rows", "by_payload"})
    for (json& row : report[rows]) {
      EXPECT_TRUE(row["ttft_ms"].is_null() || row["ttft_ms"] > 0) << row;
      row.erase("ttft_ms");
      row.erase("answer_ms");
    }
  return report;
}

const json* row_of(const json& report, const std::string& arm, int budget,
                   const std::string& family) {
  for (const json& row : report["rows"])
    if (row["arm"] == arm && row["budget"] == budget && row["family"] == family) return &row;
  return nullptr;
}

TEST(Eval, HasARowForEachArmBudgetAndFamily) {
  const std::string arms = "full,uniform,random,centre,entropy,salience,coupling,balanced,oracle";
  const json report = run_json(small({"--arms", arms, "--budgets", "32,48", "--look", "mixed"}));
  EXPECT_EQ(report["rows"].size(), (1 + 8 * 2) * 4u);
  const json* full = row_of(report, "full", 0, "read");
  const json* oracle = row_of(report, "oracle", 48, "read");
  const json* uniform = row_of(report, "uniform", 48, "read");
  ASSERT_TRUE(full && oracle && uniform) << report;
  EXPECT_EQ((*full)["tokens"], 256);
  EXPECT_EQ((*full)["patches"], 1024);
  EXPECT_EQ((*full)["evidence_recall"], 1);
  EXPECT_EQ((*oracle)["tokens"], 48);
  EXPECT_EQ((*oracle)["patches"], 192);
  EXPECT_EQ((*oracle)["evidence_recall"], 1);
  EXPECT_EQ((*oracle)["n"], 4);
  EXPECT_EQ((*uniform)["tokens"], 16);
  EXPECT_EQ((*uniform)["evidence_recall"], 0);
  for (const json& row : report["rows"]) {
    EXPECT_LE(row["low"], row["accuracy"]) << row;
    EXPECT_GE(row["high"], row["accuracy"]) << row;
    EXPECT_GT(row["ttft_ms"], 0) << row;
    if (row["budget"] != 0) {
      EXPECT_LE(row["tokens"], row["budget"]) << row;
    }
  }
}

// Every answer of a run; which was kept first depends on the threads.
std::vector<std::string> answers_in(const std::string& kept) {
  std::vector<std::string> answers;
  std::ifstream file(kept);
  for (std::string line; std::getline(file, line);)
    if (line.find("\"answer\"") != std::string::npos) answers.push_back(line);
  std::sort(answers.begin(), answers.end());
  return answers;
}

TEST(Eval, GivesTheSameAnswersForAnyNumberOfThreads) {
  const auto folder = scratch();
  json reports[2];
  const std::string threads[] = {"1", "3"};
  for (int i = 0; i < 2; ++i)
    reports[i] =
        without_times(run_json(small({"--arms", "uniform,random,coupling", "--budgets", "48",
                                      "--threads", threads[i], "--resume", folder / threads[i]})));
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(answers_in(folder / "1").size(), 30u);
  EXPECT_EQ(answers_in(folder / "1"), answers_in(folder / "3"));
}

TEST(Eval, TheSeedDecidesWhatIsAsked) {
  auto command = small({"--arms", "uniform", "--budgets", "16"});
  const json one = run_json(command);
  std::replace(command.begin(), command.end(), std::string("7"), std::string("8"));
  EXPECT_NE(run_json(command)["settings"]["questions_fingerprint"],
            one["settings"]["questions_fingerprint"]);
}

TEST(Eval, CropsAndGlancesAreMeasuredToo) {
  const json crops =
      run_json(small({"--arms", "oracle", "--budgets", "48", "--look", "crops", "--looks", "2"}));
  const json* oracle = row_of(crops, "oracle", 48, "read");
  ASSERT_TRUE(oracle);
  EXPECT_EQ((*oracle)["evidence_recall"], 1);
  EXPECT_GT((*oracle)["tokens"], 16);
  const json off = run_json(small({"--arms", "oracle", "--budgets", "48", "--look", "off"}));
  const json* glance = row_of(off, "oracle", 48, "read");
  ASSERT_TRUE(glance);
  EXPECT_EQ((*glance)["tokens"], 16);
  EXPECT_EQ((*glance)["evidence_recall"], 0);
}

TEST(Eval, FurtherLooksAreTakenWhereTheModelIsNotSureEnough) {
  const auto run = [](const std::string& sure) {
    return run_json(small({"--arms", "coupling", "--budgets", "48", "--look", "mixed", "--looks",
                           "2", "--sure", sure}));
  };
  const json never = run("0");
  const json always = run("1");
  const json* half = row_of(never, "coupling", 48, "all");
  const json* whole = row_of(always, "coupling", 48, "all");
  ASSERT_TRUE(half && whole);
  EXPECT_EQ((*half)["tokens"], 32) << "a glance of 16 and half of the other 32";
  EXPECT_EQ((*whole)["tokens"], 48);
  EXPECT_EQ(never["settings"]["sure"], 0);
  EXPECT_FALSE(run("0.9")["settings"].contains("sure")) << "as where nothing is said";
  expect_refused(small({"--sure", "1.5"}), "1.5");
}

TEST(Eval, GoesOnWhereItStopped) {
  const auto folder = scratch();
  const std::string kept = folder / "run.jsonl";
  const auto command = small({"--arms", "random,oracle", "--budgets", "32,48", "--resume", kept});
  const json whole = without_times(run_json(command));
  const std::string text = read_all(kept);
  const auto lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_GE(lines, 1 + 10 * 4);

  // The second half is lost, the last line in its middle.
  std::ofstream(kept) << text.substr(0, text.size() / 2);
  EXPECT_EQ(without_times(run_json(command)), whole);
  const std::string again = read_all(kept);
  EXPECT_TRUE(again.starts_with(text.substr(0, text.rfind('\n', text.size() / 2) + 1)));
  // Nothing is asked a third time, not even the clock.
  const json timed = run_json(command);
  EXPECT_EQ(read_all(kept), again);
  EXPECT_EQ(run_json(command), timed);

  // Another arm is added; other questions are refused.
  auto more = command;
  std::replace(more.begin(), more.end(), std::string("random,oracle"), std::string("random,full"));
  EXPECT_EQ(run_json(more)["rows"].size(), 3 * 4u);
  EXPECT_TRUE(read_all(kept).starts_with(again));
  auto other = command;
  std::replace(other.begin(), other.end(), std::string("7"), std::string("8"));
  expect_refused(other, "seed is 7 there, 8 here");
  other = command;
  other.insert(other.end(), {"--honesty", "noise"});
  expect_refused(other, "honesty is \"off\" there");
}

TEST(Eval, AnInterruptKeepsWhatIsDone) {
  const auto folder = scratch();
  const std::string kept = folder / "run.jsonl";
  const pid_t child = fork();
  if (child == 0) {
    dup2(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execl(program_path().c_str(), "fovea", "eval", "-m", kModel.c_str(), "--cards", "1000",
          "--families", "read", "--size", "512", "--card-count", "12", "--arms", "uniform",
          "--budgets", "16", "--resume", kept.c_str(), nullptr);
    _exit(127);
  }
  const auto lines = [&] {
    const std::string text = read_all(kept);
    return std::count(text.begin(), text.end(), '\n');
  };
  int status = 0;
  while (lines() < 5 && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
  kill(child, SIGINT);
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(read_all(folder / "out"), "");
  EXPECT_NE(read_all(folder / "err").find("goes on from"), std::string::npos);
  EXPECT_GE(lines(), 5);
}

TEST(Eval, AnswersOfASetOfQuestionsAreCompared) {
  const auto folder = scratch();
  const auto asked = [&](const std::string& question) {
    const Outcome run = run_fovea(
        {"ask", kWide, question, "-m", kModel, "--plan", "uniform", "--max-tokens", "8", "--json"});
    return json::parse(run.out)["text"].get<std::string>();
  };
  // What the model says is right by definition, if it says anything a person can read.
  std::ofstream file(folder / "q.jsonl");
  int sensible = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string question = "What is thing " + std::to_string(i) + "?";
    const std::string answer = asked(question);
    const bool readable =
        std::count_if(answer.begin(), answer.end(), [](char c) { return c > ' ' && c < 127; }) > 1;
    sensible += readable ? 1 : 0;
    file << json{{"image", "wide.png"},
                 {"text", question},
                 {"answer", readable ? answer : "nothing of this kind"},
                 {"category", readable ? "said" : "not said"}}
                .dump(-1, ' ', false, json::error_handler_t::replace)
         << "\n";
  }
  file.close();
  ASSERT_GT(sensible, 0);
  const json report =
      run_json({"eval", "-m", kModel, "--data", folder / "q.jsonl", "--images",
                std::filesystem::path(kWide).parent_path(), "--arms", "full", "--max-tokens", "8"});
  const json* said = row_of(report, "full", 0, "said");
  ASSERT_TRUE(said) << report;
  EXPECT_EQ((*said)["n"], sensible);
  EXPECT_EQ((*said)["accuracy"], 1);
  EXPECT_TRUE((*said)["evidence_recall"].is_null());
  if (const json* other = row_of(report, "full", 0, "not said")) {
    EXPECT_EQ((*other)["accuracy"], 0);
  }
}

TEST(Eval, WritesATableAPlotAndJson) {
  const auto folder = scratch();
  for (const std::string honesty : {"off", "payload", "noise"}) {
    const Outcome run =
        run_fovea(small({"--arms", "uniform,oracle", "--budgets", "32", "--honesty", honesty,
                         "--plot", folder / "plot.png", "--json", folder / "rows.json"}));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.err, "") << "no bar without a terminal";
    EXPECT_NE(run.out.find("accuracy"), std::string::npos);
    EXPECT_NE(run.out.find("chance"), std::string::npos);
    EXPECT_NE(run.out.find("\noracle"), std::string::npos);
    EXPECT_TRUE(read_all(folder / "plot.png").starts_with("\x89PNG"));
    EXPECT_EQ(json::parse(read_all(folder / "rows.json"))["settings"]["honesty"], honesty);
  }
}

// Bytes come from the pool's pages; a page of this model holds fewer keys than 100.
TEST(Eval, BytesFallWithTheKeysThatStayAndWithTheirFormat) {
  const std::vector<std::string> arms{"--arms", "full,uniform,forget-window,forget-vl-cache",
                                      "--budgets", "26"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arms.begin(), arms.end());
    return run_json(small(std::move(more)));
  };
  const json report = with({});
  const auto bytes = [](const json& of, const char* arm, int budget) {
    const json* row = row_of(of, arm, budget, "all");
    EXPECT_TRUE(row) << arm;
    return row ? (*row)["kv_bytes"].get<double>() : 0;
  };
  const double full = bytes(report, "full", 0);
  EXPECT_GT(full, 0);
  for (const char* arm : {"uniform", "forget-window", "forget-vl-cache"}) {
    EXPECT_GT(bytes(report, arm, 26), 0) << arm;
    EXPECT_LT(bytes(report, arm, 26), 0.5 * full) << arm;
  }
  EXPECT_LT(bytes(with({"--kv", "int8"}), "full", 0), 0.6 * full);
}

TEST(Eval, ThePlotMayBeOverBytes) {
  const auto folder = scratch();
  const auto plot = [&](const std::string& over) {
    const Outcome run = run_fovea(small({"--arms", "uniform,full", "--budgets", "32", "--plot-over",
                                         over, "--plot", folder / over}));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("KV MiB"), std::string::npos) << run.out;
    const std::string png = read_all(folder / over);
    EXPECT_TRUE(png.starts_with("\x89PNG"));
    return png;
  };
  EXPECT_NE(plot("bytes"), plot("tokens"));
  expect_refused(small({"--plot-over", "patches"}), "patches");
}

TEST(Eval, AttentionIsPartOfWhatARunIs) {
  const auto folder = scratch();
  const std::string kept = folder / "run.jsonl";
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--arms", "uniform", "--budgets", "16", "--resume", kept});
    return small(std::move(more));
  };
  const json report =
      run_json(with({"--attention", "local3,dense", "--attention-text", "top-blocks:0.50"}));
  EXPECT_EQ(report["settings"]["attention"], "local3,dense");
  EXPECT_EQ(report["settings"]["attention_text"], "top-blocks:0.5");
  expect_refused(with({"--attention", "local3", "--attention-text", "top-blocks:0.5"}),
                 "attention is \"local3,dense\" there, \"local3\" here");
  expect_refused(with({}), "");
  const json dense = run_json(small({"--arms", "uniform", "--budgets", "16", "--attention", "dense",
                                     "--attention-text", "dense,dense", "--kv", "f32"}));
  const json stored =
      run_json(small({"--arms", "uniform", "--budgets", "16", "--kv", "int8,int8"}));
  EXPECT_EQ(stored["settings"]["kv"], "int8");
  EXPECT_FALSE(dense["settings"].contains("attention")) << "as where nothing is said";
  EXPECT_FALSE(dense["settings"].contains("attention_text"));
  EXPECT_FALSE(dense["settings"].contains("kv"));
}

// Refused by the file, before a device is looked for.
TEST(Eval, TheDeviceAndItsKernelsArePartOfWhatARunIs) {
  const std::string kept = scratch() / "run.jsonl";
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--arms", "uniform", "--budgets", "16", "--resume", kept});
    return small(std::move(more));
  };
  const json report = run_json(with({}));
  EXPECT_FALSE(report["settings"].contains("device")) << "as where nothing is said";
  EXPECT_FALSE(report["settings"].contains("kernels"));
  expect_refused(with({"--device", "cuda:1"}), "device is missing there, \"cuda\" here");
  expect_refused(with({"--kernels", "portable"}), "kernels is missing there, \"portable\" here");
  const std::string lines = read_all(kept);
  EXPECT_EQ(without_times(run_json(with({"--device", "cpu", "--kernels", "best"}))),
            without_times(report));
  EXPECT_EQ(read_all(kept), lines);
}

TEST(Eval, WrongUseIsRefusedInOneLine) {
  const auto folder = scratch();
  std::ofstream(folder / "bad.jsonl") << "{}\n";
  std::ofstream(folder / "other.jsonl") << "hello\n";
  expect_refused({"eval", "-m", kModel}, "--data DIR|FILE or --cards N");
  expect_refused(small({"--data", kWide}), "one of them");
  expect_refused(small({"--arms", "random,best"}), "best");
  expect_refused(small({"--budgets", "64,-1"}), "-1");
  expect_refused(small({"--budgets", "64,x"}), "not a whole number");
  expect_refused(small({"--payload", "10-13"}), "10-13");
  expect_refused(small({"--payload", "13..10"}), "13");
  expect_refused(small({"--look", "sideways"}), "sideways");
  expect_refused(small({"--honesty", "yes"}), "yes");
  expect_refused(small({"--attention", "none"}), "--attention: there is no attention");
  expect_refused(small({"--attention-text", "local3"}), "--attention-text: attention \"local3\"");
  expect_refused(small({"--kv", "int4"}), "--kv: kv \"int4\"");
  expect_refused(small({"--plot", folder / "no" / "plot.png"}), "plot.png");
  expect_refused(small({"--resume", folder / "other.jsonl"}), "no file of fovea eval");
  expect_refused(small({"--device", "cuda:77"}), "cuda:77");
  expect_refused({"eval", "-m", kModel, "--cards", "4", "--families", "read,smell"}, "smell");
  expect_refused({"eval", "-m", kModel, "--cards", "4", "--size", "10"}, "10");
  expect_refused({"eval", "-m", kModel, "--cards", "4", "--card-count", "4000"}, "4000");
  expect_refused({"eval", "-m", kModel, "--cards", "4", "--seed", "99999999999"}, "--seed");
  expect_refused({"eval", "-m", kModel, "--data", folder / "bad.jsonl"}, "bad.jsonl:1: ");
  expect_refused({"eval", "-m", kModel, "--data", folder / "nothing"}, "nothing");
  expect_refused({"eval", "-m", folder, "--cards", "4"}, "");
}

TEST(Eval, AResumeFileThatIsNotOursKeepsEveryByteAndHasOneRun) {
  const auto folder = scratch();
  const std::string notes = folder / "notes";
  std::ofstream(notes) << "a\nb";
  expect_refused(small({"--resume", notes}), "no file of fovea eval");
  EXPECT_EQ(read_all(notes), "a\nb");
  const std::string kept = folder / "kept.jsonl";
  const int fd = open(kept.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  expect_refused(small({"--resume", kept}), "another fovea eval has it");
  EXPECT_EQ(read_all(kept), "");
  close(fd);
}

}  // namespace
}  // namespace fovea
