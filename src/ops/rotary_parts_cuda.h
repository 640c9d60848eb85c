// SPDX-License-Identifier: Apache-2.0
// How a head is normed and rotated: what the kernels that do so share, so that all round alike.
#pragma once

#include "device/cuda/kernel.h"
#include "ops/rows_cuda.h"

namespace fovea {

__device__ inline float4 zero_four() { return make_float4(0, 0, 0, 0); }
__device__ inline float squares_of(float4 x) {
  return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
}
__device__ inline float4 four_of(uint2 pairs) {
  return make_float4(first_of(pairs.x), second_of(pairs.x), first_of(pairs.y), second_of(pairs.y));
}
__device__ inline float4 four_of(const bf16* from) {
  return four_of(__ldcg(reinterpret_cast<const uint2*>(from)));
}
__device__ inline void write_four(bf16* to, float4 four) {
  *reinterpret_cast<uint2*>(to) = make_uint2(to_pair(four.x, four.y), to_pair(four.z, four.w));
}
__device__ inline float4 times(float4 x, float factor, float4 weight) {
  return make_float4(x.x * factor * weight.x, x.y * factor * weight.y, x.z * factor * weight.z,
                     x.w * factor * weight.w);
}

// Eight values of a head: four of its first half and those they are rotated with.
struct HeadPart {
  float4 first, second;
};

// What a lane needs of a head, all of it asked for before any is used.
struct HeadLoads {
  uint2 first, second;  // four values each
  float4 cos, sin;
};

// `from` is the head; values i and those after it, and those half a head on. Nothing is read where
// it is not wanted, and the values are zeros.
__device__ inline HeadLoads load_head(const RotaryJob& job, const bf16* from, bool rotates,
                                      int64_t row, int i, bool wanted) {
  HeadLoads loads{};
  if (!wanted) return loads;
  const int half = job.head_dim / 2;
  loads.first = __ldcg(reinterpret_cast<const uint2*>(from + i));
  loads.second = __ldcg(reinterpret_cast<const uint2*>(from + half + i));
  if (!rotates) return loads;
  const int64_t at = row * half + i;
  loads.cos = __ldcg(reinterpret_cast<const float4*>(job.cos + at));
  loads.sin = __ldcg(reinterpret_cast<const float4*>(job.sin + at));
  return loads;
}

// Of the norm, for the same values.
__device__ inline HeadPart load_weights(const RotaryJob& job, const float* weight, int i) {
  return {__ldg(reinterpret_cast<const float4*>(weight + i)),
          __ldg(reinterpret_cast<const float4*>(weight + job.head_dim / 2 + i))};
}

// What the values are to be multiplied with before their weights. `lanes` lanes, a power of two,
// own the head and have its squares added up over them all: every lane of the warp calls it.
__device__ inline float factor_of(const RotaryJob& job, const HeadPart& part, int lanes) {
  float squares = squares_of(part.first) + squares_of(part.second);
  for (int lane = lanes / 2; lane > 0; lane /= 2)
    squares += __shfl_xor_sync(kAllLanes, squares, lane);
  return rsqrtf(__fdividef(squares, static_cast<float>(job.head_dim)) + job.eps);
}
__device__ inline HeadPart normed(const HeadPart& part, float factor, const HeadPart& weights) {
  return {times(part.first, factor, weights.first), times(part.second, factor, weights.second)};
}

__device__ inline HeadPart rotated(const HeadPart& part, float4 cos, float4 sin) {
  const float4 a = part.first;
  const float4 b = part.second;
  return {make_float4(a.x * cos.x - b.x * sin.x, a.y * cos.y - b.y * sin.y,
                      a.z * cos.z - b.z * sin.z, a.w * cos.w - b.w * sin.w),
          make_float4(b.x * cos.x + a.x * sin.x, b.y * cos.y + a.y * sin.y,
                      b.z * cos.z + a.z * sin.z, b.w * cos.w + a.w * sin.w)};
}

// How many lanes own a head.
__host__ __device__ inline int lanes_of_head(int head_dim) {
  int lanes = 1;
  while (lanes * 8 < head_dim) lanes *= 2;
  return lanes;
}

// RowPlace as the kernels before this one left it: not from a cache of this multiprocessor, where
// it may lie since before they ended.
__device__ inline RowPlace read_place(const RowPlace* from) {
  RowPlace place;
  const auto* words = reinterpret_cast<const unsigned long long*>(from);
  const unsigned long long keys = __ldcg(words);
  const unsigned long long values = __ldcg(words + 1);
  const unsigned long long counts = __ldcg(words + 2);
  place.keys = reinterpret_cast<bf16*>(keys);
  place.values = reinterpret_cast<bf16*>(values);
  place.capacity = static_cast<int>(counts & 0xFFFFFFFF);
  place.position = static_cast<int>(counts >> 32);
  return place;
}
static_assert(sizeof(RowPlace) == 24 && offsetof(RowPlace, capacity) == 16 &&
              offsetof(RowPlace, position) == 20);

}  // namespace fovea
