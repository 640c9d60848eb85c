// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/eight/attention_eight_cuda.h"

#include "ops/attention/eight/attention_eight.h"
#include "ops/attention/eight/eight_bits.h"
#include "ops/attention/test_attention_cuda.h"
#include "ops/rope.h"

namespace fovea {
namespace {

constexpr int kDim = 128;

// N(0, 1), and one of a thousand values N(0, 100) on top.
std::vector<bf16> outlying(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<bf16> values(count);
  for (bf16& value : values)
    value = to_bf16(normal(random) + (random() % 1000 == 0 ? 10 * normal(random) : 0));
  return values;
}

struct Size {
  int queries;
  int keys;
};
struct Shape {
  int heads;
  int kv_heads;
  std::vector<Size> sequences;
  bool causal = false;
  bool spread = true;
  bool per_head = true;
};

class AttentionEightCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(workspace_.open(stream()));
  }

  // Rows as eight bits keep them, in f32, and the scales.
  struct Rounded {
    std::vector<uint8_t> bytes;
    std::vector<float> scales;
  };
  Rounded round(const std::vector<bf16>& values, int rows, int heads, bool rotates, bool spread,
                bool per_head) {
    const auto from = on_device(values);
    auto bytes = poisoned<uint8_t>(values.size());
    auto scales = poisoned<float>(static_cast<size_t>(heads));
    const auto cos = on_device(cos_);
    const auto sin = on_device(sin_);
    round_rows_cuda(stream(), {.from = from.data(),
                               .stride = heads * kDim,
                               .rows = rows,
                               .heads = heads,
                               .cos = rotates ? cos.data() : nullptr,
                               .sin = rotates ? sin.data() : nullptr,
                               .spread = spread,
                               .per_head = per_head,
                               .to = bytes.data(),
                               .to_rows = rows,
                               .to_begin = 0,
                               .scales = scales.data()});
    return {on_host(bytes), on_host(scales)};
  }

