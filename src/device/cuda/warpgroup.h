// SPDX-License-Identifier: Apache-2.0
// Four warps that multiply together, out of shared memory, while they do something else: sm_90a
// alone. Not emulated.
//
// Of a product of 64 rows, warp w has the rows 16 w to 16 w + 15, lane by lane as mma.h says of C:
// c[i] are the columns 8 i to 8 i + 7. Operands in registers are as A there.
#pragma once

#include "device/cuda/mma.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FOVEA_WARPGROUPS
#endif

namespace fovea {

inline constexpr int kWarpgroup = 128;  // threads

// An operand in shared memory, as copy_box (tensor_copy.h) lays it: rows of kRowValues, 64, 32 or
// 16, from an address on that is a multiple of kTensorAlignment. A product takes 16 values of each
// row, or 16 rows; adding gives the next.
inline constexpr uint64_t kNextValues = 32 >> 4;
template <int kRowValues>
inline constexpr uint64_t kNextRows = (16 * kRowValues * 2) >> 4;

// `next_piece`: where rows are longer than kRowValues, how many bytes lie between a piece of them
// and the next; of products whose operands are transposed.
template <int kRowValues>
__device__ uint64_t operand_of(const void* shared, uint32_t next_piece = 16) {
  static_assert(kRowValues == 64 || kRowValues == 32 || kRowValues == 16);
  constexpr uint64_t kEightRows = 8 * kRowValues * 2;
  constexpr uint64_t kExchange = kRowValues == 64 ? 1 : kRowValues == 32 ? 2 : 3;
  return (uint64_t{shared_address(shared)} & 0x3FFFF) >> 4 | uint64_t{next_piece >> 4} << 16 |
         (kEightRows >> 4) << 32 | kExchange << 62;
}

// Before the first product that reads registers which were written since.
__device__ inline void begin_products() {
#if defined(FOVEA_WARPGROUPS)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// The products since the last call are one group.
__device__ inline void end_products() {
#if defined(FOVEA_WARPGROUPS)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Until all but the last kPending groups are done. Their registers are not touched before.
template <int kPending>
__device__ void wait_for_products() {
#if defined(FOVEA_WARPGROUPS)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

// A thread of this warpgroup has so many registers from here on.
template <int kCount>
__device__ void take_registers() {
#if defined(FOVEA_WARPGROUPS)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
__device__ void give_registers() {
#if defined(FOVEA_WARPGROUPS)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

// Turns of two warpgroups, 1 to 15: one waits for its turn, the other one gives it.
__device__ inline void wait_for_turn(int turn) {
  asm volatile("bar.sync %0, %1;" ::"r"(turn), "n"(2 * kWarpgroup) : "memory");
}
__device__ inline void give_turn(int turn) {
  asm volatile("bar.arrive %0, %1;" ::"r"(turn), "n"(2 * kWarpgroup) : "memory");
}

#define FOVEA_FOUR(four) "+f"(four[0]), "+f"(four[1]), "+f"(four[2]), "+f"(four[3])

// c [64][128] (+)= a b': a [64][16], b [128][16], both operands in shared memory.
__device__ inline void warpgroup_multiply(float (&c)[16][4], uint64_t a, uint64_t b, bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 0;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7]), FOVEA_FOUR(c[8]), FOVEA_FOUR(c[9]),
        FOVEA_FOUR(c[10]), FOVEA_FOUR(c[11]), FOVEA_FOUR(c[12]), FOVEA_FOUR(c[13]),
        FOVEA_FOUR(c[14]), FOVEA_FOUR(c[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}

// The same of 176 columns.
__device__ inline void warpgroup_multiply(float (&c)[22][4], uint64_t a, uint64_t b, bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %90, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87}, "
      "%88, %89, add, 1, 1, 0, 0;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7]), FOVEA_FOUR(c[8]), FOVEA_FOUR(c[9]),
        FOVEA_FOUR(c[10]), FOVEA_FOUR(c[11]), FOVEA_FOUR(c[12]), FOVEA_FOUR(c[13]),
        FOVEA_FOUR(c[14]), FOVEA_FOUR(c[15]), FOVEA_FOUR(c[16]), FOVEA_FOUR(c[17]),
        FOVEA_FOUR(c[18]), FOVEA_FOUR(c[19]), FOVEA_FOUR(c[20]), FOVEA_FOUR(c[21])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}

// c [64][128], [64][64] or [64][16] (+)= a b: a [64][16] in registers, b [16][128], [16][64] or
// [16][16], whose rows lie in shared memory, those of 128 values in two pieces.
__device__ inline void warpgroup_multiply_transposed(float (&c)[16][4], const uint32_t (&a)[4],
                                                     uint64_t b, bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7]), FOVEA_FOUR(c[8]), FOVEA_FOUR(c[9]),
        FOVEA_FOUR(c[10]), FOVEA_FOUR(c[11]), FOVEA_FOUR(c[12]), FOVEA_FOUR(c[13]),
        FOVEA_FOUR(c[14]), FOVEA_FOUR(c[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ inline void warpgroup_multiply_transposed(float (&c)[8][4], const uint32_t (&a)[4],
                                                     uint64_t b, bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ inline void warpgroup_multiply_transposed(float (&c)[2][4], const uint32_t (&a)[4],
                                                     uint64_t b, bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, add, 1, 1, 1;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}

#undef FOVEA_FOUR

}  // namespace fovea
