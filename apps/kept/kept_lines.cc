// SPDX-License-Identifier: Apache-2.0
#include "kept/kept_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/write_file.h"

namespace fovea::kept {
namespace {

using Json = nlohmann::ordered_json;  // what is written
using FileJson = nlohmann::json;      // what is read

constexpr size_t kLongestLine = size_t{16} << 20;  // far above any answer's
constexpr const char* kHeaderBegins = "{\"settings\":";

// The settings two runs differ in, for a person: the first of those wanted.
std::string difference(const FileJson& kept, const Json& wanted) {
  for (const auto& [key, value] : wanted.items())
    if (!kept.contains(key) || kept[key] != FileJson(value))
      return fmt::format("{} is {} there, {} here", key,
                         kept.contains(key) ? json_text(kept[key]) : "missing", json_text(value));
  return "it has settings this version does not know";
}

}  // namespace

KeptLines::~KeptLines() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<KeptLines>> KeptLines::open(const std::string& path, const LineKind& kind,
                                                   const std::string& settings_json,
                                                   const TakeLine& take_line) {
  std::unique_ptr<KeptLines> lines(new KeptLines(path, kind));
  if (auto opened = lines->open_file(); !opened) return opened.error();
  if (auto read = lines->read(settings_json, take_line); !read) return read.error();
  return lines;
}

std::string KeptLines::name() const { return kind_.flag + " " + path_; }

// What lines a file holds is asked of the file that was locked, hence one descriptor for all.
Status KeptLines::open_file() {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
               0666);  // without waiting, should it be a pipe
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    const int code = errno;  // a full disk is not the fault of who named the file
    return Error(cannot_write(path_, code).kind,
                 fmt::format("{}: {}", name(), std::strerror(code)));
  }
  if (!S_ISREG(status.st_mode))
    return bad_input(fmt::format("{}: no regular file; give another", name()));
  if (!lock_alone(fd_))
    return bad_input(fmt::format("{}: another {} has it; wait for that one, or give another file",
                                 name(), kind_.command));
  return Done{};
}

Error KeptLines::not_ours() const {
  return bad_input(fmt::format("{}: no file of {}; give another", name(), kind_.command));
}

Error KeptLines::bad_line(const std::string& line, int64_t number) const {
  return bad_input(
      fmt::format("{}:{}: no record of {}: {}", name(), number, kind_.command, in_quotes(line)));
}

Status KeptLines::read(const std::string& settings_json, const TakeLine& take_line) {
  std::string text;  // what was read of the file from byte bytes_ on
  std::vector<char> part(size_t{1} << 20);
  int64_t lines = 0;
  for (;;) {
    const ssize_t got = ::pread(fd_, part.data(), part.size(),
                                static_cast<off_t>(bytes_ + static_cast<int64_t>(text.size())));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(fmt::format("{}: {}", name(), std::strerror(errno)));
    if (got == 0) break;
    text.append(part.data(), static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = text.substr(begin, end - begin);
      Status taken =
          ++lines == 1 ? read_header(line, settings_json) : read_line(line, lines, take_line);
      if (!taken) return taken;
    }
    text.erase(0, begin);
    bytes_ += static_cast<int64_t>(begin);
    if (text.size() > kLongestLine) return not_ours();
  }
  const Json header{{"settings", Json::parse(settings_json)}};
  return end_with_whole_lines(text, json_text(header) + "\n", lines);
}

Status KeptLines::read_header(const std::string& line, const std::string& settings_json) const {
  const auto header = parse_json(line);
  // The settings and nothing else: reports have them too.
  if (!header || !header->is_object() || !header->contains("settings") || header->size() != 1)
    return not_ours();
  const FileJson& kept = (*header)["settings"];
  const Json wanted = Json::parse(settings_json);
  if (kept == FileJson(wanted)) return Done{};
  return bad_input(
      fmt::format("{}: another run: {}; give another file", name(), difference(kept, wanted)));
}

Status KeptLines::read_line(const std::string& line, int64_t number,
                            const TakeLine& take_line) const {
  const auto taken = take_line(line);
  if (!taken)
    return Error(taken.error().kind,
                 fmt::format("{}:{}: {}", name(), number, taken.error().message));
  return *taken ? Status(Done{}) : bad_line(line, number);
}

// A line without its end was being written when the program was stopped, if it begins like one of
// ours; anything else stays.
Status KeptLines::end_with_whole_lines(const std::string& rest, const std::string& header,
                                       int64_t lines) {
  if (!rest.empty()) {
    const bool torn = lines == 0 ? rest.starts_with(kHeaderBegins) && header.starts_with(rest)
                                 : rest.starts_with(kind_.line_begins) ||
                                       std::string_view(kind_.line_begins).starts_with(rest);
    if (!torn) return lines == 0 ? not_ours() : bad_line(rest, lines + 1);
    if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0)
      return failed(fmt::format("{}: {}", name(), std::strerror(errno)));
  }
  return lines == 0 ? append(header) : Status(Done{});
}

Status KeptLines::append(const std::string& lines) {
  if (broken_) return *broken_;
  const int code = write_all(fd_, lines.data(), lines.size());
  if (code == 0) {
    bytes_ += static_cast<int64_t>(lines.size());
    return Done{};
  }
  broken_ = failed(fmt::format("{}: {}", name(), std::strerror(code)));
  // Whole lines alone stay. Where this fails too, the next run finds a line without its end.
  (void)!::ftruncate(fd_, static_cast<off_t>(bytes_));
  return *broken_;
}

}  // namespace fovea::kept
