// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul_cuda.h"

#include <cmath>
#include <functional>
#include <random>

#include "device/cuda/test_device.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

constexpr MatmulFinish kFinishes[] = {MatmulFinish::kStore, MatmulFinish::kStoreFloat,
                                      MatmulFinish::kAdd,   MatmulFinish::kGeluTanh,
                                      MatmulFinish::kGelu,  MatmulFinish::kSiluMultiply};
constexpr int kProcessors = 3;  // few, so that a warp takes several rows

struct Shape {
  int rows, n, k;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.rows << " x " << shape.n << " x " << shape.k;
}

std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = to_bf16(values[i]);
  return result;
}

double finished(MatmulFinish finish, double sum, double next) {
  if (finish == MatmulFinish::kGeluTanh)
    return sum / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
  if (finish == MatmulFinish::kGelu) return sum / 2 * (1 + std::erf(sum / std::sqrt(2.0)));
  if (finish == MatmulFinish::kSiluMultiply) return sum / (1 + std::exp(-sum)) * next;
  return sum;
}

// A product with its operands on the device, and what must come out.
class CudaMatmul : public CudaTest {
 protected:
  struct Option {
    bool bias = true;
    bool short_bias = false;
    bool norm = false;
    int x_gap = 0;  // values between the rows
    int y_gap = 0;
  };

  using Run = std::function<void(const MatmulJob&)>;

  // Runs the job into y that is NaN (or has values to add to) and compares with sums in f64.
  // `between`: whether sums are rounded to bf16 before a bias or the activation.
  void check(const Shape& shape, MatmulFinish finish, const Option& option, const Run& run,
             double between = 0) {
    SCOPED_TRACE(testing::Message() << shape << " finish " << static_cast<int>(finish));
    const bool floats = finish == MatmulFinish::kStoreFloat || finish == MatmulFinish::kAdd;
    const bool pairs = finish == MatmulFinish::kSiluMultiply;
    const size_t x_stride = static_cast<size_t>(shape.k + option.x_gap);
    const int cols = pairs ? shape.n / 2 : shape.n;
    const size_t y_stride = static_cast<size_t>(cols + option.y_gap);
    const auto rows = static_cast<size_t>(shape.rows);
    const auto n = static_cast<size_t>(shape.n);
    const auto k = static_cast<size_t>(shape.k);
    const auto raw = random_values(rows * x_stride, random_, option.norm ? 3.0f : 1.0f);
    const auto weight = random_values(k, random_);
    const auto w = rounded(random_values(n * k, random_, 1 / std::sqrt(static_cast<float>(k))));
    std::vector<float> bias;
    for (const bf16 value : rounded(random_values(n, random_))) bias.push_back(to_float(value));
    const auto before = random_values(rows * y_stride, random_);

    const auto x_there = on_device(rounded(raw));
    const auto raw_there = on_device(raw);
    const auto weight_there = on_device(weight);
    const auto w_there = on_device(w);
    const auto bias_there = on_device(bias);
    const auto short_there = on_device(rounded(bias));
    auto y_float = floats ? on_device(before) : DeviceMemory<float>();
    if (finish == MatmulFinish::kStoreFloat) y_float = this->poisoned<float>(rows * y_stride);
    auto y_bf16 = this->poisoned<bf16>(rows * y_stride);
    MatmulJob job{.x = x_there.data(),
                  .x_stride = option.x_gap == 0 ? 0 : static_cast<int64_t>(x_stride),
                  .w = w_there.data(),
                  .bias = option.bias ? bias_there.data() : nullptr,
                  .short_bias = option.bias && option.short_bias ? short_there.data() : nullptr,
                  .y = floats ? static_cast<void*>(y_float.data()) : y_bf16.data(),
                  .y_stride = option.y_gap == 0 ? 0 : static_cast<int64_t>(y_stride),
                  .rows = shape.rows,
                  .n = shape.n,
                  .k = shape.k,
                  .finish = finish};
    if (option.norm) {
      job.x = nullptr;
      job.norm_x = raw_there.data();
      job.norm_weight = weight_there.data();
      job.norm_eps = 1e-6f;
    }
    run(job);

    std::vector<float> y(rows * y_stride);
    if (floats) y = on_host(y_float);
    if (!floats) {
      const auto values = on_host(y_bf16);
      for (size_t i = 0; i < y.size(); ++i) y[i] = to_float(values[i]);
    }
    int wrong = 0;
    for (size_t m = 0; m < rows && wrong == 0; ++m) {
      std::vector<double> x(k);
      double squares = 0;
      for (size_t c = 0; c < k; ++c) squares += std::pow(raw[m * x_stride + c], 2);
      const double factor = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-6);
      for (size_t c = 0; c < k; ++c) {
        const float value = raw[m * x_stride + c];
        x[c] = option.norm ? value * factor * weight[c] : to_float(to_bf16(value));
      }
      std::vector<double> sums(n);
      std::vector<double> sizes(n);  // the sums of what was added, without signs
      for (size_t j = 0; j < n; ++j) {
        sums[j] = option.bias ? bias[j] : 0;
        for (size_t c = 0; c < k; ++c) {
          const double part = x[c] * to_float(w[j * k + c]);
          sums[j] += part;
          sizes[j] += std::abs(part);
        }
      }
      for (size_t j = 0; j < y_stride && wrong == 0; ++j) {
        const float got = y[m * y_stride + j];
        if (j >= static_cast<size_t>(cols)) {  // between the rows: as it was
          if (floats && finish == MatmulFinish::kAdd)
            wrong += got == before[m * y_stride + j] ? 0 : 1;
          else
            wrong += std::isnan(got) ? 0 : 1;
        } else {
          const size_t at = pairs ? 2 * j : j;
          const double next = pairs ? sums[at + 1] : 1;
          double expected = finished(finish, sums[at], next);
          if (finish == MatmulFinish::kAdd) expected += before[m * y_stride + j];
          // f32 sums; x rounded to bf16 after a norm; y rounded to bf16.
          const double slope = 1.2 * std::abs(next);
          double allowed = (sizes[at] * slope + (pairs ? sizes[at + 1] * std::abs(sums[at]) : 0)) *
                           (option.norm ? 1.0 / 256 : 2e-6);
          const auto rounded = [&](size_t i) {
            return std::abs(sums[i]) + (option.bias ? std::abs(bias[i]) : 0.0f);
          };
          allowed += between / 256 *
                     (rounded(at) * slope + (pairs ? rounded(at + 1) * std::abs(sums[at]) : 0));
          allowed += std::abs(expected) * (floats ? 1e-6 : 1.0 / 256) + 1e-6;
          wrong += std::abs(got - expected) <= allowed ? 0 : 1;
          EXPECT_NEAR(got, expected, allowed) << "row " << m << ", column " << j;
        }
        EXPECT_EQ(wrong, 0) << "row " << m << ", column " << j << ": " << got;
      }
    }
  }

  std::mt19937 random_{7};
};

