// SPDX-License-Identifier: Apache-2.0
// Loops over arrays of vectors that are to stay in registers.
#pragma once

// GCC keeps an array of vectors in registers only if every loop over it is unrolled early.
#if defined(__clang__)
#define FOVEA_UNROLL _Pragma("unroll")
#else
#define FOVEA_UNROLL _Pragma("GCC unroll 64")
#endif
