// SPDX-License-Identifier: Apache-2.0
#include "ops/rows_cuda.h"

#include <cmath>
#include <random>

#include "device/cuda/test_device.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = to_bf16(values[i]);
  return result;
}
std::vector<float> widened(const std::vector<bf16>& values) {
  std::vector<float> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = to_float(values[i]);
  return result;
}
// A value rounded to bf16 after f32 arithmetic.
void expect_rounded(float got, float expected, size_t at) {
  EXPECT_NEAR(got, expected, std::abs(expected) / 256 + 1e-5f) << "at " << at;
}

class CudaRows : public CudaTest {
 protected:
  std::mt19937 random_{11};
};

TEST_F(CudaRows, NormsOfEveryWidth) {
  for (const int cols : {4, 100, 1024, 2048, 3000, 4096, 8192}) {
    SCOPED_TRACE(cols);
    constexpr int kRows = 3;
    const int stride = cols + 8;
    std::vector<float> x(static_cast<size_t>(kRows * stride), NAN);
    std::vector<float> dense;
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < cols; ++c) {
        const float value = random_values(1, random_, 2)[0] + 5 * static_cast<float>(r);
        x[static_cast<size_t>(r * stride + c)] = value;
        dense.push_back(value);
      }
    const auto weight = random_values(static_cast<size_t>(cols), random_);
    const auto bias = random_values(static_cast<size_t>(cols), random_);
    const auto x_there = on_device(x);
    const auto weight_there = on_device(weight);
    const auto bias_there = on_device(bias);
    std::vector<float> expected(dense.size());
    for (const bool centred : {true, false}) {
      auto y = this->poisoned<bf16>(static_cast<size_t>(kRows * (cols + 4)));
      const NormJob job{.x = x_there.data(),
                        .x_stride = stride,
                        .rows = kRows,
                        .cols = cols,
                        .weight = weight_there.data(),
                        .bias = bias_there.data(),
                        .eps = 1e-6f,
                        .y = y.data(),
                        .y_stride = cols + 4};
      if (centred) {
        layer_norm_cuda(stream(), job);
        layer_norm_reference(dense.data(), kRows, cols, weight.data(), bias.data(), 1e-6f,
                             expected.data());
      } else {
        rms_norm_cuda(stream(), job);
        rms_norm_reference(dense.data(), cols, kRows, 1, cols, weight.data(), 1e-6f,
                           expected.data(), cols);
      }
      const auto got = widened(on_host(y));
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t c = 0; c < static_cast<size_t>(cols); ++c)
          expect_rounded(got[r * static_cast<size_t>(cols + 4) + c],
                         expected[r * static_cast<size_t>(cols) + c], c);
        EXPECT_TRUE(std::isnan(got[r * static_cast<size_t>(cols + 4) + static_cast<size_t>(cols)]));
      }
    }
  }
}

TEST_F(CudaRows, TokensComeFromTheTableAndFromFeatures) {
  for (const int cols : {4, 132, 2048}) {
    const auto width = static_cast<size_t>(cols);
    const auto table = rounded(random_values(10 * width, random_));
    const auto features = random_values(4 * width, random_);
    const auto shorts = rounded(features);
    const std::vector<int> ids = {3, ~0, 9, ~3, ~2, 0};
    const auto table_there = on_device(table);
    const auto floats_there = on_device(features);
    const auto shorts_there = on_device(shorts);
    const auto ids_there = on_device(ids);
    for (const bool floats : {true, false}) {
      auto residual = this->poisoned<float>(ids.size() * width);
      const RunRows run{ids_there.data(), static_cast<int>(ids.size()), cols, residual.data()};
      const FeatureRows given{floats ? floats_there.data() : nullptr,
                              floats ? nullptr : shorts_there.data()};
      for (const float times : {1.0f, 2.0f}) {  // embedded, then added
        if (times == 1.0f)
          embed_rows_cuda(stream(), run, table_there.data(), given);
        else
          add_features_cuda(stream(), run, given);
        const auto got = on_host(residual);
        for (size_t r = 0; r < ids.size(); ++r)
          for (size_t c = 0; c < width; ++c) {
            const size_t of = static_cast<size_t>(ids[r] >= 0 ? ids[r] : ~ids[r]) * width + c;
            const float feature = floats ? features[of < features.size() ? of : 0]
                                         : to_float(shorts[of < shorts.size() ? of : 0]);
            EXPECT_EQ(got[r * width + c], ids[r] >= 0 ? to_float(table[of]) : times * feature);
          }
      }
    }
  }
}

struct Heads {
  int rows, heads, kv_heads, head_dim;
};

