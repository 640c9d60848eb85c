// SPDX-License-Identifier: Apache-2.0
// Linear layers on a GPU: bf16 inputs and weights, sums in f32, and what follows a product done
// with it.
#pragma once

#include <memory>

#include "device/cuda/bf16.h"
#include "device/cuda/kernel_choice.h"
#include "device/cuda/stream.h"
#include "fovea/result.h"

namespace fovea {

// What becomes of s = sum + bias.
enum class MatmulFinish {
  kStore,         // bf16 y = s
  kStoreFloat,    // float y = s
  kAdd,           // float y += s: the residual stream
  kGeluTanh,      // bf16 y = gelu_tanh(s): the tower's blocks
  kGelu,          // bf16 y = gelu(s): the mergers
  kSiluMultiply,  // bf16 y[j] = silu(s[2j]) * s[2j + 1]: rows of gate and up interleaved
                  // (pack_gate_up)
};

// y[m][j] = finish(sum over c of x[m][c] * w[j][c] + bias[j]) for m < rows, j < n.
struct MatmulJob {
  const bf16* x = nullptr;           // [rows][k], aligned to 16 bytes
  int64_t x_stride = 0;              // values between rows, a multiple of 8; 0: k
  const bf16* w = nullptr;           // [n][k], aligned to 16 bytes
  const float* bias = nullptr;       // [n], or null
  const bf16* short_bias = nullptr;  // the same in bf16, where it is exact: what cuBLASLt can add
  void* y = nullptr;                 // [rows][n], or [rows][n / 2] of kSiluMultiply
  int64_t y_stride = 0;              // values between rows; 0: as many as a row has
  int rows = 0;
  int n = 0;
  int k = 0;  // a multiple of 8
  MatmulFinish finish = MatmulFinish::kStore;

  // Where given, x is its RMS norm; for jobs that Matmuls::takes_norm().
  const float* norm_x = nullptr;       // [rows][k], x_stride values apart, aligned to 16 bytes
  const float* norm_weight = nullptr;  // [k]
  float norm_eps = 0;
};

// Rows up to which weights are streamed past the inputs (matmul_few_cuda).
inline constexpr int kMaxFewRows = 16;
// Whether the kernel for few rows can take the job, with its norm where it has one.
bool is_few(const MatmulJob& job, KernelChoice choice);

class LtMatmuls;

// What products need besides their operands. One for each stream: its work memory is not shared.
class Matmuls {
 public:
  Matmuls();
  ~Matmuls();
  Matmuls(Matmuls&&) noexcept;
  Matmuls& operator=(Matmuls&&) noexcept;

  // `work_values`: the most rows * n that a kSiluMultiply of many rows will have.
  Status open(KernelChoice choice, int64_t work_values);

  // Enqueues. Can be captured once a job of the same shape has run. The weights must have been
  // written before the kernel that comes before this one in the stream: kernels read them while
  // that one still runs.
  void run(cudaStream_t stream, const MatmulJob& job);

  // Whether the job's x may be a norm: rows are few.
  bool takes_norm(const MatmulJob& job) const;

  KernelChoice choice() const { return choice_; }

 private:
  KernelChoice choice_ = KernelChoice::kPortable;
  int processors_ = 1;
  std::unique_ptr<LtMatmuls> lt_;
};

// The steps from a plain kernel to the one that is used, each with those before it, so that a bench
// can tell what each gains.
enum class GemmStep {
  kPlain,         // 16 x 16 values in shared memory, one output a thread
  kRegisters,     // 128 x 128 outputs a block, 8 x 8 a thread
  kPadded,        // rows of shared memory 4 floats further apart, so that stores meet fewer banks
  kWideLoads,     // 16 bytes a load
  kDoubleBuffer,  // the next part is loaded while this one is multiplied
  kShaped,        // the block's outputs by the shape of the problem
};
void matmul_portable_cuda(cudaStream_t stream, const MatmulJob& job,
                          GemmStep step = GemmStep::kShaped);

// For is_few() jobs; `processors`: multiprocessors of the device.
void matmul_few_cuda(cudaStream_t stream, const MatmulJob& job, int processors);

// w[2j] = gate[j], w[2j + 1] = up[j]; gate and up: [n][k].
void pack_gate_up_cuda(cudaStream_t stream, const bf16* gate, const bf16* up, int n, int k,
                       bf16* w);

}  // namespace fovea
