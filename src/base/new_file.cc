// SPDX-License-Identifier: Apache-2.0
#include "fovea/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/out_of_memory.h"
#include "base/write_file.h"

namespace fovea {
namespace {

constexpr int kMostLinks = 40;  // as the kernel has it

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

// Where a file of this name would lie once links are followed. A link to a file that is not there
// yet stands for that file.
Result<std::string> follow_links(std::string path) {
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
    if (real) return std::string(real.get());
    std::string aim(4096, '\0');
    const ssize_t length = ::readlink(path.c_str(), aim.data(), aim.size());
    if (length <= 0) return path;
    aim.resize(static_cast<size_t>(length));
    path = aim.front() == '/' ? aim : folder_of(path).append(aim);
  }
  return cannot_write(path, ELOOP);
}

std::string free_name(const std::string& folder) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.fovea-{}-{}.part", folder, ::getpid(), ++count);
}

// Calls `make` with names that nothing should have, until one is free. 0 or an errno.
template <class Make>
int under_a_free_name(const std::string& folder, std::string& name, const Make& make) {
  for (int tries = 0; tries < 100; ++tries) {
    name = free_name(folder);
    if (make(name.c_str())) return 0;
    if (errno != EEXIST) break;
  }
  const int code = errno;
  name.clear();
  return code;
}

std::string own_link(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// A file without a name is gone with the process, however that ends. -1 where there is none such.
int open_nameless(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0 || ::access(own_link(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);  // it could never get a name
  return -1;
}

// Not every file system can; where the disk is broken or full the write or rename says so too.
int sync_if_possible(int fd) {
  if (::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS) return 0;
  return errno;
}

int sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;  // a folder may be writable and not readable
  const int code = sync_if_possible(fd);
  ::close(fd);
  return code;
}

// The descriptor of stdout or stderr that has this file open: a rename would leave what goes there
// later in a file without a name. -1 where neither has.
int standard_stream_of(const struct stat& file) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream {};
    if (::fstat(fd, &stream) == 0 && stream.st_dev == file.st_dev && stream.st_ino == file.st_ino)
      return fd;
  }
  return -1;
}

int copy_of(int fd) {
  if (fd == STDOUT_FILENO && std::fflush(stdout) != 0) return -1;
  return ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

}  // namespace

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      beside_(std::exchange(other.beside_, {})),
      replaces_(other.replaces_),
      fd_(std::exchange(other.fd_, -1)) {}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

Result<NewFile> NewFile::create(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") {
    const int fd = copy_of(STDOUT_FILENO);
    if (fd < 0) return cannot_write("-", errno);
    return NewFile("-", fd);
  }
  if (path.find('\0') != std::string::npos) return cannot_write(path, EINVAL);
  struct stat old {};
  if (::stat(path.c_str(), &old) != 0) {
    if (errno != ENOENT) return cannot_write(path, errno);
    return create_beside(path, false);
  }
  if (S_ISDIR(old.st_mode)) return cannot_write(path, EISDIR);
  const int stream = S_ISREG(old.st_mode) ? standard_stream_of(old) : -1;
  if (stream < 0 && S_ISREG(old.st_mode)) return create_beside(path, true);
  const int fd =
      stream >= 0 ? copy_of(stream) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return cannot_write(path, errno);
  return NewFile(path, fd);
}

Result<NewFile> NewFile::create_beside(const std::string& path, bool replaces) {
  const Result<std::string> target = follow_links(path);
  if (!target) return cannot_write(path, ELOOP);
  if (target->empty() || target->back() == '/') return cannot_write(path, ENOENT);
  // A rename asks the folder alone; a file that is not to be written stays as it is.
  if (replaces && ::faccessat(AT_FDCWD, target->c_str(), W_OK, AT_EACCESS) != 0)
    return cannot_write(path, errno);
  const std::string folder = folder_of(*target);
  std::string beside;
  int fd = open_nameless(folder);
  if (fd < 0) {
    const int code = under_a_free_name(folder, beside, [&](const char* name) {
      fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return fd >= 0;
    });
    if (code != 0) return cannot_write(path, code);
  }
  NewFile file(path, fd);
  file.target_ = *target;
  file.beside_ = std::move(beside);
  file.replaces_ = replaces;
  if (const int code = replaces ? file.keep_mode() : 0; code != 0) return file.error(code);
  return file;
}

// Gives the file what its target has. 0 or an errno.
int NewFile::keep_mode() {
  struct stat old {};
  if (::stat(target_.c_str(), &old) != 0) return errno == ENOENT ? 0 : errno;
  // Another's file stays another's where we may do that. Setting the owner clears bits of the mode,
  // hence the order.
  const bool same_owner = ::fchown(fd_, old.st_uid, old.st_gid) == 0;
  return ::fchmod(fd_, old.st_mode & (same_owner ? 07777U : 0777U)) == 0 ? 0 : errno;
}

int NewFile::append(const void* bytes, size_t count) noexcept {
  return write_all(fd_, bytes, count);
}

Status NewFile::write(std::string_view bytes) {
  const int code = append(bytes.data(), bytes.size());
  return code == 0 ? Status(Done{}) : Status(error(code));
}

// 0 or an errno.
int NewFile::put_in_place() {
  if (const int code = sync_if_possible(fd_); code != 0) return code;
  const std::string folder = folder_of(target_);
  if (beside_.empty()) {
    const std::string nameless = own_link(fd_);
    const auto link_as = [&](const char* name) {
      return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    };
    if (!replaces_ && link_as(target_.c_str())) return sync_folder(folder);
    if (!replaces_ && errno != EEXIST) return errno;
    if (const int code = under_a_free_name(folder, beside_, link_as); code != 0) return code;
  }
  if (::rename(beside_.c_str(), target_.c_str()) != 0) return errno;
  beside_.clear();
  return sync_folder(folder);
}

Status NewFile::commit() {
  if (!target_.empty())
    if (const int code = put_in_place(); code != 0) return error(code);
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return error(errno);
  return Done{};
}

Error NewFile::error(int code) const { return cannot_write(path_, code); }

Status save_text(const std::string& path, std::string_view text) {
  return within_memory([&]() -> Status {
    Result<NewFile> file = NewFile::create(path);
    if (!file) return file.error();
    if (auto written = file->write(text); !written) return written;
    return file->commit();
  });
}

Status check_writable(const std::string& path) {
  struct stat status {};
  // Opening a pipe would wait for its reader, and closing it would end what the reader reads.
  if (path == "-" ||
      (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
    return Done{};
  const Result<NewFile> file = NewFile::create(path);
  return file ? Status(Done{}) : Status(file.error());
}

}  // namespace fovea
