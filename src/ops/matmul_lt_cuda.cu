// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt, which sees matrices by columns: y^T [n][rows] = w [n][k] x^T [k][rows], w
// given as its transpose. Bias, tanh gelu and the addition to y are its own; what it cannot finish
// is finished by a kernel after it.
#include "ops/matmul_lt_cuda.h"

#include "base/check.h"

#if defined(FOVEA_EMULATE)

namespace fovea {

struct LtMatmuls::State {};
LtMatmuls::LtMatmuls() = default;
LtMatmuls::~LtMatmuls() = default;
Status LtMatmuls::open(int64_t /*work_values*/) { return failed("cuBLASLt is not emulated"); }
bool LtMatmuls::run(cudaStream_t /*stream*/, const MatmulJob& /*job*/) { return false; }

}  // namespace fovea

#else

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>

#include "ops/matmul_finish_cuda.h"

namespace fovea {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

constexpr int kFinishThreads = 128;
constexpr int kFinishFours = 4;  // of a thread, on their way at once

// The four values from `from` on; those beyond `count` are 0.
__device__ float4 four_of(const bf16* from, int64_t stride, int count) {
  if (stride % 4 == 0 && count >= 4) {
    const uint2 four = __ldcg(reinterpret_cast<const uint2*>(from));
    return make_float4(first_of(four.x), second_of(four.x), first_of(four.y), second_of(four.y));
  }
  float values[4] = {};
  for (int i = 0; i < 4 && i < count; ++i) values[i] = to_float(from[i]);
  return make_float4(values[0], values[1], values[2], values[3]);
}

// The job's finish of `from` [rows][n], which may be y.
__global__ void __launch_bounds__(kFinishThreads)
    finish_product(MatmulJob job, const bf16* from, int64_t stride) {
  let_next_start();
  wait_for_previous();
  const auto first = static_cast<int>(blockIdx.x * kFinishThreads * kFinishFours + threadIdx.x) * 4;
  const auto row = static_cast<int>(blockIdx.y);
  from += row * stride;
  float4 sums[kFinishFours];
#pragma unroll
  for (int i = 0; i < kFinishFours; ++i) {
    const int col = first + i * 4 * kFinishThreads;
    sums[i] = four_of(from + col, stride, job.n - col);
  }
#pragma unroll
  for (int i = 0; i < kFinishFours; ++i)
    finish_four(job, row, first + i * 4 * kFinishThreads, sums[i], writes_wide(job));
}

// What cuBLASLt does of a job, and what is left.
struct LtPart {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  bool floats = false;  // y is float, and so is the bias
  bool adds = false;
  bool to_work = false;
  bool left = false;       // something: finish_product does it,
  bool left_bias = false;  // and adds the bias
};

LtPart part_of(const MatmulJob& job) {
  LtPart part;
  part.floats = is_float(job.finish);
  part.adds = job.finish == MatmulFinish::kAdd;
  part.to_work = job.finish == MatmulFinish::kSiluMultiply;
  // Its bias has the type of its output.
  part.bias = part.floats ? static_cast<const void*>(job.bias) : job.short_bias;
  part.left_bias = job.bias != nullptr && part.bias == nullptr;
  part.left = part.left_bias || part.to_work || job.finish == MatmulFinish::kGelu;
  const bool gelu = job.finish == MatmulFinish::kGeluTanh && !part.left;
  if (part.bias != nullptr)
    part.epilogue = gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  else if (gelu)
    part.epilogue = CUBLASLT_EPILOGUE_GELU;
  return part;
}

uint32_t alignment_of(const void* data) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  return static_cast<uint32_t>(at == 0 ? 256 : std::min<uintptr_t>(256, at & ~(at - 1)));
}

// Where the product goes and how far its rows are apart.
struct LtTarget {
  void* data = nullptr;
  int64_t stride = 0;
};

// Coarser where rows are many: the best way changes less there.
int rounded_rows(int rows) {
  const int step = rows <= 256 ? 16 : rows <= 1024 ? 64 : rows <= 4096 ? 512 : 4096;
  return (rows + step - 1) / step * step;
}

using PlanKey = std::array<int64_t, 11>;

PlanKey key_of(const MatmulJob& job, const LtPart& part, const LtTarget& target) {
  return {job.rows,
          job.n,
          job.k,
          job.x_stride,
          target.stride,
          part.epilogue,
          part.floats * 2 + part.adds,
          alignment_of(job.x),
          alignment_of(job.w),
          alignment_of(target.data),
          alignment_of(part.bias)};
}

struct LtPlan {
  LtPlan() = default;
  LtPlan(const LtPlan&) = delete;
  LtPlan& operator=(const LtPlan&) = delete;
  ~LtPlan() {
    for (const cublasLtMatrixLayout_t layout : {w, x, y})
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (product != nullptr) cublasLtMatmulDescDestroy(product);
  }

  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t w = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;
  cublasLtMatmulHeuristicResult_t way = {};
  bool can = false;
};

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, T value) {
  cublasLtMatmulDescSetAttribute(product, what, &value, sizeof value);
}

