// SPDX-License-Identifier: Apache-2.0
// Products of many rows by cuBLASLt. Part of matmul_cuda.h.
#pragma once

#include <memory>

#include "ops/matmul_cuda.h"

namespace fovea {

class LtMatmuls {
 public:
  LtMatmuls();
  ~LtMatmuls();
  LtMatmuls(const LtMatmuls&) = delete;
  LtMatmuls& operator=(const LtMatmuls&) = delete;

  Status open(int64_t work_values);
  // False where cuBLASLt has nothing for the job, or the job asks for more work memory than there
  // is; then nothing was enqueued. The job has its strides.
  bool run(cudaStream_t stream, const MatmulJob& job);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea
