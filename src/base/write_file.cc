// SPDX-License-Identifier: Apache-2.0
#include "base/write_file.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace fovea {

int write_all(int fd, const void* bytes, size_t count) noexcept {
  const auto* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(fd, next, count);
    if (written > 0) {
      next += written;
      count -= static_cast<size_t>(written);
      continue;
    }
    if (written == 0) return ENOSPC;  // never seen, but it would be an endless loop
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    pollfd room{fd, POLLOUT, 0};  // a pipe that someone else has made non-blocking
    if (::poll(&room, 1, -1) < 0 && errno != EINTR) return errno;
  }
  return 0;
}

Error cannot_write(const std::string& path, int code) {
  const std::string reason = std::generic_category().message(code);
  const std::string name = path == "-" ? "to stdout" : path;
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return bad_input(fmt::format("cannot write {}: {}; make its folder first", name, reason));
    case EACCES:
    case EBUSY:
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case EPERM:
    case EROFS:
    case ETXTBSY:
      return bad_input(fmt::format("cannot write {}: {}; choose another path", name, reason));
    default:
      return failed(fmt::format("cannot write {}: {}", name, reason));
  }
}

bool lock_alone(int fd) {
  int locked = 0;
  do locked = ::flock(fd, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  return locked == 0 || errno != EWOULDBLOCK;
}

}  // namespace fovea