TEST_F(CudaMatmul, EveryStepOfThePortableKernelGivesTheSame) {
  for (const GemmStep step : {GemmStep::kPlain, GemmStep::kRegisters, GemmStep::kPadded,
                              GemmStep::kWideLoads, GemmStep::kDoubleBuffer, GemmStep::kShaped}) {
    SCOPED_TRACE(static_cast<int>(step));
    const Run run = [&](const MatmulJob& job) { matmul_portable_cuda(stream(), job, step); };
    check({5, 38, 40}, MatmulFinish::kSiluMultiply, {}, run);
    check({133, 139, 72}, MatmulFinish::kStore, {.x_gap = 8, .y_gap = 1}, run);
    check({33, 132, 8}, MatmulFinish::kAdd, {.bias = false, .y_gap = 4}, run);
  }
}

TEST_F(CudaMatmul, ThePortableKernelFitsEveryShape) {
  const Run run = [&](const MatmulJob& job) { matmul_portable_cuda(stream(), job); };
  for (const MatmulFinish finish : kFinishes) {
    check({1, 2, 8}, finish, {}, run);
    check({31, 66, 48}, finish, {.bias = false}, run);
    check({65, 64, 24}, finish, {.x_gap = 16, .y_gap = 3}, run);
  }
  check({300, 65, 136}, MatmulFinish::kStore, {}, run);
  check({129, 6200, 8}, MatmulFinish::kStoreFloat, {}, run);  // full of large blocks
}

TEST_F(CudaMatmul, FewRowsMeetEachWeightOnce) {
  const Run run = [&](const MatmulJob& job) { matmul_few_cuda(stream(), job, kProcessors); };
  for (const int rows : {1, 2, 3, 5, 8, 9, 16}) {
    for (const MatmulFinish finish : kFinishes) {
      check({rows, 70, 264}, finish, {.bias = rows % 2 == 1, .x_gap = 8, .y_gap = 1}, run);
    }
    check({rows, 1, 8}, MatmulFinish::kStoreFloat, {}, run);
    check({rows, 103, 40}, MatmulFinish::kStore, {}, run);
    check({rows, 2, 2048}, MatmulFinish::kSiluMultiply, {}, run);
    if (rows <= 8) check({rows, 131, 2056}, MatmulFinish::kAdd, {.y_gap = 5}, run);
  }
  check({1, 20, 6144}, MatmulFinish::kAdd, {}, run);
}

