// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea {

// Written out of sight in the folder of its target, then put in its place by commit(); without
// commit() the target stays as it was and nothing is left. Links are followed, the mode of an older
// file is kept. Devices, pipes and stdout, which "-" stands for, get the bytes as they come.
//
// Errors are the caller's (kBadInput) where the path cannot be written to, and kFailed where the
// writing stopped, for want of space say.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Status write(std::string_view bytes);
  int append(const void* bytes, size_t count) noexcept;  // the same; 0 or an errno for error()
  Status commit();

  Error error(int code) const;

 private:
  NewFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  static Result<NewFile> create_beside(const std::string& path, bool replaces);
  int keep_mode();
  int put_in_place();

  std::string path_;    // as the caller named it
  std::string target_;  // with symbolic links followed; empty where the bytes go out directly
  // The file's name until commit(), where the file system wants it to have one.
  std::string beside_;
  bool replaces_ = false;  // something is there already
  int fd_;
};

// Writes a whole file as NewFile does.
Status save_text(const std::string& path, std::string_view text);

// What is seen to be wrong with a path before there is anything to write: no folder, no permission.
Status check_writable(const std::string& path);

}  // namespace fovea
