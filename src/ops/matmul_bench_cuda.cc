// SPDX-License-Identifier: Apache-2.0
// Products of the shapes of Qwen3-VL-2B against the device's memory and its fastest product; and
// the steps of the portable kernel.
#include <algorithm>
#include <cmath>

#include "device/cuda/gpu_bench.h"
#include "ops/matmul_cuda.h"

namespace fovea {
namespace {

constexpr uint32_t kSeedX = 1;
constexpr uint32_t kSeedW = 2;
constexpr float kScale = 0.125f;

struct ProductShape {
  const char* what;  // for the note
  int rows;
  int n;
  int k;
  MatmulFinish finish;
};

constexpr ProductShape kDecode[] = {
    {"decode, qkv", 1, 4096, 2048, MatmulFinish::kStore},
    {"decode, o", 1, 2048, 2048, MatmulFinish::kAdd},
    {"decode, gate and up", 1, 12288, 2048, MatmulFinish::kSiluMultiply},
    {"decode, down", 1, 2048, 6144, MatmulFinish::kAdd},
    {"decode, head", 1, 151936, 2048, MatmulFinish::kStoreFloat},
};
constexpr ProductShape kTower[] = {
    {"tower, patches", 0, 1024, 1536, MatmulFinish::kStoreFloat},
    {"tower, qkv", 0, 3072, 1024, MatmulFinish::kStore},
    {"tower, proj", 0, 1024, 1024, MatmulFinish::kAdd},
    {"tower, fc1", 0, 4096, 1024, MatmulFinish::kGeluTanh},
    {"tower, fc2", 0, 1024, 4096, MatmulFinish::kAdd},
};
constexpr ProductShape kText[] = {
    {"prefill, qkv", 0, 4096, 2048, MatmulFinish::kStore},
    {"prefill, o", 0, 2048, 2048, MatmulFinish::kAdd},
    {"prefill, gate and up", 0, 12288, 2048, MatmulFinish::kSiluMultiply},
    {"prefill, down", 0, 2048, 6144, MatmulFinish::kAdd},
};

// Emulated, the same finish at a size that takes no time.
ProductShape sized(ProductShape shape, int rows) {
  if (rows > 0) shape.rows = rows;
  if (kEmulated) {
    shape.rows = std::min(shape.rows, 20);
    shape.n = std::min(shape.n, 64) + shape.n / 1024 % 5 * 8;
    shape.k = std::min(shape.k, 64);
  }
  return shape;
}

double finished(MatmulFinish finish, double sum, double next) {
  switch (finish) {
    case MatmulFinish::kGeluTanh:
      return 0.5 * sum *
             (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (sum + 0.044715 * sum * sum * sum)));
    case MatmulFinish::kSiluMultiply:
      return sum / (1 + std::exp(-sum)) * next;
    default:
      return sum;
  }
}

// A product with its operands, in as many sets of weights as it takes to fill the second cache
// several times.
class ProductBench {
 public:
  ProductBench(CudaBench& bench, const ProductShape& shape) : bench_(bench), shape_(shape) {}

  bool make() {
    constexpr size_t kWanted = size_t{256} << 20;
    const size_t values = weights();
    sets_ = kEmulated ? 1 : static_cast<int>(std::clamp<size_t>(kWanted / (values * 2) + 1, 1, 16));
    const auto rows = static_cast<size_t>(shape_.rows);
    if (!bench_.make(x_, rows * static_cast<size_t>(shape_.k)) ||
        !bench_.make(w_, values * static_cast<size_t>(sets_)) ||
        !bench_.make(y_, rows * static_cast<size_t>(shape_.n)))
      return false;
    fill_random_cuda(bench_.get(), x_.data(), static_cast<int64_t>(x_.size()), kSeedX, 1);
    for (int set = 0; set < sets_; ++set)
      fill_random_cuda(bench_.get(), w_.data() + static_cast<size_t>(set) * values,
                       static_cast<int64_t>(values), kSeedW, kScale);
    cudaMemsetAsync(y_.data(), 0, y_.bytes(), bench_.get());
    return bench_.check(bench_.stream().wait());
  }
  int sets() const { return sets_; }
  MatmulJob job(int call) {
    MatmulJob job;
    job.x = x_.data();
    job.w = w_.data() + static_cast<size_t>(call % sets_) * weights();
    job.y = y_.data();
    job.rows = shape_.rows;
    job.n = shape_.n;
    job.k = shape_.k;
    job.finish = shape_.finish;
    return job;
  }

