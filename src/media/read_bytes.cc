// SPDX-License-Identifier: Apache-2.0
#include "media/read_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

namespace fovea {
namespace {

constexpr size_t kFirstStep = size_t{1} << 16;  // holds the header of nearly every image

// Closes what it opened; stdin stays open.
class Source {
 public:
  explicit Source(const std::string& path)
      : fd_(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
        owned_(path != "-") {}
  ~Source() {
    if (owned_ && fd_ >= 0) ::close(fd_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
  bool owned_;
};

Error system_error(int code) {
  const char* hint = "";
  if (code == ENOENT) hint = "; check the path";
  if (code == EACCES) hint = "; check its permissions";
  return bad_input(std::generic_category().message(code) + hint);
}

// Appends until `bytes` holds `wanted` bytes or the source ends; true when it ended.
Result<bool> fill(int fd, std::vector<uint8_t>& bytes, size_t wanted) {
  size_t held = bytes.size();
  bytes.resize(wanted);
  bool ended = false;
  while (held < wanted && !ended) {
    const ssize_t got = ::read(fd, bytes.data() + held, wanted - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno);
    ended = got == 0;
    held += static_cast<size_t>(got);
  }
  bytes.resize(held);
  return ended;
}

}  // namespace

Result<std::vector<uint8_t>> read_bytes(const std::string& path, uint64_t max_bytes,
                                        const EarlyCheck& check) {
  const Source source(path);
  if (source.fd() < 0) return system_error(errno);
  struct stat status {};
  if (::fstat(source.fd(), &status) != 0) return system_error(errno);
  if (S_ISDIR(status.st_mode)) return bad_input("it is a directory; give the path of an image");

  // One byte more than the file is said to hold shows its end without another step.
  const uint64_t hint = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) + 1 : 0;
  std::vector<uint8_t> bytes;
  uint64_t step = kFirstStep;
  bool sane = false;
  for (bool ended = false; !ended;) {
    const Result<bool> filled = fill(source.fd(), bytes, static_cast<size_t>(step));
    if (!filled) return filled.error();
    ended = *filled;
    if (!sane) {
      const Result<bool> checked = check(bytes);
      if (!checked) return checked.error();
      sane = *checked;
    }
    if (bytes.size() > max_bytes)
      return bad_input(
          fmt::format("it goes on after {} bytes, the most an image within the pixel "
                      "limit may take; raise it with --max-pixels",
                      max_bytes));
    const uint64_t larger = sane ? std::max(hint, 2 * step) : 2 * step;
    step = std::min(larger, max_bytes + 1);
  }
  return bytes;
}

}  // namespace fovea
