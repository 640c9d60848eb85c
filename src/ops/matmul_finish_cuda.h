// SPDX-License-Identifier: Apache-2.0
// What the kernels of matmul_cuda.h do with a sum.
#pragma once

#include "device/cuda/kernel.h"
#include "ops/matmul_cuda.h"

namespace fovea {

// The functions of activation.h.
__device__ inline float gelu_tanh_of(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}
__device__ inline float gelu_of(float x) { return 0.5f * x * (1.0f + erff(x * 0.7071067812f)); }
__device__ inline float silu_of(float x) { return x / (1.0f + __expf(-x)); }

__device__ inline float activate(MatmulFinish finish, float sum) {
  if (finish == MatmulFinish::kGeluTanh) return gelu_tanh_of(sum);
  if (finish == MatmulFinish::kGelu) return gelu_of(sum);
  return sum;
}

__host__ __device__ inline bool is_float(MatmulFinish finish) {
  return finish == MatmulFinish::kStoreFloat || finish == MatmulFinish::kAdd;
}

// Whether four values of a row of y (two of kSiluMultiply) can be written at once.
__device__ inline bool writes_wide(const MatmulJob& job) {
  const int64_t bytes = is_float(job.finish) ? 4 : 2;
  const int64_t values = job.finish == MatmulFinish::kSiluMultiply ? 2 : 4;
  const auto at = static_cast<int64_t>(reinterpret_cast<uintptr_t>(job.y));
  return (at | job.y_stride * bytes) % (values * bytes) == 0;
}

__device__ inline void finish_floats(const MatmulJob& job, int64_t at, int count, bool wide,
                                     float4 sum) {
  auto* y = static_cast<float*>(job.y) + at;
  if (wide) {
    auto* four = reinterpret_cast<float4*>(y);
    if (job.finish == MatmulFinish::kAdd) {
      const float4 old = *four;
      sum = make_float4(sum.x + old.x, sum.y + old.y, sum.z + old.z, sum.w + old.w);
    }
    *four = sum;
    return;
  }
  const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
  for (int i = 0; i < count; ++i)
    y[i] = job.finish == MatmulFinish::kAdd ? y[i] + sums[i] : sums[i];
}

// The sums of columns col .. col + 3 of a row, those below n. `wide`: writes_wide().
__device__ inline void finish_four(const MatmulJob& job, int row, int col, float4 sum, bool wide) {
  const int count = min(4, job.n - col);
  if (count <= 0) return;
  float sums[4] = {sum.x, sum.y, sum.z, sum.w};
  if (job.bias != nullptr)
    for (int i = 0; i < count; ++i) sums[i] += job.bias[col + i];
  wide = wide && count == 4;
  const int64_t at = row * job.y_stride + col;
  if (is_float(job.finish)) {
    finish_floats(job, at, count, wide, make_float4(sums[0], sums[1], sums[2], sums[3]));
    return;
  }
  auto* y = static_cast<bf16*>(job.y);
  if (job.finish == MatmulFinish::kSiluMultiply) {
    y += row * job.y_stride + col / 2;
    const float first = silu_of(sums[0]) * sums[1];
    const float second = silu_of(sums[2]) * sums[3];
    if (wide) {
      *reinterpret_cast<bf16x2*>(y) = {to_pair(first, second)};
      return;
    }
    y[0] = to_bf16(first);
    if (count == 4) y[1] = to_bf16(second);
    return;
  }
  for (float& value : sums) value = activate(job.finish, value);
  if (wide) {
    *reinterpret_cast<uint2*>(y + at) =
        make_uint2(to_pair(sums[0], sums[1]), to_pair(sums[2], sums[3]));
    return;
  }
  for (int i = 0; i < count; ++i) y[at + i] = to_bf16(sums[i]);
}

// A job without zeros that stand for something.
inline MatmulJob with_strides(MatmulJob job) {
  if (job.x_stride == 0) job.x_stride = job.k;
  if (job.y_stride == 0)
    job.y_stride = job.finish == MatmulFinish::kSiluMultiply ? job.n / 2 : job.n;
  return job;
}

}  // namespace fovea
