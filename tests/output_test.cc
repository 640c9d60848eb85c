// SPDX-License-Identifier: Apache-2.0
// What the program writes, on the real program: nothing is lost without a word, files are whole,
// and stdin, stdout and stderr may be closed.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>

#include "places.h"
#include "program.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

const std::string kModel = source_dir() + "/tests/fixtures/ask/";
const std::string kWide = kModel + "wide.png";

std::string quoted(const std::string& word) { return "'" + word + "'"; }

// A shell's command with $F for the program, in a folder; what it leaves on stdout and stderr where
// the command does not send them elsewhere.
Outcome run_shell(const fs::path& folder, const std::string& command) {
  const std::string whole = "cd " + quoted(folder) + " && F=" + quoted(program_path()) +
                            " M=" + quoted(kModel) + " P=" + quoted(kWide) + " && ( " + command +
                            " ) >.out 2>.err";
  const int status = std::system(whole.c_str());
  Outcome run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = read_all(folder / ".out");
  run.err = read_all(folder / ".err");
  fs::remove(folder / ".out");
  fs::remove(folder / ".err");
  return run;
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Commands that end with their results on stdout.
const std::vector<std::string> kPrinters = {
    "\"$F\"",
    "\"$F\" --help",
    "\"$F\" --help-all",
    "\"$F\" --version",
    "\"$F\" ask --help",
    "\"$F\" info",
    "\"$F\" info --json",
    "\"$F\" see \"$P\"",
    "\"$F\" see \"$P\" --json -",
    "\"$F\" see \"$P\" -o -",
    "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3",
    "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 --json",
    "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 --trace -",
    "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 --logits -",
    "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 --gaze -",
    "echo Q | \"$F\" chat \"$P\" -m \"$M\" --max-tokens 3",
    "\"$F\" batch \"$P\" --question Q -m \"$M\" --max-tokens 3 -o -",
    "echo '\"a\"' | \"$F\" tokenize --model \"$M\"",
    "\"$F\" profile \"$P\" Q -m \"$M\" --max-tokens 2",
    "\"$F\" serve -m \"$M\" --port 0 -q",
    "\"$F\" bench weights --threads 1 -q",
    "echo '{\"looks\":[]}' | \"$F\" view - -o -",
    "\"$F\" eval -m \"$M\" --cards 2 --size 512 --card-count 12 --max-tokens 1 --families read "
    "--arms uniform --budgets 32"};

TEST(Output, AStdoutThatTakesNothingIsAFailureOfEveryCommand) {
  const auto folder = scratch();
  for (const std::string& printer : kPrinters)
    for (const auto& [where, reason] :
         {std::pair{" >/dev/full", "No space left on device"}, {" >&-", "Bad file descriptor"}}) {
      const Outcome run = run_shell(folder, printer + where);
      EXPECT_EQ(run.status, 1) << printer << where << "\n" << run.err;
      const size_t line = run.err.find("fovea: cannot write to stdout: " + std::string(reason));
      EXPECT_NE(line, std::string::npos) << printer << where << "\n" << run.err;
      EXPECT_EQ(run.err.find("fovea: ", line + 1), std::string::npos) << printer << run.err;
      EXPECT_TRUE(line == 0 || run.err[line - 1] == '\n') << printer << where << "\n" << run.err;
    }
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(Output, AStderrThatTakesNothingIsNoFailure) {
  const auto folder = scratch();
  for (const std::string where : {" 2>/dev/full", " 2>&-"}) {
    const Outcome good =
        run_shell(folder, "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 --stats" + where);
    EXPECT_EQ(good.status, 0) << where;
    EXPECT_NE(good.out, "") << where;
    EXPECT_EQ(run_shell(folder, "\"$F\" see missing.png" + where).status, 2) << where;
    EXPECT_EQ(run_shell(folder, "\"$F\" info >/dev/full" + where).status, 1) << where;
  }
}

// The program, which the system refuses to make folders for that reason; false where it may not be
// told to.
bool refuse_folders(int code) {
  const auto end_with = [](uint32_t what) { return sock_filter BPF_STMT(BPF_RET | BPF_K, what); };
  const auto skip_unless = [](uint32_t call) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
  };
  const uint32_t refusal = SECCOMP_RET_ERRNO | static_cast<uint32_t>(code);
  std::vector<sock_filter> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
#ifdef SYS_mkdir
  filter.insert(filter.end(), {skip_unless(SYS_mkdir), end_with(refusal)});
#endif
  filter.insert(filter.end(),
                {skip_unless(SYS_mkdirat), end_with(refusal), end_with(SECCOMP_RET_ALLOW)});
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Output, AFolderThatTheMachineCannotMakeIsItsFailure) {
  const auto folder = scratch();
  for (const auto& [code, expected] : std::vector<std::pair<int, int>>{
           {EDQUOT, 1}, {EMFILE, 1}, {ENOSPC, 1}, {EIO, 1}, {EACCES, 2}, {EROFS, 2}}) {
    constexpr int kMayNot = 99;
    const pid_t child = fork();
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
      if (!refuse_folders(code)) _exit(kMayNot);
      execl(program_path().c_str(), "fovea", "see", kWide.c_str(), "-q", "--maps",
            (folder / "maps").c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "may not refuse calls";
    EXPECT_EQ(WEXITSTATUS(status), expected) << std::strerror(code);
  }
}

// A file opened first would get the number of a closed stream.
TEST(Output, ClosedStreamsAreNoFiles) {
  const auto folder = scratch();
  const std::string eval =
      "\"$F\" eval -m \"$M\" --cards 2 --size 512 --card-count 12 --max-tokens 1 --families read "
      "--arms uniform --budgets 32 --resume kept.jsonl";
  EXPECT_EQ(run_shell(folder, eval + " <&- >&- 2>&-").status, 1);
  std::ifstream kept(folder / "kept.jsonl");
  int lines = 0;
  for (std::string line; std::getline(kept, line); ++lines)
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_GT(lines, 2);
  const Outcome chat = run_shell(folder, "\"$F\" chat \"$P\" -m \"$M\" --max-tokens 3 <&-");
  EXPECT_EQ(chat.status, 2) << chat.err;
  EXPECT_EQ(chat.out, "") << "the weights' bytes are no questions";
  const Outcome ask = run_shell(folder, "\"$F\" ask \"$P\" - -m \"$M\" <&-");
  EXPECT_EQ(ask.status, 2) << ask.err;
  const Outcome see = run_shell(folder, "\"$F\" see - <&-");
  EXPECT_EQ(see.status, 2) << see.err;
  EXPECT_EQ(run_shell(folder, "\"$F\" see \"$P\" -o seen.png --json plan.json 2>&- <&-").status, 0);
  EXPECT_TRUE(read_all(folder / "seen.png").starts_with("\x89PNG"));
  EXPECT_TRUE(nlohmann::json::accept(read_all(folder / "plan.json")));
}

TEST(Output, APipeWithoutAReaderEndsQuietlyOrWithALine) {
  const auto folder = scratch();
  // A pipe whose only reader is gone.
  const std::string without_reader =
      "rm -f pipe; mkfifo pipe; exec 3<>pipe; exec 4>pipe; exec 3<&-; ";
  // As every program in a pipeline: by SIGPIPE, without a word ...
  const Outcome usual = run_shell(folder, without_reader + "\"$F\" info >&4; echo $? >status");
  EXPECT_EQ(usual.err, "");
  EXPECT_EQ(read_all(folder / "status"), std::to_string(128 + SIGPIPE) + "\n");
  // ... and where the caller has it ignored, as an error.
  const Outcome ignored =
      run_shell(folder, "trap '' PIPE; " + without_reader + "\"$F\" info >&4; echo $? >status");
  EXPECT_EQ(ignored.err, "fovea: cannot write to stdout: Broken pipe\n");
  EXPECT_EQ(read_all(folder / "status"), "1\n");
}

TEST(Output, TwoFlagsMayNotNameOneFile) {
  const auto folder = scratch();
  const std::string ask = "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 ";
  for (const std::string& command :
       {ask + "--trace x --gaze ./x", ask + "--gaze y --logits y",
        ask + "--json --trace /dev/stdout", std::string("\"$F\" see \"$P\" -o x --json $PWD/x"),
        std::string("\"$F\" see \"$P\" -o /dev/fd/1 --json -"),
        std::string("\"$F\" eval --cards 1 -m \"$M\" --json x --plot x"),
        std::string("\"$F\" eval --cards 1 -m \"$M\" --json x --resume x")}) {
    const Outcome run = run_shell(folder, command);
    EXPECT_EQ(run.status, 2) << command << "\n" << run.err;
    EXPECT_EQ(files_in(folder), 0u) << command;
  }
  EXPECT_EQ(run_shell(folder, ask + "--trace /dev/null --gaze /dev/null").status, 0);
}

// Ctrl-C before the first token leaves the files of an earlier answer.
TEST(Output, AnAnswerThatWasNotBegunReplacesNoFiles) {
  const auto folder = scratch();
  const Outcome run = run_shell(
      folder,
      "\"$F\" cards -q -n 1 --size 2048 -o cards >/dev/null; echo old >trace; echo old >logits; "
      "\"$F\" ask cards/images/000000.png Q --plan uniform --trace trace --logits logits & "
      "sleep 2; kill -INT $!; wait $!; echo $? >status");
  const std::string status = read_all(folder / "status");
  if (status == "0\n") GTEST_SKIP() << "it was done before the signal came";
  EXPECT_EQ(status, "130\n") << run.err;
  EXPECT_EQ(read_all(folder / "trace"), "old\n");
  EXPECT_EQ(read_all(folder / "logits"), "old\n");
}

TEST(Output, FilesNamedMinusGoToStdout) {
  const auto folder = scratch();
  const std::string ask = "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 3 ";
  const std::string answer = run_shell(folder, ask).out;
  const std::string end_of_png = "IEND\xae\x42\x60\x82";
  for (const std::string option : {"--gaze ", "--logits ", "--trace "}) {
    const Outcome run = run_shell(folder, ask + option + "-");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.err, answer) << option << "the text makes room";
    if (option == "--trace ") {
      EXPECT_TRUE(nlohmann::json::accept(run.out));
    } else if (option == "--gaze ") {
      EXPECT_TRUE(run.out.starts_with("\x89PNG") && run.out.ends_with(end_of_png));
    } else {  // the others hold times
      ASSERT_EQ(run_shell(folder, ask + "--logits file").status, 0);
      EXPECT_TRUE(run.out == read_all(folder / "file"));
    }
  }
  const Outcome see = run_shell(folder, "\"$F\" see \"$P\" -o -");  // shows times
  EXPECT_TRUE(see.out.starts_with("\x89PNG"));
  EXPECT_TRUE(see.out.ends_with(end_of_png)) << "and no line for people";
  const Outcome plot = run_shell(folder, kPrinters.back() + " --plot -");
  EXPECT_EQ(plot.status, 0) << plot.err;
  EXPECT_TRUE(plot.out.starts_with("\x89PNG"));
  EXPECT_TRUE(plot.out.ends_with(end_of_png)) << "and no table";
  EXPECT_EQ(files_in(folder), 1u) << "a file named -";
  const std::vector<std::string> common = {"ask", kWide, "Q", "-m", kModel};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--gaze", "-", "--trace", "-"},
        {"--json", "--logits", "-"},
        {kWide, "--gaze", "-"}}) {
    std::vector<std::string> all = common;
    all.insert(more[0] == kWide ? all.begin() + 1 : all.end(), more.begin(), more.end());
    expect_refused(all, "-");
  }
  expect_refused({"see", kWide, "-o", "-", "--json", "-"}, "stdout");
  expect_refused({"eval", "--cards", "2", "--json", "-", "--plot", "-"}, "stdout");
  expect_refused({"eval", "--cards", "2", "--resume", "-"}, "--resume");
  expect_refused({"cards", "--count", "1", "-o", "-"}, "- is stdout");
  expect_refused({"see", kWide, "--maps", "-"}, "- is stdout");
}

