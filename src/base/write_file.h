// SPDX-License-Identifier: Apache-2.0
// What every writer of files needs: whole writes, errors in words, locks.
#pragma once

#include <string>

#include "fovea/result.h"

namespace fovea {

// Writes all of it, however often the system takes a part only. 0 or an errno.
int write_all(int fd, const void* bytes, size_t count) noexcept;

// The error for an errno met while making or writing the file of that name.
Error cannot_write(const std::string& path, int code);

// Keeps a file or folder from every other process that asks for the same, until `fd` is closed.
// False where another has it. Where a file system knows no locks, none is held.
bool lock_alone(int fd);

}  // namespace fovea
