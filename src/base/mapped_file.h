// SPDX-License-Identifier: Apache-2.0
// A file mapped into memory, read-only. The program survives a file that shrinks under it.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "fovea/result.h"

namespace fovea {

// What is promised when the file changes after it was mapped:
// - A page that the file no longer has reads as zeros instead of ending the program with SIGBUS,
//   and intact() is an error from then on. The handler for SIGBUS is installed with the first
//   mapping; faults outside of our mappings go to the handler that was there before.
// - intact() is an error too when the file's size or time of change differs from what was mapped,
//   and stays one. The system sets either before a new byte can be seen through the mapping.
// So: read, then ask intact() before relying on what was read.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  std::span<const std::byte> bytes() const { return bytes_; }

  // A copy of [offset, offset + target.size()), by a read, which a shrinking file cannot hurt.
  Status read_at(int64_t offset, std::span<std::byte> target) const;

  Status intact() const;

  enum class Advice {
    kPopulate,  // map its pages now, with one call instead of a fault for each
    kDontNeed   // drop the pages from this process; they stay in the page cache
  };
  // For the pages that `part`, which lies in bytes(), touches. Dropped ones come back when they are
  // read, so that neighbours who share a page do not hurt each other. A hint: never fails.
  void advise(std::span<const std::byte> part, Advice advice) const;

 private:
  MappedFile() = default;

  std::string path_;
  int descriptor_ = -1;
  int slot_ = -1;  // of the table that the signal handler reads
  struct stat stat_ {};
  std::span<const std::byte> bytes_;
};

}  // namespace fovea
