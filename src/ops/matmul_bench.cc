// SPDX-License-Identifier: Apache-2.0
// Times matmul at the sizes of Qwen3-VL-2B: many rows against the FMA peak, one row against the
// read bandwidth, eight rows against one, and the conversion of weights.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "ops/fma_peak.h"
#include "ops/matmul.h"

namespace fovea {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kInt8};

struct Shape {
  int64_t m, n, k;
};

// bf16 bits of values in [-1, 1], of every size.
std::vector<uint16_t> random_weights(int64_t count) {
  std::mt19937 random(1);
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& value : values) {
    const uint32_t bits = random();
    value = static_cast<uint16_t>((bits & 0x807F) | (0x3B80 + (bits >> 8 & 0x380)));
  }
  return values;
}

Matrix packed(Threads& threads, int64_t n, int64_t k, WeightFormat format,
              const std::vector<uint16_t>& values) {
  Matrix matrix(n, k, format);
  const WeightSource source{WeightSource::Type::kBf16, values.data()};
  threads.for_each(n, 64,
                   [&](int64_t begin, int64_t end) { matrix.pack_rows(source, begin, end); });
  return matrix;
}

std::vector<float> random_input(int64_t count) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

// Some of the outputs, against the sum in f64: relative to the size of a row of the products.
bool verified(const Shape& shape, const std::vector<float>& x, const Matrix& matrix,
              const std::vector<float>& y) {
  const double allowed = matrix.format() == WeightFormat::kInt8 ? 0.03 : 1e-5;
  std::mt19937 random(3);
  std::vector<float> row(static_cast<size_t>(shape.k));
  for (int sample = 0; sample < 200; ++sample) {
    const auto i = static_cast<int64_t>(random() % static_cast<uint64_t>(shape.m));
    const auto j = static_cast<int64_t>(random() % static_cast<uint64_t>(shape.n));
    matrix.row(j, row.data());
    double sum = 0;
    double squares = 0;
    for (int64_t c = 0; c < shape.k; ++c) {
      const double product = static_cast<double>(x[static_cast<size_t>(i * shape.k + c)]) *
                             row[static_cast<size_t>(c)];
      sum += product;
      squares += product * product;
    }
    const double got = y[static_cast<size_t>(i * shape.n + j)];
    if (!(std::abs(got - sum) <= allowed * std::sqrt(squares))) return false;
  }
  return true;
}

std::string row_name(WeightFormat format, const Shape& shape) {
  return fmt::format("matmul/{}/{}x{}x{}", weight_format_name(format), shape.m, shape.n, shape.k);
}

void many_rows(Bench& bench) {
  const std::vector<uint16_t> weights = random_weights(6144 * 2048);
  const double peak = 1e6 * fma_peak_gflops(bench.threads);  // operations per ms
  for (const Shape& shape : {Shape{32, 6144, 2048}, Shape{100, 6144, 2048}, Shape{272, 3072, 1024},
                             Shape{512, 2048, 2048}, Shape{512, 2048, 6144},
                             Shape{1056, 2048, 2048}, Shape{4096, 1024, 1024}}) {
    const std::vector<float> x = random_input(shape.m * shape.k);
    for (const WeightFormat format : kFormats) {
      const Matrix matrix = packed(bench.threads, shape.n, shape.k, format, weights);
      std::vector<float> y(static_cast<size_t>(shape.m * shape.n), NAN);
      const Product product{&matrix, nullptr, y.data()};
      const auto call = [&] { matmul(bench.threads, x.data(), shape.m, product); };
      call();
      const bool good = verified(shape, x, matrix, y);
      const double ms = Bench::median_ms(call);
      const double operations = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
      // Integers are not bound by this limit: more than 100 % is what they are for.
      bench.add(good, {row_name(format, shape), ms, "ms", operations / peak,
                       fmt::format("{:.0f} GFLOP/s, {:.0f} % of the FMA peak",
                                   operations / ms / 1e6, 100 * operations / ms / peak)});
    }
  }
}

// So many matrices that no cache holds them, one after the other.
class Rotation {
 public:
  Rotation(Threads& threads, const Shape& shape, WeightFormat format,
           const std::vector<uint16_t>& weights) {
    constexpr size_t kBytes = size_t{400} << 20;
    do matrices_.push_back(packed(threads, shape.n, shape.k, format, weights));
    while (matrices_.size() * matrices_[0].bytes() < kBytes);
  }
  Matrix& next() { return matrices_[++index_ % matrices_.size()]; }

 private:
  std::vector<Matrix> matrices_;
  size_t index_ = 0;
};