TEST(Output, AnEmptyPathIsRefused) {
  expect_refused({"cards", "--count", "1", "-o", ""}, "--output");
  for (const std::string flag : {"-o", "--json", "--maps"}) {
    expect_refused({"see", kWide, flag, ""}, "empty");
    if (flag != "-o") expect_refused({"see", flag + "=", kWide}, "empty");
  }
  for (const std::string flag : {"--gaze", "--trace", "--logits"})
    expect_refused({"ask", kWide, "Q", "-m", kModel, flag, ""}, flag);
  for (const std::string flag : {"--json", "--plot", "--resume"})
    expect_refused({"eval", "--cards", "2", flag, ""}, flag);
}

TEST(Output, AFullDiskLeavesWhatWasThere) {
  const auto folder = scratch();
  const SmallDisk disk(folder / "small", "8k");
  if (!disk.mounted()) GTEST_SKIP() << "may not mount";
  std::ofstream(folder / "small/old") << "old";
  const std::string ask = "\"$F\" ask \"$P\" Q -m \"$M\" --max-tokens 40 --ignore-end ";
  for (const std::string& command :
       {ask + "--trace small/old", ask + "--gaze small/old", ask + "--logits small/old",
        std::string("\"$F\" see \"$P\" -o small/old")}) {
    const Outcome run = run_shell(folder, command);
    EXPECT_EQ(run.status, 1) << command << "\n" << run.err;
    EXPECT_NE(run.err.find("fovea: cannot write small/old: No space left on device\n"),
              std::string::npos)
        << command << "\n"
        << run.err;
    EXPECT_TRUE(read_all(folder / "small/old") == "old") << command;
    EXPECT_EQ(files_in(folder / "small"), 1u) << command;
  }
}

TEST(Output, AFileThatMayNotGrowIsAnErrorAndNotTheEnd) {
  const auto folder = scratch();
  std::ofstream(folder / "old") << "old";
  const Outcome run = run_shell(folder, "ulimit -f 1; \"$F\" see \"$P\" -o old");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.err, "fovea: cannot write old: File too large\n");
  EXPECT_EQ(read_all(folder / "old"), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

}  // namespace
}  // namespace fovea
