// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup whose operands have eight bits a value, e4m3: as warpgroup.h, with 32
// values of a row to a product. In registers, word 0 of A are row `group`, values 4 at to 4 at + 3;
// word 1 the same of row group + 8; words 2 and 3 the values 16 further (group and at as mma.h has
// them).
#pragma once

#include "device/cuda/warpgroup.h"

namespace fovea {

#define FOVEA_FOUR(four) "+f"(four[0]), "+f"(four[1]), "+f"(four[2]), "+f"(four[3])

// c [64][128] or [64][192] (+)= a b': a [64][32], b [128][32] or [192][32], both operands in shared
// memory.
__device__ inline void warpgroup_multiply_eight(float (&c)[16][4], uint64_t a, uint64_t b,
                                                bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7]), FOVEA_FOUR(c[8]), FOVEA_FOUR(c[9]),
        FOVEA_FOUR(c[10]), FOVEA_FOUR(c[11]), FOVEA_FOUR(c[12]), FOVEA_FOUR(c[13]),
        FOVEA_FOUR(c[14]), FOVEA_FOUR(c[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ inline void warpgroup_multiply_eight(float (&c)[24][4], uint64_t a, uint64_t b,
                                                bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, add, 1, 1;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7]), FOVEA_FOUR(c[8]), FOVEA_FOUR(c[9]),
        FOVEA_FOUR(c[10]), FOVEA_FOUR(c[11]), FOVEA_FOUR(c[12]), FOVEA_FOUR(c[13]),
        FOVEA_FOUR(c[14]), FOVEA_FOUR(c[15]), FOVEA_FOUR(c[16]), FOVEA_FOUR(c[17]),
        FOVEA_FOUR(c[18]), FOVEA_FOUR(c[19]), FOVEA_FOUR(c[20]), FOVEA_FOUR(c[21]),
        FOVEA_FOUR(c[22]), FOVEA_FOUR(c[23])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}

// c [64][128] (+)= a b': a [64][32] in registers, b [128][32] in shared memory.
__device__ inline void warpgroup_multiply_eight(float (&c)[16][4], const uint32_t (&a)[4],
                                                uint64_t b, bool add) {
#if defined(FOVEA_WARPGROUPS)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1;\n}"
      : FOVEA_FOUR(c[0]), FOVEA_FOUR(c[1]), FOVEA_FOUR(c[2]), FOVEA_FOUR(c[3]), FOVEA_FOUR(c[4]),
        FOVEA_FOUR(c[5]), FOVEA_FOUR(c[6]), FOVEA_FOUR(c[7]), FOVEA_FOUR(c[8]), FOVEA_FOUR(c[9]),
        FOVEA_FOUR(c[10]), FOVEA_FOUR(c[11]), FOVEA_FOUR(c[12]), FOVEA_FOUR(c[13]),
        FOVEA_FOUR(c[14]), FOVEA_FOUR(c[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}

#undef FOVEA_FOUR

}  // namespace fovea
