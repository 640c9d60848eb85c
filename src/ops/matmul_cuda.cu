// SPDX-License-Identifier: Apache-2.0
// Which kernel takes a product.
#include "ops/matmul_cuda.h"

#include "base/check.h"
#include "ops/matmul_finish_cuda.h"
#include "ops/matmul_lt_cuda.h"

namespace fovea {
namespace {

constexpr int kFirstTensorCores = 8;  // the major compute capability with bf16 in its tensor cores

// Above this many rows cuBLASLt's tensor cores win over reading each weight once in f32.
constexpr int kBestFewRows = 4;

__global__ void pack_rows(const uint4* gate, const uint4* up, int64_t count, int chunks, uint4* w) {
  wait_for_previous();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += step) {
    const int64_t row = at / chunks;
    const int64_t to = at + row * chunks;
    w[to] = gate[at];
    w[to + chunks] = up[at];
  }
}

}  // namespace

Matmuls::Matmuls() = default;
Matmuls::~Matmuls() = default;
Matmuls::Matmuls(Matmuls&&) noexcept = default;
Matmuls& Matmuls::operator=(Matmuls&&) noexcept = default;

Status Matmuls::open(KernelChoice choice, int64_t work_values) {
  int device = 0;
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return cuda_error("the properties of the device", error);
  processors_ = properties.multiProcessorCount;
  choice_ = properties.major >= kFirstTensorCores ? choice : KernelChoice::kPortable;
  if (choice_ == KernelChoice::kPortable) return Done{};
  lt_ = std::make_unique<LtMatmuls>();
  return lt_->open(work_values);
}

bool Matmuls::takes_norm(const MatmulJob& job) const {
  return job.rows <= (lt_ != nullptr ? kBestFewRows : kMaxFewRows) && is_few(job, choice_);
}

void Matmuls::run(cudaStream_t stream, const MatmulJob& given) {
  const MatmulJob job = with_strides(given);
  FOVEA_CHECK(job.finish != MatmulFinish::kSiluMultiply || job.n % 2 == 0);
  if (job.rows == 0 || job.n == 0) return;
  if (takes_norm(job)) return matmul_few_cuda(stream, job, processors_);
  if (lt_ != nullptr && lt_->run(stream, job)) return;
  matmul_portable_cuda(stream, job);
}

void pack_gate_up_cuda(cudaStream_t stream, const bf16* gate, const bf16* up, int n, int k,
                       bf16* w) {
  FOVEA_CHECK(k % 8 == 0);
  constexpr int kThreads = 256;
  const int64_t count = int64_t{n} * (k / 8);
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(min(ceil_div(count, int64_t{kThreads}), int64_t{4096}));
  launch(pack_rows, {.grid = blocks, .block = kThreads, .stream = stream},
         reinterpret_cast<const uint4*>(gate), reinterpret_cast<const uint4*>(up), count, k / 8,
         reinterpret_cast<uint4*>(w));
}

}  // namespace fovea
