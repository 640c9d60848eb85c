// SPDX-License-Identifier: Apache-2.0
#include "profile/ncu.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

extern char** environ;  // NOLINT(readability-redundant-declaration): not every unistd.h has it

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

bool can_run(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// A file in a folder that was made for it, which nobody else may write to: a name that others know
// beforehand could be a link of theirs. Both are removed at the end.
class LogFile {
 public:
  static Result<LogFile> make() {
    std::error_code error;
    std::string folder = (fs::temp_directory_path(error) / "fovea-ncu-XXXXXX").string();
    if (!error && mkdtemp(folder.data()) != nullptr) return LogFile(folder);
    if (!error) error.assign(errno, std::generic_category());
    return failed(fmt::format("cannot make a folder like {}: {}", folder, error.message()));
  }
  LogFile(LogFile&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile() {
    if (folder_.empty()) return;
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  std::string path() const { return (folder_ / "counters.csv").string(); }
  std::string text() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  explicit LogFile(fs::path folder) : folder_(std::move(folder)) {}
  fs::path folder_;
};

// The exit status, or -1 where it did not run. What it says on stdout and stderr goes nowhere.
int run_quietly(std::vector<std::string> words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // Numbers with points, whatever the language of the user.
  std::vector<char*> environment;
  std::string locale = "LC_ALL=C";
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("LC_ALL=")) environment.push_back(*variable);
  environment.push_back(locale.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int started =
      posix_spawn(&child, argv.front(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (started != 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// "==ERROR== ..." of ncu's log, without its mark.
std::string complaint_in(const std::string& log) {
  constexpr std::string_view kMark = "==ERROR== ";
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kMark)) return line.substr(kMark.size());
  return "";
}

}  // namespace

std::string find_ncu() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && can_run(fs::path(folder) / "ncu"))
      return (fs::path(folder) / "ncu").string();
  const fs::path toolkit = "/usr/local/cuda/bin/ncu";
  return can_run(toolkit) ? toolkit.string() : "";
}

// The whole program runs once for each pass of counters, so that every kernel finds the caches as
// the one before left them; neither clocks nor caches are touched.
Result<RequestCounters> count_under_ncu(const std::string& ncu,
                                        const std::vector<std::string>& arguments) {
  const auto log = LogFile::make();
  if (!log) return log.error();
  std::vector<std::string> words = {ncu,
                                    "--profile-from-start",
                                    "off",
                                    "--replay-mode",
                                    "application",
                                    "--cache-control",
                                    "none",
                                    "--clock-control",
                                    "none",
                                    "--csv",
                                    "--print-units",
                                    "base",
                                    "--log-file",
                                    log->path(),
                                    "--metrics",
                                    std::string(kMetrics),
                                    "/proc/self/exe"};
  std::error_code error;
  words.back() = fs::read_symlink("/proc/self/exe", error).string();
  words.insert(words.end(), arguments.begin(), arguments.end());
  const int status = run_quietly(words);
  const std::string text = log->text();
  auto counters = read_counters(text);
  if (status == 0 && counters) return counters;
  const std::string complaint = complaint_in(text);
  return failed(fmt::format("{} failed: {}", ncu,
                            !complaint.empty() ? complaint
                            : status != 0      ? fmt::format("exit status {}", status)
                                               : counters.error().message));
}

}  // namespace fovea::app