class CudaRotary : public CudaRows {
 protected:
  // Two sequences share the rows, alternately; each has a memory of its own.
  void check(const Heads& shape, bool norm, bool in_place) {
    SCOPED_TRACE(testing::Message() << shape.rows << " rows, " << shape.heads << " heads of "
                                    << shape.head_dim << (norm ? ", normed" : ""));
    const auto rows = static_cast<size_t>(shape.rows);
    const auto dim = static_cast<size_t>(shape.head_dim);
    const auto q_width = static_cast<size_t>(shape.heads) * dim;
    const auto kv_width = static_cast<size_t>(shape.kv_heads) * dim;
    const size_t width = q_width + 2 * kv_width;
    const auto qkv = rounded(random_values(rows * width, random_));
    const auto q_norm = random_values(dim, random_);
    const auto k_norm = random_values(dim, random_);
    const auto cos = random_values(rows * dim / 2, random_);
    const auto sin = random_values(rows * dim / 2, random_);
    auto qkv_there = on_device(qkv);
    const auto q_norm_there = on_device(q_norm);
    const auto k_norm_there = on_device(k_norm);
    const auto cos_there = on_device(cos);
    const auto sin_there = on_device(sin);
    auto q = this->poisoned<bf16>(rows * q_width);
    const int capacities[2] = {shape.rows + 3, shape.rows + 7};
    DeviceMemory<bf16> keys[2];
    DeviceMemory<bf16> values[2];
    for (size_t i = 0; i < 2; ++i) {
      keys[i] = this->poisoned<bf16>(static_cast<size_t>(capacities[i]) * kv_width);
      values[i] = this->poisoned<bf16>(static_cast<size_t>(capacities[i]) * kv_width);
    }
    std::vector<RowPlace> places;
    for (int r = 0; r < shape.rows; ++r) {
      const auto of = static_cast<size_t>(r % 2);
      places.push_back({keys[of].data(), values[of].data(), capacities[of], 2 + r / 2});
    }
    const auto places_there = on_device(places);
    rotate_heads_cuda(stream(), {.qkv = qkv_there.data(),
                                 .rows = shape.rows,
                                 .heads = shape.heads,
                                 .kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .q_norm = norm ? q_norm_there.data() : nullptr,
                                 .k_norm = norm ? k_norm_there.data() : nullptr,
                                 .eps = 1e-6f,
                                 .cos = cos_there.data(),
                                 .sin = sin_there.data(),
                                 .q = in_place ? qkv_there.data() : q.data(),
                                 .q_stride = in_place ? static_cast<int64_t>(width) : 0,
                                 .places = places_there.data()});

    auto expected = widened(qkv);
    const auto stride = static_cast<int64_t>(width);
    if (norm) {
      rms_norm_reference(expected.data(), stride, shape.rows, shape.heads, shape.head_dim,
                         q_norm.data(), 1e-6f, expected.data(), stride);
      rms_norm_reference(expected.data() + q_width, stride, shape.rows, shape.kv_heads,
                         shape.head_dim, k_norm.data(), 1e-6f, expected.data() + q_width, stride);
    }
    rotate_reference(expected.data(), stride, shape.rows, shape.heads + shape.kv_heads,
                     shape.head_dim, cos.data(), sin.data());
    const auto got_q = widened(on_host(in_place ? qkv_there : q));
    for (size_t of = 0; of < 2; ++of) {
      const auto got_keys = widened(on_host(keys[of]));
      const auto got_values = widened(on_host(values[of]));
      const auto capacity = static_cast<size_t>(capacities[of]);
      size_t written = 0;
      for (size_t r = of; r < rows; r += 2) {
        for (size_t i = 0; i < q_width; ++i)
          expect_rounded(got_q[r * (in_place ? width : q_width) + i], expected[r * width + i], i);
        for (size_t i = 0; i < kv_width; ++i) {
          const size_t at = (i / dim * capacity + 2 + r / 2) * dim + i % dim;
          expect_rounded(got_keys[at], expected[r * width + q_width + i], i);
          EXPECT_EQ(got_values[at], expected[r * width + q_width + kv_width + i]);
          ++written;
        }
      }
      size_t poison = 0;
      for (const float value : got_keys) poison += std::isnan(value) ? 1 : 0;
      EXPECT_EQ(poison, got_keys.size() - written) << "nothing else is written";
    }
  }
};

TEST_F(CudaRotary, QueriesKeysAndValuesFindTheirPlaces) {
  check({1, 16, 8, 128}, true, false);  // a step of the decoder
  check({5, 4, 4, 64}, false, false);   // the tower
  check({3, 2, 1, 72}, true, true);
  check({9, 3, 3, 8}, true, false);
  check({2, 2, 2, 256}, false, true);
  check({40, 2, 1, 40}, true, true);
}

TEST_F(CudaRows, NothingHappensWithoutRows) {
  layer_norm_cuda(stream(), {.rows = 0, .cols = 8});
  embed_rows_cuda(stream(), {.rows = 0, .cols = 8}, nullptr, {});
  rotate_heads_cuda(stream(), {.rows = 0, .heads = 1, .kv_heads = 1, .head_dim = 8});
  EXPECT_TRUE(stream_.wait());
}

}  // namespace
}  // namespace fovea