  // Some outputs against sums of doubles. y was zero, which kAdd adds to.
  template <class Multiply>
  bool verify(const Multiply& multiply) {
    cudaMemsetAsync(y_.data(), shape_.finish == MatmulFinish::kAdd ? 0 : 0xFF, y_.bytes(),
                    bench_.get());
    multiply(job(0));
    const bool paired = shape_.finish == MatmulFinish::kSiluMultiply;
    const bool floats =
        shape_.finish == MatmulFinish::kAdd || shape_.finish == MatmulFinish::kStoreFloat;
    const int cols = paired ? shape_.n / 2 : shape_.n;
    const auto count = static_cast<size_t>(shape_.rows) * static_cast<size_t>(cols);
    const auto shorts = floats ? std::vector<bf16>()
                               : bench_.on_host(reinterpret_cast<const bf16*>(y_.data()), count);
    const auto wide = floats ? bench_.on_host(y_.data(), count) : std::vector<float>();
    for (int i = 0; i < 64; ++i) {
      const int row = i * 37 % shape_.rows;
      const int col = static_cast<int>(int64_t{i} * 7919 % cols);
      const auto at =
          static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(col);
      const double got = floats ? wide[at] : to_float(shorts[at]);
      const double expected =
          paired ? finished(shape_.finish, sum(row, 2 * col), sum(row, 2 * col + 1))
                 : finished(shape_.finish, sum(row, col), 0);
      // A bf16 has 8 bits; f32 sums of so many values differ in their last bits.
      if (!(std::abs(got - expected) <= 0.02 + 0.01 * std::abs(expected))) return false;
    }
    return true;
  }

  double flop() const { return 2.0 * shape_.rows * shape_.n * shape_.k; }
  double bytes() const {
    return 2.0 * (static_cast<double>(weights()) + static_cast<double>(shape_.rows) * shape_.k);
  }

 private:
  size_t weights() const { return static_cast<size_t>(shape_.n) * static_cast<size_t>(shape_.k); }
  double sum(int row, int col) const {
    double result = 0;
    for (int c = 0; c < shape_.k; ++c)
      result += double{random_value(kSeedX, int64_t{row} * shape_.k + c, 1)} *
                random_value(kSeedW, int64_t{col} * shape_.k + c, kScale);
    return result;
  }

