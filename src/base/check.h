// SPDX-License-Identifier: Apache-2.0
// FOVEA_CHECK: a programmer's mistake stops the program and says where.
#pragma once

#include <cstdio>
#include <cstdlib>

#define FOVEA_CHECK(condition)                                                                  \
  do {                                                                                          \
    if (!(condition)) [[unlikely]] {                                                            \
      std::fprintf(stderr, "fovea: %s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