  // All sequences' tensors of a shape, rounded on the device.
  void make(const Shape& shape) {
    given_ = shape;
    shape_ = {.sequences = static_cast<int>(shape.sequences.size()),
              .heads = shape.heads,
              .kv_heads = shape.kv_heads,
              .head_dim = kDim,
              .scale = 1 / std::sqrt(static_cast<float>(kDim)),
              .causal = shape.causal};
    sequences_.clear();
    int q_rows = 0;
    int key_rows = 0;
    for (const Size& size : shape.sequences) {
      sequences_.push_back(
          {q_rows, size.queries, key_rows, size.keys, std::max(0, size.keys - size.queries)});
      q_rows += size.queries;
      key_rows += (size.keys + 15) / 16 * 16;
    }
    q_rows_ = q_rows;
    key_rows_ = key_rows;
    const auto width = static_cast<size_t>(shape.heads * kDim);
    const auto kv_width = static_cast<size_t>(shape.kv_heads * kDim);
    q_ = outlying(static_cast<size_t>(q_rows) * width, random_);
    keys_ = outlying(static_cast<size_t>(key_rows) * kv_width, random_);
    values_ = outlying(static_cast<size_t>(key_rows) * kv_width, random_);
    const auto q = on_device(q_);
    const auto keys = on_device(keys_);
    const auto values = on_device(values_);
    eight_q_ = on_device(std::vector<uint8_t>(q_.size()));
    eight_keys_ = on_device(std::vector<uint8_t>(keys_.size()));
    eight_values_ = on_device(std::vector<uint8_t>(values_.size()));
    const int each = shape.heads + 2 * shape.kv_heads;
    scales_ = poisoned<float>(sequences_.size() * static_cast<size_t>(each));
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const EightSequence& sequence = sequences_[i];
      float* scales = scales_.data() + i * static_cast<size_t>(each);
      EightRows rows{.from = q.data() + int64_t{sequence.q_begin} * shape.heads * kDim,
                     .stride = shape.heads * kDim,
                     .rows = sequence.q_count,
                     .heads = shape.heads,
                     .spread = shape.spread,
                     .per_head = shape.per_head,
                     .to = eight_q_.data(),
                     .to_rows = q_rows,
                     .to_begin = sequence.q_begin,
                     .scales = scales};
      round_rows_cuda(stream(), rows);
      rows.from = keys.data() + int64_t{sequence.first_key} * shape.kv_heads * kDim;
      rows.stride = shape.kv_heads * kDim;
      rows.rows = sequence.key_count;
      rows.heads = shape.kv_heads;
      rows.to = eight_keys_.data();
      rows.to_rows = key_rows;
      rows.to_begin = sequence.first_key;
      rows.scales = scales + shape.heads;
      round_rows_cuda(stream(), rows);
      rows.from = values.data() + int64_t{sequence.first_key} * shape.kv_heads * kDim;
      rows.spread = false;
      rows.to = eight_values_.data();
      rows.scales = scales + shape.heads + shape.kv_heads;
      round_values_cuda(stream(), rows);
    }
    ASSERT_TRUE(stream_.wait());
  }

  std::vector<float> run() {
    auto out = poisoned<bf16>(q_.size());
    const Status done = attention_eight_cuda(stream(), shape_, sequences_,
                                             {.q = eight_q_.data(),
                                              .keys = eight_keys_.data(),
                                              .values = eight_values_.data(),
                                              .scales = scales_.data(),
                                              .q_rows = q_rows_,
                                              .key_rows = key_rows_},
                                             out.data(), given_.heads * kDim, workspace_);
    EXPECT_TRUE(done) << done.error().message;
    return widened(on_host(out));
  }

  // By attend(q, stride, queries, keys, params, out, stride) of each sequence.
  template <class Attend>
  std::vector<float> by(const Attend& attend) const {
    std::vector<float> out(q_.size());
    const auto q = widened(q_);
    const auto keys = widened(keys_);
    const auto values = widened(values_);
    const int64_t width = int64_t{given_.heads} * kDim;
    const int64_t kv_width = int64_t{given_.kv_heads} * kDim;
    for (const EightSequence& sequence : sequences_) {
      PlainKeys kv(given_.kv_heads, kDim);
      const int64_t at = sequence.first_key * kv_width;
      kv.append(keys.data() + at, kv_width, values.data() + at, kv_width, sequence.key_count);
      const AttentionParams params{.heads = given_.heads,
                                   .scale = shape_.scale,
                                   .causal = given_.causal,
                                   .first_query = sequence.first_query};
      attend(q.data() + sequence.q_begin * width, width, sequence.q_count, kv.view(), params,
             out.data() + sequence.q_begin * width, width);
    }
    return out;
  }
  std::vector<float> exact() const {
    return by([](auto... args) { attention_reference(args...); });
  }
  static double rms(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    return std::sqrt(sum / static_cast<double>(a.size()));
  }

  std::mt19937 random_{29};
  Shape given_{};
  AttentionShape shape_;
  std::vector<EightSequence> sequences_;
  int64_t q_rows_ = 0;
  int64_t key_rows_ = 0;
  std::vector<bf16> q_;
  std::vector<bf16> keys_;
  std::vector<bf16> values_;
  std::vector<float> cos_;
  std::vector<float> sin_;
  DeviceMemory<uint8_t> eight_q_;
  DeviceMemory<uint8_t> eight_keys_;
  DeviceMemory<uint8_t> eight_values_;
  DeviceMemory<float> scales_;
  AttentionWorkspace workspace_;
};

TEST_F(AttentionEightCuda, RowsAreRotatedSpreadAndRounded) {
  for (const int rows : {1, 5, 37})
    for (const bool rotates : {false, true})
      for (const bool spread : {false, true})
        for (const bool per_head : {false, true}) {
          const int heads = 3;
          const auto values = outlying(static_cast<size_t>(rows * heads * kDim), random_);
          std::uniform_real_distribution<float> angle(-3, 3);
          cos_.clear();
          sin_.clear();
          for (int i = 0; i < rows * kDim / 2; ++i) {
            const float at = angle(random_);
            cos_.push_back(std::cos(at));
            sin_.push_back(std::sin(at));
          }
          const Rounded got = round(values, rows, heads, rotates, spread, per_head);
          auto wanted = widened(values);
          if (rotates)
            rotate_reference(wanted.data(), heads * kDim, rows, heads, kDim, cos_.data(),
                             sin_.data());
          round_to_eight(wanted.data(), heads * kDim, rows, heads, kDim, spread, per_head);
          int apart = 0;
          for (int row = 0; row < rows; ++row)
            for (int head = 0; head < heads; ++head)
              for (int i = 0; i < kDim; ++i) {
                const auto at = static_cast<size_t>((head * rows + row) * kDim + i);
                const float value = of_eight(got.bytes[at]) * got.scales[static_cast<size_t>(head)];
                const float want = wanted[static_cast<size_t>((row * heads + head) * kDim + i)];
                // Sums in another order may fall on the other side of the middle of two steps.
                ASSERT_NEAR(value, want, 0.13f * std::abs(want) + 0.01f)
                    << rows << " rows, row " << row << ", head " << head << ", value " << i;
                apart += std::abs(value - want) > 1e-4f * std::abs(want) + 1e-6f ? 1 : 0;
              }
          EXPECT_LE(apart, rows * heads * kDim / 200 + 1);
        }
}