  CudaBench& bench_;
  ProductShape shape_;
  int sets_ = 1;
  DeviceMemory<bf16> x_;
  DeviceMemory<bf16> w_;
  DeviceMemory<float> y_;
};

bool open_products(CudaBench& bench, Matmuls& matmuls) {
  constexpr int64_t kWorkValues = kEmulated ? 1 << 14 : int64_t{1056} * 12288;
  return bench.check(matmuls.open(bench.device().kernels(), kWorkValues));
}

void time_product(CudaBench& bench, Matmuls& matmuls, const ProductShape& given, int rows) {
  const ProductShape shape = sized(given, rows);
  const std::string name =
      text_of("matmul/%dx%dx%d", rows > 0 ? rows : given.rows, given.n, given.k);
  bench.report().progress(name);
  ProductBench product(bench, shape);
  if (!product.make()) return bench.settle(name);
  const auto run = [&](int call) { matmuls.run(bench.get(), product.job(call)); };
  const bool verified =
      product.verify([&](const MatmulJob& job) { matmuls.run(bench.get(), job); });
  const double ms = bench.ms_of(product.sets(), run);
  const auto by_memory = limit_of(product.bytes(), bench.ceilings.read_bytes_per_ms);
  const auto by_product = limit_of(product.flop(), bench.ceilings.product_flop_per_ms);
  const auto limit = by_memory && by_product ? std::max(by_memory, by_product) : by_memory;
  bench.add(verified, {name, ms, "ms", limit,
                       text_of("%s; %.0f GB/s, %.1f TFLOP/s", given.what,
                               product.bytes() / ms / 1e6, product.flop() / ms / 1e9)});
}

void run_products(CudaBench& bench) {
  Matmuls matmuls;
  if (!open_products(bench, matmuls)) return;
  for (const ProductShape& shape : kDecode) time_product(bench, matmuls, shape, 0);
  for (const int rows : {4096, 272})
    for (const ProductShape& shape : kTower) time_product(bench, matmuls, shape, rows);
  for (const int rows : {1056, 100})
    for (const ProductShape& shape : kText) time_product(bench, matmuls, shape, rows);
}

void run_ceiling(CudaBench& bench) {
  Matmuls matmuls;
  const int side = kEmulated ? 64 : 8192;
  ProductBench product(bench, {"", side, side, side, MatmulFinish::kStore});
  if (!open_products(bench, matmuls) || !product.make()) return;
  const auto run = [&](const MatmulJob& job) { matmuls.run(bench.get(), job); };
  const bool verified = product.verify(run);
  const double ms = bench.ms_of(product.sets(), [&](int call) { run(product.job(call)); });
  if (bench.good()) bench.ceilings.product_flop_per_ms = product.flop() / ms;
  bench.add(verified, {"ceiling/gemm",
                       product.flop() / ms / 1e9,
                       "TFLOP/s",
                       {},
                       text_of("bf16, %d x %d x %d%s", side, side, side,
                               matmuls.choice() == KernelChoice::kPortable ? ", portable" : "")});
}

void run_steps(CudaBench& bench) {
  const std::pair<GemmStep, const char*> steps[] = {
      {GemmStep::kPlain, "plain"},
      {GemmStep::kRegisters, "registers"},
      {GemmStep::kPadded, "padded"},
      {GemmStep::kWideLoads, "wide-loads"},
      {GemmStep::kDoubleBuffer, "double-buffer"},
      {GemmStep::kShaped, "shaped"},
  };
  const ProductShape shape = kEmulated ? ProductShape{"", 40, 48, 64, MatmulFinish::kStore}
                                       : ProductShape{"", 1024, 1024, 4096, MatmulFinish::kStore};
  ProductBench product(bench, shape);
  if (!product.make()) return;
  double before_ms = 0;
  for (const auto& [step, name] : steps) {
    const auto multiply = [&, which = step](const MatmulJob& job) {
      matmul_portable_cuda(bench.get(), job, which);
    };
    const bool verified = product.verify(multiply);
    const double ms = bench.ms_of(product.sets(), [&](int call) { multiply(product.job(call)); });
    const std::string gain = before_ms > 0
                                 ? text_of("%+.0f %% over the step before (claimed 15 to 40 %%); ",
                                           100 * (before_ms / ms - 1))
                                 : "";
    bench.add(verified, {std::string("gemm-steps/") + name,
                         ms,
                         "ms",
                         {},
                         gain + text_of("%.1f TFLOP/s", product.flop() / ms / 1e9)});
    before_ms = ms;
  }
}

const CudaBenchRegistration kCeiling(kCeilingPhase, "gemm", run_ceiling);
const CudaBenchRegistration kProducts(kKernelPhase, "matmul", run_products);
const CudaBenchRegistration kSteps(kKernelPhase, "gemm-steps", run_steps);

}  // namespace
}  // namespace fovea
