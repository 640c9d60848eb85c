// SPDX-License-Identifier: Apache-2.0
// The weights of a linear layer in a GPU's memory.
#pragma once

#include <span>

#include "base/buffer.h"
#include "device/cuda/weight_uploads.h"
#include "ops/matmul_cuda.h"
#include "ops/matrix.h"

namespace fovea {

// y = x W^T + b, W as bf16.
struct DeviceLinear {
  DeviceMemory<bf16> weight;  // [n][k]
  DeviceMemory<float> bias;   // [n], or empty
  DeviceMemory<bf16> short_bias;
  int n = 0;
  int k = 0;

  size_t bytes() const { return weight.bytes() + bias.bytes() + short_bias.bytes(); }
  // A product with these weights; the caller says what becomes of it.
  MatmulJob times(const bf16* x, int rows, MatmulFinish finish, void* y) const {
    MatmulJob job;
    job.x = x;
    job.w = weight.data();
    job.bias = bias.data();
    job.short_bias = short_bias.data();
    job.y = y;
    job.rows = rows;
    job.n = n;
    job.k = k;
    job.finish = finish;
    return job;
  }
};

// Weights on their way: memory for them is taken, and they are there when `uploads` has finished.
// Matrices stay where they are until then; all else may go at once.
Status upload_values(WeightUploads& uploads, const Buffer<float>& values,
                     DeviceMemory<float>& memory);

// The rows of several bf16 matrices, one after the other; biases may be empty, all or none.
struct LinearPart {
  const Matrix* weight = nullptr;
  const Buffer<float>* bias = nullptr;
};
Status upload_linear(WeightUploads& uploads, std::span<const LinearPart> parts,
                     DeviceLinear& linear);
// Weights that are not a matrix of the model's: [n][weights / n], rounded to bf16.
Status upload_linear(WeightUploads& uploads, std::span<const float> weights, int n,
                     const Buffer<float>& bias, DeviceLinear& linear);
// The rows of two matrices interleaved, for MatmulFinish::kSiluMultiply.
Status upload_gate_up(WeightUploads& uploads, const Matrix& gate, const Matrix& up,
                      DeviceLinear& linear);

}  // namespace fovea
