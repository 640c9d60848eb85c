// SPDX-License-Identifier: Apache-2.0
#include "media/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

namespace fovea {
namespace {

Error cannot_write(const std::string& path, int code) {
  const std::string message = std::generic_category().message(code);
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return bad_input(fmt::format("cannot write {}: {}; make its folder first", path, message));
    case EACCES:
    case EISDIR:
    case ENAMETOOLONG:
    case EPERM:
    case EROFS:
      return bad_input(fmt::format("cannot write {}: {}; choose another path", path, message));
    default:
      return failed(fmt::format("cannot write {}: {}", path, message));
  }
}

// A link is written through, not replaced; a path that does not exist stands for itself.
std::string follow_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : path;
}

// Opens a file of a name that nothing has, in the folder of `target`.
int open_beside(const std::string& target, std::string& beside) {
  static std::atomic<unsigned> count{0};
  const size_t slash = target.rfind('/');
  const std::string folder = slash == target.npos ? "" : target.substr(0, slash + 1);
  int fd = -1;
  for (int tries = 0; fd < 0 && tries < 100; ++tries) {
    beside = fmt::format("{}.fovea-{}-{}.part", folder, ::getpid(), ++count);
    fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  return fd;
}

}  // namespace

NewFile::NewFile(std::string path, std::string target, std::string beside, int fd)
    : path_(std::move(path)), target_(std::move(target)), beside_(std::move(beside)), fd_(fd) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      beside_(std::exchange(other.beside_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

Result<NewFile> NewFile::create(const std::string& path) {
  const std::string target = follow_links(path);
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return cannot_write(path, EISDIR);
  if (target.empty() || target.back() == '/') return cannot_write(path, ENOENT);
  std::string beside;
  const bool direct = exists && !S_ISREG(status.st_mode);
  const int fd =
      direct ? ::open(target.c_str(), O_WRONLY | O_CLOEXEC) : open_beside(target, beside);
  if (fd < 0) return cannot_write(path, errno);
  return NewFile(path, target, beside, fd);
}

Status NewFile::commit() {
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) return error(errno);
  if (beside_.empty()) return Done{};
  if (::rename(beside_.c_str(), target_.c_str()) != 0) return error(errno);
  beside_.clear();
  return Done{};
}

Error NewFile::error(int code) const { return cannot_write(path_, code); }

}  // namespace fovea