void describe(const MatmulJob& job, const LtPart& part, const LtTarget& target, LtPlan& plan) {
  const cudaDataType_t out = part.floats ? CUDA_R_32F : CUDA_R_16BF;
  cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, part.epilogue);
  if (part.bias != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out);
  const auto k = static_cast<uint64_t>(job.k);
  const auto n = static_cast<uint64_t>(job.n);
  const auto rows = static_cast<uint64_t>(job.rows);
  cublasLtMatrixLayoutCreate(&plan.w, CUDA_R_16BF, k, n, job.k);
  cublasLtMatrixLayoutCreate(&plan.x, CUDA_R_16BF, k, rows, job.x_stride);
  cublasLtMatrixLayoutCreate(&plan.y, out, n, rows, target.stride);
}

void ask_for_way(cublasLtHandle_t handle, const MatmulJob& job, const LtPart& part,
                 const LtTarget& target, LtPlan& plan) {
  cublasLtMatmulPreference_t wish = nullptr;
  cublasLtMatmulPreferenceCreate(&wish);
  const auto want = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    cublasLtMatmulPreferenceSetAttribute(wish, what, &value, sizeof value);
  };
  want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // Parts of k are added up in f32, not in the type of y.
  want(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
       static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(job.w));
  want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(job.x));
  want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(target.data));
  want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(target.data));
  if (part.bias != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, part.bias);
  int found = 0;
  const cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(
      handle, plan.product, plan.w, plan.x, plan.y, plan.y, wish, 1, &plan.way, &found);
  plan.can = asked == CUBLAS_STATUS_SUCCESS && found == 1;
  cublasLtMatmulPreferenceDestroy(wish);
}

void finish(cudaStream_t stream, MatmulJob job, const LtPart& part, const LtTarget& target) {
  if (!part.left_bias) job.bias = nullptr;  // it is in
  launch(finish_product,
         {.grid = {static_cast<unsigned>(ceil_div(job.n, 4 * kFinishFours * kFinishThreads)),
                   static_cast<unsigned>(job.rows)},
          .block = kFinishThreads,
          .stream = stream,
          .overlaps = true},
         job, static_cast<const bf16*>(target.data), target.stride);
}

}  // namespace

struct LtMatmuls::State {
  ~State() {
    plans.clear();
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  LtTarget target_of(const MatmulJob& job, const LtPart& part) {
    if (part.to_work) return {work.data(), job.n};
    return {job.y, job.y_stride};
  }
  bool fits(const MatmulJob& job, const LtPart& part) const {
    return !part.to_work ||
           static_cast<size_t>(job.rows) * static_cast<size_t>(job.n) <= work.size();
  }
  // Products of about as many rows are computed in one way: asking for another, and loading its
  // kernel, takes milliseconds, which a prompt of a new length would wait for.
  LtPlan& plan_for(const MatmulJob& job, const LtPart& part, const LtTarget& target) {
    LtPlan& plan = plans[key_of(job, part, target)];
    if (plan.product != nullptr) return plan;
    describe(job, part, target, plan);
    MatmulJob rounded = job;
    rounded.rows = rounded_rows(job.rows);
    if (rounded.rows != job.rows) {
      const LtPlan& like = plan_for(rounded, part, target);
      plan.can = like.can && takes_way(plan, like);
    }
    if (!plan.can) ask_for_way(handle, job, part, target, plan);
    return plan;
  }
  // Whether another plan's way does for this one, which then has it.
  bool takes_way(LtPlan& plan, const LtPlan& like) {
    plan.way = like.way;
    cublasLtMatmulHeuristicResult_t checked = {};
    return cublasLtMatmulAlgoCheck(handle, plan.product, plan.w, plan.x, plan.y, plan.y,
                                   &plan.way.algo, &checked) == CUBLAS_STATUS_SUCCESS &&
           checked.workspaceSize <= kWorkspaceBytes;
  }
  cublasStatus_t multiply(cudaStream_t stream, const MatmulJob& job, const LtPart& part,
                          const LtTarget& target, const LtPlan& plan) {
    if (part.bias != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, part.bias);
    const float alpha = 1;
    const float beta = part.adds ? 1 : 0;
    return cublasLtMatmul(handle, plan.product, &alpha, job.w, plan.w, job.x, plan.x, &beta,
                          target.data, plan.y, target.data, plan.y, &plan.way.algo,
                          workspace.data(), workspace.bytes(), stream);
  }

  cublasLtHandle_t handle = nullptr;
  DeviceMemory<char> workspace;
  DeviceMemory<bf16> work;
  std::map<PlanKey, LtPlan> plans;
};

LtMatmuls::LtMatmuls() : state_(std::make_unique<State>()) {}
LtMatmuls::~LtMatmuls() = default;

Status LtMatmuls::open(int64_t work_values) {
  const cublasStatus_t status = cublasLtCreate(&state_->handle);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return no_memory("cuBLASLt");
  if (status != CUBLAS_STATUS_SUCCESS)
    return failed(std::string("cuBLASLt: ") + cublasLtGetStatusString(status));
  if (Status done = state_->workspace.allocate(kWorkspaceBytes); !done) return done;
  return state_->work.zeros_at_least(static_cast<size_t>(work_values));
}

bool LtMatmuls::run(cudaStream_t stream, const MatmulJob& job) {
  const LtPart part = part_of(job);
  if (!state_->fits(job, part)) return false;
  const LtTarget target = state_->target_of(job, part);
  const LtPlan& plan = state_->plan_for(job, part, target);
  if (!plan.can || state_->multiply(stream, job, part, target, plan) != CUBLAS_STATUS_SUCCESS)
    return false;
  if (part.left) finish(stream, job, part, target);
  return true;
}

}  // namespace fovea

#endif