TEST_F(CudaMatmul, FewRowsNormTheirInput) {
  const Run run = [&](const MatmulJob& job) { matmul_few_cuda(stream(), job, kProcessors); };
  for (const int rows : {1, 2, 3, 4, 8, 13}) {
    check({rows, 34, 2048}, MatmulFinish::kSiluMultiply, {.norm = true}, run);
    check({rows, 61, 136}, MatmulFinish::kStore, {.norm = true, .x_gap = 8}, run);
  }
}

TEST_F(CudaMatmul, EveryChoiceOfKernelsMultiplies) {
  for (const KernelChoice choice : {KernelChoice::kPortable, KernelChoice::kBest}) {
    Matmuls matmuls;
    ASSERT_TRUE(matmuls.open(choice, int64_t{300} * 200));
    for (const MatmulFinish finish : kFinishes) {
      for (const int rows : {1, 12, 40}) {
        const bool between = matmuls.choice() == KernelChoice::kBest && rows > 4;
        const Run run = [&](const MatmulJob& job) { matmuls.run(stream(), job); };
        check({rows, 136, 64}, finish, {.short_bias = true}, run, between);
        check({rows, 136, 64}, finish, {.bias = false}, run, between);
        check({rows, 50, 200}, finish, {.x_gap = 8, .y_gap = 3}, run, between);
      }
    }
    // More than the work memory holds.
    check({310, 200, 16}, MatmulFinish::kSiluMultiply, {},
          [&](const MatmulJob& job) { matmuls.run(stream(), job); });
    // Too wide for the shared memory of the portable kernel for few rows.
    check(
        {16, 9, 3072}, MatmulFinish::kStore, {},
        [&](const MatmulJob& job) { matmuls.run(stream(), job); },
        matmuls.choice() == KernelChoice::kBest);
  }
}

TEST_F(CudaMatmul, NothingHappensWithoutRows) {
  Matmuls matmuls;
  ASSERT_TRUE(matmuls.open(KernelChoice::kPortable, 0));
  matmuls.run(stream(), {.rows = 0, .n = 8, .k = 8});
  matmul_portable_cuda(stream(), {.rows = 8, .n = 0, .k = 8});
  matmul_few_cuda(stream(), {.rows = 0, .n = 8, .k = 8}, 1);
  EXPECT_TRUE(stream_.wait());
}

TEST_F(CudaMatmul, GateAndUpAreInterleaved) {
  constexpr int kN = 5;
  constexpr int kK = 24;
  std::vector<bf16> gate(kN * kK);
  std::vector<bf16> up(kN * kK);
  for (size_t i = 0; i < gate.size(); ++i) {
    gate[i].bits = static_cast<uint16_t>(i);
    up[i].bits = static_cast<uint16_t>(1000 + i);
  }
  const auto gate_there = on_device(gate);
  const auto up_there = on_device(up);
  auto w = this->poisoned<bf16>(2 * gate.size());
  pack_gate_up_cuda(stream(), gate_there.data(), up_there.data(), kN, kK, w.data());
  const auto packed = on_host(w);
  for (size_t j = 0; j < kN; ++j) {
    for (size_t c = 0; c < kK; ++c) {
      EXPECT_EQ(packed[2 * j * kK + c].bits, gate[j * kK + c].bits);
      EXPECT_EQ(packed[(2 * j + 1) * kK + c].bits, up[j * kK + c].bits);
    }
  }
}

#if !defined(FOVEA_EMULATE)
TEST_F(CudaMatmul, GraphsReplayProducts) {
  Matmuls matmuls;
  ASSERT_TRUE(matmuls.open(KernelChoice::kBest, 1 << 20));
  for (const int rows : {1, 64}) {
    const Run run = [&](const MatmulJob& job) {
      MatmulJob scratch = job;  // so that what the first call loads is there before the capture
      auto y = this->poisoned<float>(static_cast<size_t>(job.rows) * static_cast<size_t>(job.n));
      scratch.y = y.data();
      matmuls.run(stream(), scratch);
      ASSERT_TRUE(stream_.wait());
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t ready = nullptr;
      ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
      matmuls.run(stream(), scratch);
      matmuls.run(stream(), job);
      ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
      ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(ready, stream()), cudaSuccess);
      ASSERT_TRUE(stream_.wait());
      cudaGraphExecDestroy(ready);
      cudaGraphDestroy(graph);
    };
    check({rows, 512, 1024}, MatmulFinish::kAdd, {}, run);
    check({rows, 512, 1024}, MatmulFinish::kSiluMultiply, {.bias = false}, run, rows > 8 ? 1 : 0);
  }
}
#endif

}  // namespace
}  // namespace fovea
