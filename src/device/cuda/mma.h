// SPDX-License-Identifier: Apache-2.0
// Tensor cores and asynchronous copies of sm_80 and later, and what they mean on a CPU. Below sm_80
// they trap: kernels that use them are not launched there (has_tensor_cores).
//
// A fragment is spread over a warp. With group = lane / 4 and at = lane % 4, a lane holds of
//   A [16 rows][16]: pairs (group, 2 at), (group + 8, 2 at), (group, 2 at + 8), (group + 8, 2 at +
//   8) B [16][8 columns]: pairs of rows (2 at, group), (2 at + 8, group) C [16 rows][8 columns]:
//   (group, 2 at), (group, 2 at + 1), (group + 8, 2 at), (group + 8, 2 at + 1)
#pragma once

#include "device/cuda/bf16.h"
#include "device/cuda/kernel.h"

namespace fovea {

#if defined(FOVEA_EMULATE)

inline constexpr bool kTensorCores = true;

inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Operands {
    uint32_t a[4];
    uint32_t b[2];
  };
  const Operands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  Operands all[emulate::kWarp];
  emulate::gather(&mine, sizeof mine, all);
  const int group = emulate::lane() / 4;
  const int at = emulate::lane() % 4;
  for (int pair = 0; pair < 8; ++pair) {
    const int lane = pair % 4;
    const int far = pair / 4;
    for (int i = 0; i < 4; ++i) {
      const uint32_t left = all[group * 4 + lane].a[i / 2 + 2 * far];
      const uint32_t right = all[(2 * at + i % 2) * 4 + lane].b[far];
      c[i] += first_of(left) * first_of(right) + second_of(left) * second_of(right);
    }
  }
}

inline void load_matrices(uint32_t (&to)[4], const bf16* row) {
  const bf16* rows[emulate::kWarp];
  emulate::gather(&row, sizeof row, rows);
  const int lane = emulate::lane();
  for (int i = 0; i < 4; ++i) std::memcpy(&to[i], rows[i * 8 + lane / 4] + lane % 4 * 2, 4);
}
inline void load_matrices_transposed(uint32_t (&to)[4], const bf16* row) {
  const bf16* rows[emulate::kWarp];
  emulate::gather(&row, sizeof row, rows);
  const int lane = emulate::lane();
  for (int i = 0; i < 4; ++i) {
    const bf16* const* two = rows + i * 8 + lane % 4 * 2;
    to[i] = uint32_t{two[0][lane / 4].bits} | uint32_t{two[1][lane / 4].bits} << 16;
  }
}

inline void copy_async_16(void* shared, const void* from, bool valid) {
  if (valid)
    std::memcpy(shared, from, 16);
  else
    std::memset(shared, 0, 16);
}
inline void end_copy_group() {}
template <int kPending>
void wait_for_copies() {}

#else

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
inline constexpr bool kTensorCores = true;
#else
inline constexpr bool kTensorCores = false;
#endif

__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// c += a b, all 32 lanes together.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

// Four 8 x 8 matrices of shared memory: lane 8 i + r gives the address of row r of matrix i, 16
// bytes aligned, and to[i] is the pair (lane / 4, 2 (lane % 4)) of matrix i.
__device__ inline void load_matrices(uint32_t (&to)[4], const bf16* row) {
#if __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}
// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const bf16* row) {
#if __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}

// 16 bytes to shared memory, past the registers and the first cache; zeros where not valid.
__device__ inline void copy_async_16(void* shared, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}
__device__ inline void end_copy_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until all but the last kPending groups of this thread's copies are there.
template <int kPending>
__device__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

#endif

}  // namespace fovea
