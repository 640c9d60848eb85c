// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/picture_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "serve/percent.h"
#include "serve/pictures/ascii.h"

namespace fovea::serve {
namespace {

namespace fs = std::filesystem;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The path that a URL names, or what is wrong with it.
ApiResult<std::string> path_of(std::string_view url, const std::string& param) {
  url.remove_prefix(std::min(url.size(), std::string_view("file:").size()));
  if (!url.starts_with("//"))
    return wrong_param(param, "a file URL is written file:///folder/picture.png", kUrlCode);
  url.remove_prefix(2);
  const std::string_view host = url.substr(0, url.find('/'));
  url.remove_prefix(host.size());
  if (url.empty() || !(host.empty() || is_same_text(host, "localhost")))
    return wrong_param(param, "a file URL names no other host: write file:///folder/picture.png",
                       kUrlCode);
  if (url.find_first_of("?#") != std::string_view::npos)
    return wrong_param(param, "a file URL has no query: write ? as %3F and # as %23", kUrlCode);
  auto path = percent_decoded(url);
  if (!path)
    return wrong_param(param, "the file URL has a % without two hex digits; write % as %25",
                       kUrlCode);
  if (path->find('\0') != std::string::npos)
    return wrong_param(param, "the file URL holds a zero byte", kUrlCode);
  return *std::move(path);
}

// Empty where it leads nowhere.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real && errno == ENOMEM) throw std::bad_alloc();
  return real ? real.get() : "";
}

// What of `path` is below `folder`; empty where it is not.
std::string below(const std::string& folder, const std::string& path) {
  if (folder.empty()) return "";
  const std::string start = folder.ends_with('/') ? folder : folder + "/";
  return path.starts_with(start) ? path.substr(start.size()) : "";
}

// A descriptor of the file, -1 where it may not be read. What is outside the folder is not even
// looked for, so that no time tells of it: only a link inside leads realpath() out.
int open_inside(const std::string& folder, const std::string& path) {
  const std::string real_folder = real_path(folder);
  if (real_folder.empty()) return -1;
  std::error_code ignored;
  const std::string plain = fs::path(path).lexically_normal().string();
  const std::string named = fs::absolute(folder, ignored).lexically_normal().string();
  if (below(named, plain).empty() && below(real_folder, plain).empty()) return -1;
  const std::string relative = below(real_folder, real_path(plain));
  return relative.empty() ? -1 : open_below(real_folder, relative);
}

// At most `most` bytes and one, which shows that there are more.
std::optional<std::vector<uint8_t>> read_up_to(int fd, size_t size, size_t most) {
  std::vector<uint8_t> bytes(std::min(size, most) + 1);
  size_t held = 0;
  while (true) {
    const ssize_t got = ::read(fd, bytes.data() + held, bytes.size() - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    held += static_cast<size_t>(got);
    if (got == 0 || held > most) break;
    if (held == bytes.size()) bytes.resize(std::min(2 * held, most) + 1);  // it has grown
  }
  bytes.resize(held);
  return bytes;
}

}  // namespace

// The path is walked by descriptors: what a link is exchanged for between realpath() and here is
// refused, since the path that realpath() gave has none.
int open_below(const std::string& folder, const std::string& relative) {
  File at(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string_view rest = relative;
  while (at.fd() >= 0) {
    const std::string name(rest.substr(0, rest.find('/')));
    if (name.empty() || name == "." || name == "..") return -1;
    if (name.size() < rest.size()) {
      at = File(::openat(at.fd(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      rest.remove_prefix(name.size() + 1);
      continue;
    }
    // A device may act on being opened: look first. Nothing here waits for a pipe's writer.
    struct stat status {};
    if (::fstatat(at.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (!S_ISREG(status.st_mode)) return -1;
    File file(
        ::openat(at.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return -1;
    return file.release();
  }
  return -1;
}

ApiResult<std::vector<uint8_t>> read_picture_file(const std::string& url,
                                                  const PictureLimits& limits,
                                                  const std::string& param) {
  const auto path = path_of(url, param);
  if (const auto* error = std::get_if<ApiError>(&path)) return *error;
  if (limits.folder.empty())
    return wrong_param(param, "this server reads no pictures from files; send a data: URL",
                       "picture_file_not_allowed");
  const File file(open_inside(limits.folder, std::get<std::string>(path)));
  struct stat status {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0)
    return wrong_param(param,
                       "the folder that this server reads pictures from has no such file that "
                       "it can read; check the path, or send a data: URL",
                       "picture_file_not_allowed");
  const auto most = static_cast<size_t>(std::max<int64_t>(limits.bytes, 0));
  const auto size = static_cast<size_t>(std::max<off_t>(status.st_size, 0));
  const auto too_large = [&] {
    const std::string message =
        "the picture's file has more than " + std::to_string(most) + " bytes; make it smaller";
    return wrong_param(param, message, "picture_too_large");
  };
  if (size > most) return too_large();
  auto bytes = read_up_to(file.fd(), size, most);
  if (!bytes) return wrong_param(param, "the picture's file cannot be read", "invalid_picture");
  if (bytes->size() > most) return too_large();
  return *std::move(bytes);
}

}  // namespace fovea::serve
