// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file that fovea batch goes on from: it is taken or refused, what is refused
// keeps every byte, and what was taken can be added to and read again.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "batch/answers.h"

namespace {

constexpr const char* kSettings = R"({"model":"tiny","question":"?","budget":"default"})";

std::string bytes_of(int descriptor) {
  std::string bytes(static_cast<size_t>(lseek(descriptor, 0, SEEK_END)), '\0');
  FOVEA_CHECK(pread(descriptor, bytes.data(), bytes.size(), 0) ==
              static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fovea::batch::Answers;
  // A file that lives in memory only.
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  FOVEA_CHECK(ftruncate(descriptor, 0) == 0);
  FOVEA_CHECK(pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  static const std::vector<std::string> pictures = {"a.png", "b/c.jpg", "d\xff.png"};

  size_t taken = 0;
  {
    const auto answers = Answers::open(path, kSettings, pictures);
    if (!answers) {
      FOVEA_CHECK(answers.error().message.find('\n') == std::string::npos);
      FOVEA_CHECK(bytes_of(descriptor) == std::string(reinterpret_cast<const char*>(data), size));
      return 0;
    }
    taken = (*answers)->tally().pictures;
    FOVEA_CHECK(taken <= pictures.size() && (*answers)->tally().failed <= taken);
    if (taken < pictures.size()) {
      const auto line = fovea::batch::line_of(pictures[taken], fovea::bad_input("damaged"));
      FOVEA_CHECK(static_cast<bool>((*answers)->add(line)));
      ++taken;
    }
  }
  const auto again = Answers::open(path, kSettings, pictures);
  FOVEA_CHECK(static_cast<bool>(again));
  FOVEA_CHECK((*again)->tally().pictures == taken);
  return 0;
}