void few_rows(Bench& bench) {
  const std::vector<uint16_t> weights = random_weights(6144 * 2048);
  for (const Shape& shape : {Shape{1, 6144, 2048}, Shape{1, 2048, 6144}, Shape{4, 6144, 2048}}) {
    const std::vector<float> x = random_input(shape.m * shape.k);
    for (const WeightFormat format : kFormats) {
      Rotation rotation(bench.threads, shape, format, weights);
      std::vector<float> y(static_cast<size_t>(shape.m * shape.n), NAN);
      const auto call = [&] {
        matmul(bench.threads, x.data(), shape.m, {&rotation.next(), nullptr, y.data()});
      };
      call();
      const bool good = verified(shape, x, rotation.next(), y);
      const auto bytes = static_cast<double>(rotation.next().bytes());
      const double read_ms = bytes / bench.read_bytes_per_ms();
      const double ms = Bench::median_ms(call, 50);
      bench.add(good, {row_name(format, shape), ms, "ms", read_ms,
                       fmt::format("{:.1f} GB/s, {:.0f} % of reading", bytes / ms / 1e6,
                                   100 * read_ms / ms)});
    }
  }
}

double ms_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A decode step of several sequences: the weights are read once for all rows. Calls for one row and
// for eight alternate, so that a disturbance meets both.
void rows_together(Bench& bench) {
  constexpr int64_t kRows = 8;
  constexpr int kCalls = 60;
  const std::vector<uint16_t> weights = random_weights(6144 * 2048);
  for (const Shape& shape : {Shape{kRows, 6144, 2048}, Shape{kRows, 2048, 6144}}) {
    const std::vector<float> x = random_input(shape.m * shape.k);
    for (const WeightFormat format : kFormats) {
      Rotation rotation(bench.threads, shape, format, weights);
      std::vector<float> y(static_cast<size_t>(shape.m * shape.n), NAN);
      std::vector<float> alone(y.size(), NAN);
      for (int64_t i = 0; i < kRows; ++i)
        matmul(bench.threads, x.data() + i * shape.k, 1,
               {&rotation.next(), nullptr, alone.data() + i * shape.n});
      const auto call = [&](int64_t rows) {
        matmul(bench.threads, x.data(), rows, {&rotation.next(), nullptr, y.data()});
      };
      call(kRows);
      const bool good = y == alone && verified(shape, x, rotation.next(), y);
      std::vector<double> one;
      std::vector<double> all;
      for (int i = 0; i < kCalls; ++i) {
        one.push_back(ms_of([&] { call(1); }));
        all.push_back(ms_of([&] { call(kRows); }));
      }
      const double read_ms =
          static_cast<double>(rotation.next().bytes()) / bench.read_bytes_per_ms();
      bench.add(good, {row_name(format, shape) + "/together", median(all), "ms", read_ms,
                       fmt::format("{:.2f} times one row, {:.0f} % of reading",
                                   median(all) / median(one), 100 * read_ms / median(all))});
    }
  }
}

void conversion(Bench& bench) {
  const Shape shape{0, 32768, 2048};
  const std::vector<uint16_t> weights = random_weights(shape.n * shape.k);
  const double bytes = static_cast<double>(weights.size()) * sizeof(uint16_t);
  const double read_ms = bytes / bench.read_bytes_per_ms();
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kInt8}) {
    Matrix matrix = packed(bench.threads, shape.n, shape.k, format, weights);
    std::vector<float> row(static_cast<size_t>(shape.k));
    matrix.row(shape.n - 1, row.data());
    bool good = true;
    for (int64_t c = 0; c < shape.k; ++c) {
      const auto bits = weights[static_cast<size_t>((shape.n - 1) * shape.k + c)];
      const float exact = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      good &= std::abs(row[static_cast<size_t>(c)] - exact) <= 0.005;
    }
    const WeightSource source{WeightSource::Type::kBf16, weights.data()};
    const double ms = Bench::median_ms([&] {
      bench.threads.for_each(
          shape.n, 64, [&](int64_t begin, int64_t end) { matrix.pack_rows(source, begin, end); });
    });
    bench.add(good,
              {fmt::format("weights/bf16-to-{}", weight_format_name(format)), ms, "ms", read_ms,
               fmt::format("{:.1f} GB/s of source, {:.0f} % of reading it", bytes / ms / 1e6,
                           100 * read_ms / ms)});
  }
}

const BenchRegistration kMany("ops", "matmul-many-rows", many_rows);
const BenchRegistration kFew("ops", "matmul-one-row", few_rows);
const BenchRegistration kTogether("ops", "matmul-rows-together", rows_together);
const BenchRegistration kConversion("ops", "weights", conversion);

}  // namespace
}  // namespace fovea
