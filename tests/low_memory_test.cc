// SPDX-License-Identifier: Apache-2.0
// The program where memory or room for threads is short. tools/low_memory tries many more places.
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

const std::string kScene = source_dir() + "/tests/fixtures/gaze/scene.png";

struct LimitedOutcome : Outcome {
  int64_t peak_kb = 0;
};

// With so much address space; 0: as much as there is. A run that hangs ends after a minute.
LimitedOutcome run_limited(std::vector<std::string> arguments, uint64_t limit_kb) {
  const auto folder = scratch();
  std::vector<char*> argv;
  std::string program = program_path();
  argv.push_back(program.data());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open((folder / "out").c_str(), flags, 0600), STDOUT_FILENO);
    dup2(open((folder / "err").c_str(), flags, 0600), STDERR_FILENO);
    const rlimit most = {limit_kb * 1024, limit_kb * 1024};
    if (limit_kb > 0) setrlimit(RLIMIT_AS, &most);
    alarm(60);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  LimitedOutcome run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = read_all(folder / "out");
  run.err = read_all(folder / "err");
  run.peak_kb = usage.ru_maxrss;
  return run;
}

TEST(LowMemory, ThreadsThatDoNotFitAreDoneWithout) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more of the address space than the limit leaves";
#endif
  const std::vector<std::string> command{"ask", kScene, "Which code is on the red star?", "-q"};
  auto many = command;
  many.insert(many.end(), {"--threads", "300"});  // whose stacks are 2.4 GB
  const LimitedOutcome run = run_limited(many, 1'500'000);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, run_limited(command, 0).out);
}

TEST(LowMemory, IsOneLineAndOne) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more of the address space than the limit leaves";
#endif
  int refused = 0;
  for (uint64_t limit_kb = 50'000; limit_kb <= 150'000; limit_kb += 10'000) {
    const LimitedOutcome run = run_limited({"ask", kScene, "What is this?", "-q"}, limit_kb);
    if (run.status == 0 || run.status == 127) continue;  // 127: not even its libraries fit
    ++refused;
    EXPECT_EQ(run.status, 1) << limit_kb << ": " << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << limit_kb << ": " << run.err;
    EXPECT_NE(run.err.find("memory"), std::string::npos) << limit_kb << ": " << run.err;
    // What the system does not give is not there, whatever the pool's bound is.
    EXPECT_EQ(run.err.find("are left"), std::string::npos) << limit_kb << ": " << run.err;
  }
  EXPECT_GE(refused, 1);
}

TEST(LowMemory, EvalHoldsItsWeightsOnceForAnyNumberOfThreads) {
  const auto command = [](const char* threads) {
    return std::vector<std::string>{
        "eval", "--cards",   "2",   "--size", "512",       "--arms", "uniform",      "--budgets",
        "16",   "--weights", "f32", "-q",     "--threads", threads,  "--max-tokens", "1"};
  };
  const LimitedOutcome one = run_limited(command("1"), 0);
  const LimitedOutcome many = run_limited(command("32"), 0);
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(many.status, 0) << many.err;
  // 45 MB of weights; a thread has a few MB of its own.
  EXPECT_LT(many.peak_kb, one.peak_kb + 32 * 8'000);
}

TEST(LowMemory, TooManyLikelyTokensAreRefusedWithFigures) {
  expect_refused({"ask", kScene, "What is this?", "--json", "--logprobs", "10000", "--max-tokens",
                  "1000000", "--ignore-end"},
                 "the 576 most likely tokens of each of 8,192 steps are 4,718,592, but at most "
                 "4,000,000 are kept; ask for 488 of each step, or for 6,944 steps");
}

}  // namespace
}  // namespace fovea
