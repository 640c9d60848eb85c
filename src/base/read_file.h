// SPDX-License-Identifier: Apache-2.0
// The one way to open and read a file that somebody else made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/result.h"

namespace fovea {

// What a caller takes; each includes the one before. Folders, devices and sockets are never taken.
enum class Takes {
  kFiles,  // regular files
  kPipes,  // and named pipes and <(commands) of a shell
  kStdin,  // and stdin for "-", whatever it is
};

// A file that is open for reading. Opening never waits: a pipe that nobody writes to is an error
// after 10 s, and that is found while reading. Errors hold the reason alone, so that the caller can
// say what the file is to him: "it is a folder; give a file".
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path, Takes takes);

  InputFile(InputFile&& other) noexcept { *this = std::move(other); }
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // Of a regular file when it was opened; -1 of anything else.
  int64_t size() const { return size_; }

  // Fills `target` front to back; fewer bytes come back where the file ends.
  Result<size_t> read(std::span<std::byte> target);
  // The same from a place in a regular file.
  Result<size_t> read_at(int64_t offset, std::span<std::byte> target) const;

 private:
  InputFile() = default;

  int fd_ = -1;
  bool owned_ = true;          // stdin stays open
  bool await_writer_ = false;  // a pipe of which nothing has come yet
  int64_t size_ = -1;
};

// Whether an errno of opening or reading is the machine's doing and not that of the one who named
// the file.
bool is_work_that_failed(int code);

// The error for an errno of opening, listing or reading: of the kind that the errno is.
Error error_of_reading(int code, std::string_view message);

// "a folder", "a device", ... of a mode as stat() has it.
std::string_view kind_of_file(unsigned mode);

// Everything in the file, at most `most_bytes`: "cannot read PATH: it is a folder; give a file".
Result<std::string> read_file(const std::string& path, int64_t most_bytes,
                              Takes takes = Takes::kFiles);

// The same of a file that may be missing: the text is empty then.
Result<std::string> read_file_if_there(const std::string& path, int64_t most_bytes);

}  // namespace fovea
