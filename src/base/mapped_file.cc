// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "base/read_file.h"
#include "base/text.h"

namespace fovea {
namespace {

// What the signal handler may look at: atomics that need no lock.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> damaged{false};
};
constexpr int kSlots = 4096;
std::array<Slot, kSlots> slots;
struct sigaction previous_action;

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The file ends before `address`, so everything from its page on is gone: zeros take its place.
bool replace_lost_pages(uintptr_t address) {
  for (Slot& slot : slots) {
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address < slot.begin.load(std::memory_order_acquire) || address >= end) continue;
    const uintptr_t page = address & ~(page_bytes() - 1);
    slot.damaged.store(true, std::memory_order_release);
    // The kernel exchanges pages while other threads read: they see zeros, or come here as well.
    // tsan takes mmap() for a plain write to those pages, so the kernel is asked directly.
    constexpr int64_t kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    const int64_t status =
        syscall(SYS_mmap, page, end - page, int64_t{PROT_READ}, kFlags, int64_t{-1}, int64_t{0});
    return status != -1;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool handled = replace_lost_pages(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved_errno;
  if (handled) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // The instruction runs again and the program ends as it would have without us.
    sigaction(SIGBUS, &previous_action, nullptr);
  }
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes();  // a static's first use must not be in the handler
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
  });
}

int take_slot(uintptr_t begin, size_t bytes) {
  for (int i = 0; i < kSlots; ++i) {
    Slot& slot = slots[static_cast<size_t>(i)];
    if (slot.taken.exchange(true)) continue;
    slot.damaged.store(false);
    slot.begin.store(begin, std::memory_order_release);
    slot.end.store(begin + bytes, std::memory_order_release);
    return i;
  }
  return -1;
}

void free_slot(int index) {
  Slot& slot = slots[static_cast<size_t>(index)];
  slot.end.store(0, std::memory_order_release);
  slot.begin.store(0, std::memory_order_release);
  slot.taken.store(false);
}

Error cannot(const std::string& path, const char* what) {
  const int code = errno;
  const std::string message = fmt::format("cannot {} {}: {}", what, path, std::strerror(code));
  return error_of_reading(code, message);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  install_handler();
  MappedFile file;
  file.path_ = path;
  // Not blocking, so that a pipe somebody put there is an error and not a wait without end.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file.descriptor_ < 0) return cannot(path, "open");
  if (fstat(file.descriptor_, &file.stat_) != 0) return cannot(path, "look at");
  if (!S_ISREG(file.stat_.st_mode))
    return bad_input(fmt::format("{} is {}; give a file", path, kind_of_file(file.stat_.st_mode)));
  if (file.stat_.st_size == 0) return bad_input(path + " is empty");
  const auto bytes = static_cast<size_t>(file.stat_.st_size);
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor_, 0);
  if (at == MAP_FAILED) return cannot(path, "map");
  file.bytes_ = {static_cast<const std::byte*>(at), bytes};
  file.slot_ = take_slot(reinterpret_cast<uintptr_t>(at), bytes);
  if (file.slot_ < 0)
    return failed(fmt::format("cannot map {}: {} files are mapped already", path, kSlots));
  return file;
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(slot_, other.slot_);
  std::swap(stat_, other.stat_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) free_slot(slot_);
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status MappedFile::read_at(int64_t offset, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t got = pread(descriptor_, target.data(), target.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot(path_, "read");
    if (got == 0) return failed(fmt::format("{} ends at byte {} while it is read", path_, offset));
    offset += got;
    target = target.subspan(static_cast<size_t>(got));
  }
  return Done{};
}

Status MappedFile::intact() const {
  std::atomic<bool>& damaged = slots[static_cast<size_t>(slot_)].damaged;
  struct stat now {};
  if (fstat(descriptor_, &now) != 0)
    return failed(fmt::format("cannot look at {}: {}", path_, std::strerror(errno)));
  const bool resized = now.st_size != stat_.st_size;
  // Once is enough: a copy that sets the old time again when it is done changes nothing back.
  if (resized || now.st_mtim.tv_sec != stat_.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != stat_.st_mtim.tv_nsec)
    damaged.store(true);
  if (!damaged.load()) return Done{};
  if (resized)
    return failed(
        fmt::format("{} was {} bytes long when it was opened and is {} now; load the model again",
                    path_, with_commas(stat_.st_size), with_commas(now.st_size)));
  return failed(path_ + " was changed while it was in use; load the model again");
}

void MappedFile::advise(std::span<const std::byte> part, Advice advice) const {
  if (part.empty()) return;
  FOVEA_CHECK(part.data() >= bytes_.data() &&
              part.data() + part.size() <= bytes_.data() + bytes_.size());
  const auto address = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = address & ~(page_bytes() - 1);
  const uintptr_t end = address + part.size();
  void* at = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  madvise(at, end - begin, advice == Advice::kPopulate ? MADV_POPULATE_READ : MADV_DONTNEED);
}

}  // namespace fovea
