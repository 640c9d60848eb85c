// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all.
#pragma once

#include <string>

#include "fovea/result.h"

namespace fovea {

// Written beside its target under a name of its own, then renamed onto it by commit(). Without
// commit() nothing is left. A target that is a device or a FIFO is written as it is.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  int fd() const { return fd_; }
  Status commit();

  // The error for an errno met while writing to the file.
  Error error(int code) const;

 private:
  NewFile(std::string path, std::string target, std::string beside, int fd);

  std::string path_;    // as the caller named it
  std::string target_;  // with symbolic links followed
  std::string beside_;  // empty where the target is written directly
  int fd_;
};

}  // namespace fovea