TEST_F(AttentionEightCuda, ValuesLieByColumns) {
  for (const int rows : {1, 16, 63, 130}) {
    const int heads = 2;
    const int to_rows = (rows + 15) / 16 * 16 + 16;
    const auto values = outlying(static_cast<size_t>(rows * heads * kDim), random_);
    const auto from = on_device(values);
    auto bytes = poisoned<uint8_t>(static_cast<size_t>(heads * kDim * to_rows));
    auto scales = poisoned<float>(2);
    round_values_cuda(stream(), {.from = from.data(),
                                 .stride = heads * kDim,
                                 .rows = rows,
                                 .heads = heads,
                                 .to = bytes.data(),
                                 .to_rows = to_rows,
                                 .to_begin = 16,
                                 .scales = scales.data()});
    const auto got = on_host(bytes);
    const auto scale = on_host(scales);
    auto wanted = widened(values);
    round_to_eight(wanted.data(), heads * kDim, rows, heads, kDim, false, true);
    for (int head = 0; head < heads; ++head)
      for (int column = 0; column < kDim; ++column)
        for (int place = 0; place < to_rows; ++place) {
          const uint8_t byte = got[static_cast<size_t>((head * kDim + column) * to_rows + place)];
          if (place < 16) {
            ASSERT_EQ(byte, 0xFF) << "written before the first row";
            continue;
          }
          const int row = (place - 16) / 16 * 16 + eight_row_of(place % 16);
          const float want =
              row < rows ? wanted[static_cast<size_t>((row * heads + head) * kDim + column)] : 0;
          ASSERT_NEAR(of_eight(byte) * scale[static_cast<size_t>(head)], want,
                      0.13f * std::abs(want) + 1e-6f)
              << rows << " rows, row " << row << ", column " << column;
        }
  }
}

// Weights have eight bits too, three of the fraction: half a step is 2^-4 of a weight at most.
TEST_F(AttentionEightCuda, EqualsTheReference) {
  if (!attention_eight_takes({.head_dim = kDim}, workspace_))
    GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  for (const Shape& shape : std::vector<Shape>{
           {1, 1, {{1, 1}}},
           {2, 1, {{64, 128}}},
           {2, 2, {{65, 129}}, true},
           {4, 2, {{300, 700}}, false, false},
           {16, 8, {{500, 500}}, true, true, false},
           {4, 1, {{200, 200}, {1, 77}, {130, 333}}, true},
       }) {
    make(shape);
    const auto got = run();
    const EightOptions options{.spread = shape.spread, .per_head = shape.per_head};
    const auto wanted = by([&](const float* q, int64_t stride, int64_t queries, const PagedKeys& kv,
                               const AttentionParams& params, float* out, int64_t out_stride) {
      attention_eight_reference(q, stride, queries, kv, params, options, out, out_stride);
    });
    const double size = rms(wanted, std::vector<float>(wanted.size()));
    EXPECT_LE(rms(got, wanted), 0.03 * size)
        << shape.heads << "/" << shape.kv_heads << " heads, " << shape.sequences[0].queries << " x "
        << shape.sequences[0].keys;
  }
}

TEST_F(AttentionEightCuda, SpreadingLessensTheErrorOfOutliers) {
  if (!attention_eight_takes({.head_dim = kDim}, workspace_))
    GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  double error[2] = {};
  for (const bool spread : {false, true}) {
    random_.seed(31);
    make({8, 8, {{512, 2048}}, false, spread});
    error[spread ? 1 : 0] = rms(run(), exact());
  }
  RecordProperty("plain", std::to_string(error[0]));
  RecordProperty("spread", std::to_string(error[1]));
  EXPECT_LT(error[1], 0.8 * error[0]) << error[0] << " became " << error[1];
}

}  // namespace
}  // namespace fovea
