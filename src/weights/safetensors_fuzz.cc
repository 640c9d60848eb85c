// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file, and as the index of shards.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "weights/safetensors.h"
#include "weights/shard_index.h"

namespace {

// A file that lives in memory only.
std::string file_of(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  FOVEA_CHECK(ftruncate(descriptor, 0) == 0);
  FOVEA_CHECK(pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  return "/proc/self/fd/" + std::to_string(descriptor);
}

// What is promised of a file that was taken: each tensor lies in it and is as long as its shape.
void check_promises(const fovea::SafetensorsFile& file) {
  size_t covered = 0;
  unsigned sum = 0;
  for (size_t i = 0; i < file.size(); ++i) {
    const fovea::TensorView tensor = file.tensor(i);
    FOVEA_CHECK(tensor.bytes * 8 ==
                static_cast<size_t>(tensor.values() * dtype_bits(tensor.dtype)));
    for (const std::byte byte : tensor.as_bytes()) sum += static_cast<unsigned>(byte);
    FOVEA_CHECK(file.find(tensor.name)->data == tensor.data);
    covered += tensor.bytes;
  }
  FOVEA_CHECK(covered < file.file().bytes().size() && sum <= 255 * covered);
  FOVEA_CHECK(static_cast<bool>(file.file().intact()));
}

bool one_short_line(const fovea::Error& error) {
  return error.message.size() < 1000 && error.message.find('\n') == std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fovea::SafetensorsFile::open(file_of(data, size));
  if (file)
    check_promises(*file);
  else
    FOVEA_CHECK(one_short_line(file.error()));

  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto index = fovea::parse_index(text);
  if (!index) {
    FOVEA_CHECK(one_short_line(index.error()));
    return 0;
  }
  for (const auto& placed : index->tensors) {
    FOVEA_CHECK(placed.shard < index->shards.size());
    FOVEA_CHECK(index->find(placed.name) == &placed);
  }
  return 0;
}
