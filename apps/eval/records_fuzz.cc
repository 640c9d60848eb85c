// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of --resume: it is taken or refused, and what was taken can be added to and
// read again.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "eval/records.h"

namespace {

constexpr const char* kSettings = R"({"model":"tiny","seed":0,"families":["read"],"looks":1})";
constexpr size_t kQuestions = 5;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fovea::eval::Records;
  // A file that lives in memory only.
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  FOVEA_CHECK(ftruncate(descriptor, 0) == 0);
  FOVEA_CHECK(pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);

  const fovea::eval::Setting setting{"uniform", 64};
  size_t taken = 0;
  {
    const auto records = Records::open(path, kSettings, kQuestions);
    if (!records) {
      FOVEA_CHECK(records.error().message.find('\n') == std::string::npos);
      return 0;
    }
    fovea::eval::Record record;
    record.question = 3;
    record.answer = "K7";
    record.kv_bytes = int64_t{1} << 40;
    FOVEA_CHECK(static_cast<bool>((*records)->add(setting, {record})));
    taken = (*records)->of(setting).size();
    FOVEA_CHECK(taken >= 1 && taken <= kQuestions);
  }
  const auto again = Records::open(path, kSettings, kQuestions);
  FOVEA_CHECK(static_cast<bool>(again));
  const auto kept = (*again)->of(setting);
  FOVEA_CHECK(kept.size() == taken);
  for (const fovea::eval::Record& record : kept)
    FOVEA_CHECK(record.question != 3 || record.kv_bytes == int64_t{1} << 40);
  return 0;
}
