// SPDX-License-Identifier: Apache-2.0
// A library to preload (LD_PRELOAD): it lists the places that take memory or start threads, or
// makes one of them fail. A place is the kind of call with the innermost return addresses in the
// program and its own libraries, libfovea_*; what lies between belongs to other libraries and does
// not count.
//
//   FOVEA_LIST_PLACES=FILE         writes a line for each place when it is met first:
//                                  "<kind> <bytes> <place> <address in its file>..."
//   FOVEA_FAIL_PLACE=K:BYTES:PLACE the first such call at that place fails; BYTES 0: whatever it
//   takes FOVEA_FAIL_ALL=1               and so does every later one, of any place
//   FOVEA_FAIL_THREADS=N           so does every start of a thread from the Nth on, from 1
//   FOVEA_FAILED_MARK=FILE         gets a byte for each call that was made to fail by its place or
//                                  number: where it is empty, the run has shown nothing
//
// tools/low_memory runs the program under it.
#include <dlfcn.h>
#include <errno.h>  // NOLINT(modernize-deprecated-headers): errno is the C library's
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
// What glibc's own malloc goes by beside its name.
void* __libc_malloc(size_t bytes);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* old, size_t bytes);          // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

constexpr int kDepth = 4;  // frames of ours that tell two places apart
constexpr int kMostParts = 16;
constexpr size_t kMostPlaces = 1 << 16;

// A call that may fail: 'm' for memory, 'p' for pages mapped, 't' for a thread.
struct Call {
  char kind;
  size_t bytes;
};

struct Part {  // of the address space that holds code of ours
  uintptr_t base;
  uintptr_t begin;
  uintptr_t end;
};
struct Parts {
  std::array<Part, kMostParts> all{};
  int count = 0;
};

struct Settings {
  int list = -1;  // file descriptor
  int mark = -1;  // likewise
  bool fails = false;
  bool fail_all = false;
  Call call{};
  uint64_t place = 0;
  int64_t thread = 0;  // the first that does not start; 0: none
};

Settings settings;  // written before main alone
std::atomic<bool> is_ready = false;
std::atomic<bool> has_failed = false;
std::atomic<int64_t> threads_started = 0;
std::array<std::atomic<uint64_t>, kMostPlaces> listed{};
// What looks for a place may take memory itself.
thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;

int add_parts(dl_phdr_info* info, size_t /*size*/, void* context) {
  auto& parts = *static_cast<Parts*>(context);
  const bool is_program = info->dlpi_name == nullptr || info->dlpi_name[0] == '\0';
  if (!is_program && std::strstr(info->dlpi_name, "libfovea_") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum && parts.count < kMostParts; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    parts.all[static_cast<size_t>(parts.count++)] = {info->dlpi_addr, begin,
                                                     begin + header.p_memsz};
  }
  return 0;
}

struct Frames {
  Parts parts;
  std::array<uintptr_t, kDepth> at{};  // in their files
  int count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* argument) {
  auto& frames = *static_cast<Frames*>(argument);
  const uintptr_t address = _Unwind_GetIP(context);
  for (int i = 0; i < frames.parts.count; ++i) {
    const Part& part = frames.parts.all[static_cast<size_t>(i)];
    if (address >= part.begin && address < part.end)
      frames.at[static_cast<size_t>(frames.count++)] = address - part.base;
    if (frames.count == kDepth) return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

uint64_t place_of(const Frames& frames, char kind) {
  uint64_t hash = 0xcbf29ce484222325 ^ static_cast<uint64_t>(kind);
  for (int i = 0; i < frames.count; ++i)
    hash = (hash ^ frames.at[static_cast<size_t>(i)]) * 0x100000001b3;
  return hash | 1;  // 0 is an empty entry
}

bool is_new(uint64_t place) {
  for (size_t i = place % kMostPlaces;; i = (i + 1) % kMostPlaces) {
    uint64_t empty = 0;
    if (listed[i].compare_exchange_strong(empty, place)) return true;
    if (empty == place) return false;
  }
}

void list(const Frames& frames, const Call& call, uint64_t place) {
  std::array<char, 256> line{};
  int used = std::snprintf(line.data(), line.size(), "%c %zu %016lx", call.kind, call.bytes, place);
  for (int i = 0; i < frames.count; ++i)
    used += std::snprintf(line.data() + used, line.size() - static_cast<size_t>(used), " %lx",
                          frames.at[static_cast<size_t>(i)]);
  line[static_cast<size_t>(used++)] = '\n';
  if (write(settings.list, line.data(), static_cast<size_t>(used)) < 0) _exit(99);
}

void mark_failure() {
  if (settings.mark >= 0 && write(settings.mark, "x", 1) < 0) _exit(99);
}

bool is_to_fail(const Call& call) {
  if (settings.fail_all && has_failed) return true;
  const bool may_be_it = settings.fails && !has_failed && call.kind == settings.call.kind &&
                         (settings.call.bytes == 0 || call.bytes == settings.call.bytes);
  if (!may_be_it && settings.list < 0) return false;
  inside = true;
  Frames frames;
  dl_iterate_phdr(add_parts, &frames.parts);
  _Unwind_Backtrace(add_frame, &frames);
  bool fail = false;
  if (frames.count > 0) {
    const uint64_t place = place_of(frames, call.kind);
    if (settings.list >= 0 && is_new(place)) list(frames, call, place);
    fail = may_be_it && place == settings.place && !has_failed.exchange(true);
    if (fail) mark_failure();
  }
  inside = false;
  return fail;
}

bool fails(const Call& call) {
  if (!is_ready.load(std::memory_order_relaxed) || inside) return false;
  if (!settings.fails && settings.list < 0) return false;
  return is_to_fail(call);
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

// Before the program's own initialisers.
__attribute__((constructor(101))) void start() {
  if (const char* path = std::getenv("FOVEA_LIST_PLACES"))
    settings.list = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (const char* path = std::getenv("FOVEA_FAILED_MARK"))
    settings.mark = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (const char* text = std::getenv("FOVEA_FAIL_PLACE"))
    settings.fails = std::sscanf(text, "%c:%zu:%lx", &settings.call.kind, &settings.call.bytes,
                                 &settings.place) == 3;
  settings.fail_all = std::getenv("FOVEA_FAIL_ALL") != nullptr;
  if (const char* text = std::getenv("FOVEA_FAIL_THREADS")) settings.thread = std::atoll(text);
  is_ready = true;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) { return fails({'m', bytes}) ? no_memory() : __libc_malloc(bytes); }

void* calloc(size_t count, size_t bytes) {
  return fails({'m', count * bytes}) ? no_memory() : __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) {
  return fails({'m', bytes}) ? no_memory() : __libc_realloc(old, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  return fails({'m', bytes}) ? no_memory() : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** result, size_t alignment, size_t bytes) {
  if (fails({'m', bytes})) return ENOMEM;
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (fails({'p', bytes})) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
      syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  return mmap(at, bytes, protection, flags, file, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  const int64_t number = ++threads_started;
  if (settings.thread > 0 && number >= settings.thread) {
    mark_failure();
    return EAGAIN;
  }
  if (fails({'t', 0})) return EAGAIN;
  return create(thread, attributes, body, argument);
}

}  // extern "C"
