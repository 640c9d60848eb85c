// SPDX-License-Identifier: Apache-2.0
// CUDA's dialect on a CPU: kernels compiled by the C++ compiler and run block by block, each thread
// of a block on a stack of its own. It is slow and exact, and needs neither GPU nor toolkit, so
// that every machine tests every kernel: with the address sanitizer, for reads and writes out of
// bounds.
//
// What is offered is what the kernels use. Blocks of a launch run one after the other in order, so
// a kernel whose blocks wait for each other does not end here, unless they are of one cluster; such
// a kernel has dynamic shared memory alone. Tensor cores are emulated by the
// functions of mma.h; textures and graphs are not (kEmulated tells).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "device/cuda/emulate_host.h"

// NOLINTBEGIN(bugprone-reserved-identifier): these are CUDA's names
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static thread_local
#define __grid_constant__

namespace fovea {
inline constexpr bool kEmulated = true;
}

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned its_x = 1, unsigned its_y = 1, unsigned its_z = 1)  // NOLINT: implicit
      : x(its_x), y(its_y), z(its_z) {}
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct uint2 {
  unsigned x = 0, y = 0;
};
struct alignas(16) uint4 {
  unsigned x = 0, y = 0, z = 0, w = 0;
};
struct alignas(8) float2 {
  float x = 0, y = 0;
};
struct alignas(16) float4 {
  float x = 0, y = 0, z = 0, w = 0;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace fovea::emulate {

inline constexpr int kWarp = 32;

// Where the running thread stands.
struct Place {
  uint3 thread;
  uint3 block;
  dim3 block_dim;
  dim3 grid_dim;
};
Place& place();
unsigned char* shared_memory();

struct EmulatedGrid {
  dim3 grid;
  dim3 block;
  int cluster = 1;  // blocks that run together, along x
  size_t shared_bytes = 0;
};
void run(const EmulatedGrid& grid, const std::function<void()>& kernel);

void sync_block();
void sync_cluster();
int cluster_rank();                  // of the running block
unsigned char* shared_of(int rank);  // the dynamic shared memory of a block of this cluster
void sync_warp(unsigned mask);
int lane();  // of the running thread in its warp
// Counts the threads of the block for which `value` holds; all of them wait.
int count_in_block(bool value);
// What `lane` of this warp gave; all lanes of the mask call it together.
uint64_t exchange(unsigned mask, uint64_t value, int lane);
unsigned ballot(unsigned mask, bool value);
// What every lane of the warp gave, in `all`; all 32 lanes call it together.
void gather(const void* mine, size_t bytes, void* all);

// For tests: what the kernel before one that overlaps it writes. Called with false before a block
// or cluster begins, to take it back, and with true by each thread that waits for that kernel.
extern std::function<void(bool has_ended)> previous_kernel;

}  // namespace fovea::emulate

#define threadIdx (fovea::emulate::place().thread)
#define blockIdx (fovea::emulate::place().block)
#define blockDim (fovea::emulate::place().block_dim)
#define gridDim (fovea::emulate::place().grid_dim)
inline constexpr int warpSize = fovea::emulate::kWarp;

inline void __syncthreads() { fovea::emulate::sync_block(); }
inline int __syncthreads_count(int value) { return fovea::emulate::count_in_block(value != 0); }
inline int __syncthreads_or(int value) { return __syncthreads_count(value) > 0 ? 1 : 0; }
inline int __syncthreads_and(int value) { return __syncthreads_count(value == 0 ? 1 : 0) == 0; }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) { fovea::emulate::sync_warp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  static_assert(sizeof(T) <= 8);
  const int mine = fovea::emulate::lane();
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = fovea::emulate::exchange(mask, bits, (mine & ~(width - 1)) | (lane & (width - 1)));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32) {
  const int mine = fovea::emulate::lane();
  const int lane = mine ^ other;
  return __shfl_sync(mask, value, lane / width == mine / width ? lane : mine, 32);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int mine = fovea::emulate::lane();
  const int lane = mine + static_cast<int>(delta);
  return __shfl_sync(mask, value, lane / width == mine / width ? lane : mine, 32);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int mine = fovea::emulate::lane();
  const int lane = mine - static_cast<int>(delta);
  return __shfl_sync(mask, value, lane >= mine / width * width ? lane : mine, 32);
}
inline unsigned __ballot_sync(unsigned mask, int value) {
  return fovea::emulate::ballot(mask, value != 0);
}
inline int __any_sync(unsigned mask, int value) { return __ballot_sync(mask, value) != 0; }
inline int __all_sync(unsigned mask, int value) { return __ballot_sync(mask, !value) == 0; }
inline unsigned __activemask() { return 0xFFFFFFFF; }
// Over all 32 lanes.
template <class T, class Join>
T emulated_reduce(T value, Join join) {
  T all[fovea::emulate::kWarp];
  fovea::emulate::gather(&value, sizeof value, all);
  for (int i = 1; i < fovea::emulate::kWarp; ++i) all[0] = join(all[0], all[i]);
  return all[0];
}
template <class T>
T __reduce_add_sync(unsigned /*mask*/, T value) {
  return emulated_reduce(value, [](T a, T b) { return a + b; });
}
template <class T>
T __reduce_max_sync(unsigned /*mask*/, T value) {
  return emulated_reduce(value, [](T a, T b) { return std::max(a, b); });
}
template <class T>
T __reduce_min_sync(unsigned /*mask*/, T value) {
  return emulated_reduce(value, [](T a, T b) { return std::min(a, b); });
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __clzll(long long bits) {
  return std::countl_zero(static_cast<unsigned long long>(bits));
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
// The upper half of the product.
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  const uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
  const uint64_t middle = (a >> 32) * (b & 0xFFFFFFFF) + (low >> 32);
  const uint64_t other = (a & 0xFFFFFFFF) * (b >> 32) + (middle & 0xFFFFFFFF);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}
inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (bits >> i & 1) << (31 - i);
  return reversed;
}
// Picks bytes of y:x, lowest first: three bits of each digit of `order` say which.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned order) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned picked = 0;
  for (int i = 0; i < 4; ++i)
    picked |= static_cast<unsigned>(bytes >> 8 * (order >> 4 * i & 7) & 0xFF) << 8 * i;
  return picked;
}
inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (x >> i & 0xFF) * (y >> i & 0xFF);
  return sum;
}
inline unsigned __vabsdiffu4(unsigned x, unsigned y) {
  unsigned steps = 0;
  for (int i = 0; i < 32; i += 8)
    steps |= static_cast<unsigned>(
                 std::abs(static_cast<int>(x >> i & 0xFF) - static_cast<int>(y >> i & 0xFF)))
             << i;
  return steps;
}
inline unsigned __vsadu4(unsigned x, unsigned y) {
  return __dp4a(__vabsdiffu4(x, y), 0x01010101, 0);
}
inline unsigned __vmaxu2(unsigned x, unsigned y) {
  return std::max(x & 0xFFFF0000, y & 0xFFFF0000) | std::max(x & 0xFFFF, y & 0xFFFF);
}
inline unsigned __vminu2(unsigned x, unsigned y) {
  return std::min(x & 0xFFFF0000, y & 0xFFFF0000) | std::min(x & 0xFFFF, y & 0xFFFF);
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}

inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline unsigned long long __double2ull_rn(double value) {
  return static_cast<unsigned long long>(std::nearbyint(value));
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline int __float2int_rn(float value) { return static_cast<int>(std::nearbyint(value)); }

template <class T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}
template <class T>
T atomicSub(T* at, T value) {
  const T old = *at;
  *at = old - value;
  return old;
}
template <class T>
T atomicMax(T* at, T value) {
  const T old = *at;
  *at = std::max(old, value);
  return old;
}
template <class T>
T atomicMin(T* at, T value) {
  const T old = *at;
  *at = std::min(old, value);
  return old;
}
template <class T>
T atomicOr(T* at, T value) {
  const T old = *at;
  *at = old | value;
  return old;
}
template <class T>
T atomicAnd(T* at, T value) {
  const T old = *at;
  *at = old & value;
  return old;
}
template <class T>
T atomicExch(T* at, T value) {
  const T old = *at;
  *at = value;
  return old;
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
inline unsigned atomicInc(unsigned* at, unsigned last) {
  const unsigned old = *at;
  *at = old >= last ? 0 : old + 1;
  return old;
}
using std::max;
using std::min;
// NOLINTEND(bugprone-reserved-identifier)
