// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/text.h"

namespace fovea {
namespace {

constexpr std::chrono::seconds kWriterWait{10};
constexpr int kPollMs = 50;
constexpr int64_t kFirstStep = int64_t{1} << 16;

Error system_error(int code) {
  const char* hint = "";
  if (code == ENOENT) hint = "; check the path";
  if (code == EACCES) hint = "; check its permissions";
  return error_of_reading(code, std::generic_category().message(code) + hint);
}

Error wrong_kind(unsigned mode) {
  return bad_input(fmt::format("it is {}; give a file", kind_of_file(mode)));
}

}  // namespace

bool is_work_that_failed(int code) {
  return code == EIO || code == ENOMEM || code == EMFILE || code == ENFILE;
}

Error error_of_reading(int code, std::string_view message) {
  return is_work_that_failed(code) ? failed(message) : bad_input(message);
}

std::string_view kind_of_file(unsigned mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "no plain file";
}

Result<InputFile> InputFile::open(const std::string& path, Takes takes) {
  InputFile file;
  struct stat status {};
  if (path.find('\0') != std::string::npos) return bad_input("its name holds a zero byte");
  if (takes == Takes::kStdin && path == "-") {
    file.fd_ = STDIN_FILENO;
    file.owned_ = false;
    if (fstat(file.fd_, &status) != 0) return system_error(errno);
    if (S_ISDIR(status.st_mode)) return wrong_kind(status.st_mode);
  } else {
    // Not blocking, so that the open of a pipe does not wait for its writer.
    file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    const int code = errno;
    if (file.fd_ < 0)  // sockets cannot be opened; what else fails names itself
      return code == ENXIO && stat(path.c_str(), &status) == 0 ? wrong_kind(status.st_mode)
                                                               : system_error(code);
    if (fstat(file.fd_, &status) != 0) return system_error(errno);
    const bool is_pipe = S_ISFIFO(status.st_mode);
    if (!S_ISREG(status.st_mode) && !(is_pipe && takes != Takes::kFiles))
      return wrong_kind(status.st_mode);
    file.await_writer_ = is_pipe;
  }
  if (S_ISREG(status.st_mode)) file.size_ = status.st_size;
  return file;
}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owned_, other.owned_);
  std::swap(await_writer_, other.await_writer_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

// A pipe is read without blocking, as reading tells what waiting does not: it has ended (0 bytes)
// where there is no writer, and would block where there is one.
Result<size_t> InputFile::read(std::span<std::byte> target) {
  const auto give_up = std::chrono::steady_clock::now() + kWriterWait;
  size_t held = 0;
  while (held < target.size()) {
    const ssize_t got = ::read(fd_, target.data() + held, target.size() - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) return system_error(errno);
    pollfd wait{fd_, POLLIN, 0};
    if (got != 0) {
      await_writer_ = false;
      if (got > 0)
        held += static_cast<size_t>(got);
      else
        poll(&wait, 1, -1);
      continue;
    }
    const bool left = await_writer_ && poll(&wait, 1, kPollMs) > 0 && (wait.revents & POLLIN) == 0;
    if (!await_writer_ || left) break;  // left: a writer came and went without a byte
    if (std::chrono::steady_clock::now() > give_up)
      return bad_input(
          fmt::format("it is a pipe, and nobody wrote to it within {} s", kWriterWait.count()));
  }
  return held;
}

Result<size_t> InputFile::read_at(int64_t offset, std::span<std::byte> target) const {
  size_t held = 0;
  while (held < target.size()) {
    const ssize_t got =
        pread(fd_, target.data() + held, target.size() - held, offset + static_cast<int64_t>(held));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno);
    if (got == 0) break;
    held += static_cast<size_t>(got);
  }
  return held;
}

namespace {

Result<std::string> read_all(InputFile& file, int64_t most_bytes) {
  if (file.size() > most_bytes)
    return bad_input(fmt::format("it has {} bytes; at most {} are read", with_commas(file.size()),
                                 with_commas(most_bytes)));
  std::string text;
  // One byte more than the file is said to hold shows its end without another step.
  int64_t step = std::max(kFirstStep, file.size() + 1);
  for (bool ended = false; !ended;) {
    const size_t held = text.size();
    text.resize(static_cast<size_t>(std::min(step, most_bytes + 1)));
    const auto got = file.read(std::as_writable_bytes(std::span(text)).subspan(held));
    if (!got) return got.error();
    ended = held + *got < text.size();
    text.resize(held + *got);
    if (static_cast<int64_t>(text.size()) > most_bytes)
      return bad_input(fmt::format("it goes on after {} bytes, the most that are read",
                                   with_commas(most_bytes)));
    step *= 2;
  }
  return text;
}

Error cannot_read(const std::string& path, const Error& reason) {
  return {reason.kind, fmt::format("cannot read {}: {}", in_quotes(path), reason.message)};
}

}  // namespace

Result<std::string> read_file(const std::string& path, int64_t most_bytes, Takes takes) {
  auto file = InputFile::open(path, takes);
  if (!file) return cannot_read(path, file.error());
  auto text = read_all(*file, most_bytes);
  if (!text) return cannot_read(path, text.error());
  return text;
}

Result<std::string> read_file_if_there(const std::string& path, int64_t most_bytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR))
    return std::string();
  return read_file(path, most_bytes);
}

}  // namespace fovea
