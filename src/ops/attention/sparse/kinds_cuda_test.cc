// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/kinds_cuda.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "ops/attention/sparse/test_rows.h"
#include "ops/attention/test_attention_cuda.h"

namespace fovea {
namespace {

// Shared memory that a block may have on many GPUs from 8.6 on.
constexpr size_t kBytesOfSmallGpus = size_t{99} << 10;

struct Shape {
  const char* name;
  std::vector<GridPlace> places;
  int heads = 1;
  int head_dim = 8;
  bool bias = false;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all = {
      {"one row", test::grid(1, 1)},
      {"a block", test::grid(8, 8), 1, 64},
      {"odd", test::grid(17, 5), 3, 8, true},
      {"a row of rows", test::grid(50, 1), 1, 72},
      {"mixed levels", test::mixed(), 1, 16, true},
      {"long heads", test::grid(10, 7), 1, 128},
  };
  if (!kEmulated) {  // tiles for every multiprocessor, words and steps of coarse keys
    all.push_back({"two blocks", test::grid(16, 8), 1, 64});
    all.push_back({"odd blocks", test::grid(19, 25), 2, 64});
    all.push_back({"a tower's", test::grid(24, 24), 2, 64});
    all.push_back({"odd and biased", test::grid(17, 5), 3, 64, true});
    all.push_back({"mixed and biased", test::mixed(), 2, 64, true});
    all.push_back({"4,096", test::grid(64, 64), 16, 64});
    all.push_back({"many odd", test::grid(150, 70), 3, 64, true});
  }
  return all;
}

const std::vector<SparseSettings>& settings() {
  static const std::vector<SparseSettings> kAll = {
      {AttentionKind::kLocal3},          {AttentionKind::kLocal5},
      {AttentionKind::kDilated},         {AttentionKind::kStrided},
      {AttentionKind::kTopBlocks},       {AttentionKind::kTopBlocks, 0.6},
      {AttentionKind::kHierarchical},    {AttentionKind::kHierarchical, 0.3},
      {AttentionKind::kHierarchical, 1}, {AttentionKind::kLinformer},
  };
  return kAll;
}

class SparseCudaTest : public CudaTest {
 protected:
  static constexpr int kBetween = 8;  // values between rows of q and out

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(attention_.open());
  }

  void make(const Shape& shape) {
    name_ = shape.name;
    rows_ = block_rows(shape.places);
    heads_ = shape.heads;
    dim_ = shape.head_dim;
    count_ = static_cast<int>(rows_.rows());
    capacity_ = count_ + 3;
    stride_ = int64_t{heads_} * dim_ + kBetween;
    bias_.clear();
    for (const GridPlace& place : rows_.places)
      if (shape.bias) bias_.push_back(static_cast<float>(place.level) * std::log(4.0f));
    q_ = random_bf16(static_cast<size_t>(count_ * stride_), random_, 2);
    keys_ = random_keys(2);
    values_ = random_keys(1);
    q_there_ = on_device(q_);
    keys_there_ = on_device(keys_);
    values_there_ = on_device(values_);
    ASSERT_TRUE(attention_.place(stream_, staging_, rows_, bias_, heads_, dim_, settings()));
  }
  // Beyond the rows lies NaN, which nobody may read into sums.
  std::vector<bf16> random_keys(float spread) {
    const int64_t of_head = int64_t{capacity_} * dim_;
    auto all = random_bf16(static_cast<size_t>(heads_ * of_head), random_, spread);
    for (int head = 0; head < heads_; ++head)
      std::fill(all.begin() + head * of_head + int64_t{count_} * dim_,
                all.begin() + (head + 1) * of_head, bf16{0x7FFF});
    return all;
  }

  SparseAttentionCuda::Job job(DeviceMemory<bf16>& out) {
    return {.q = q_there_.data(),
            .q_stride = stride_,
            .keys = keys_there_.data(),
            .values = values_there_.data(),
            .capacity = capacity_,
            .scale = scale(),
            .out = out.data(),
            .out_stride = stride_};
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(dim_)); }

  PlainKeys kv() const {
    PlainKeys kv(heads_, dim_);
    const auto keys = widened(keys_);
    const auto values = widened(values_);
    const int64_t width = int64_t{heads_} * dim_;
    std::vector<float> k(static_cast<size_t>(width));
    std::vector<float> v(k.size());
    for (int row = 0; row < count_; ++row) {
      for (int head = 0; head < heads_; ++head) {
        const int64_t from = (int64_t{head} * capacity_ + row) * dim_;
        std::copy_n(keys.begin() + from, dim_, k.begin() + int64_t{head} * dim_);
        std::copy_n(values.begin() + from, dim_, v.begin() + int64_t{head} * dim_);
      }
      kv.append(k.data(), width, v.data(), width, 1);
    }
    return kv;
  }

  // What was chosen on the device, as the reference takes it.
  ChosenKeys chosen_there(const SparseCall& call) {
    const auto per_list = static_cast<size_t>(call.full.room);
    std::vector<RowSpan> lists(static_cast<size_t>(heads_ * rows_.blocks()) * per_list);
    stream_.download(lists.data(), call.full.lists, lists.size());
    EXPECT_TRUE(stream_.wait());
    ChosenKeys chosen{.per_head = true, .begins = {0}, .ranges = {}, .window = {}};
    for (size_t list = 0; list * per_list < lists.size(); ++list) {
      std::set<int> firsts;
      for (size_t i = list * per_list; i < (list + 1) * per_list; ++i) {
        chosen.ranges.push_back({lists[i].first, lists[i].count, false});
        firsts.insert(lists[i].first);
      }
      EXPECT_EQ(firsts.size(), per_list) << name_ << ": a block is chosen twice";
      if (call.coarse.count > 0)
        for (int block = 0; block < rows_.blocks(); ++block)
          if (firsts.count(rows_.first_row(block)) == 0)
            chosen.ranges.push_back({rows_.block_begins[static_cast<size_t>(block)],
                                     rows_.block_begins[static_cast<size_t>(block) + 1] -
                                         rows_.block_begins[static_cast<size_t>(block)],
                                     true});
      chosen.begins.push_back(static_cast<int64_t>(chosen.ranges.size()));
    }
    return chosen;
  }

  // Some blocks where there are many.
  std::vector<BlockRange> checked() const {
    if (rows_.blocks() <= 24) return {{0, rows_.blocks()}};
    const int blocks = rows_.blocks();
    return {{0, 2}, {blocks / 2, blocks / 2 + 2}, {blocks - 2, blocks}};
  }

  void expect_near(const std::vector<bf16>& got, const std::vector<float>& wanted,
                   const std::string& what) const {
    double error = 0;
    double size = 0;
    for (const BlockRange& range : checked())
      for (int row = rows_.first_row(range.first); row < rows_.end_row(range.end - 1); ++row)
        for (int64_t i = 0; i < stride_; ++i) {
          const auto at = static_cast<size_t>(row * stride_ + i);
          const float value = to_float(got[at]);
          if (i >= stride_ - kBetween) {
            ASSERT_TRUE(std::isnan(value)) << what << ", " << name_ << " wrote between rows";
            continue;
          }
          // Means, weights and results are rounded to bf16, 2^-8 of a value.
          ASSERT_NEAR(value, wanted[at], 0.05f + 0.01f * std::abs(wanted[at]))
              << what << ", " << name_ << ", row " << row << ", value " << i;
          error += (value - wanted[at]) * (value - wanted[at]);
          size += wanted[at] * wanted[at];
        }
    EXPECT_LE(std::sqrt(error), 1e-2 * std::sqrt(size)) << what << ", " << name_;
  }

  void check(const SparseSettings& one) {
    const std::string kind = std::string(row_of(one.kind).name) + ":" + std::to_string(one.share);
    auto out = poisoned<bf16>(q_.size());
    attention_.attend(stream(), job(out), one);
    const auto got = on_host(out);
    const SparseAttentionCuda::Parts parts = attention_.parts_of(job(out), one);
    const PlainKeys keys = kv();
    const PagedKeys view = keys.view();
    const AttentionParams params{
        .heads = heads_, .scale = scale(), .key_bias = bias_.empty() ? nullptr : bias_.data()};
    Threads host(1);
    const PooledKeys pooled(host, view, params.key_bias, rows_);
    const auto q = widened(q_);
    const SparseAttention given{q.data(), stride_, &view, &params, &rows_, &pooled};
    const ChosenKeys chosen =
        parts.chooses ? chosen_there(parts.call) : choose_by_kind(host, given, one);
    std::vector<float> wanted(q.size());
    for (const BlockRange& range : checked())
      attention_to_chosen_reference(given, chosen, range, wanted.data(), stride_);
    expect_near(got, wanted, kind);
    if (!attention_.has_warpgroups()) return;
    auto warps = poisoned<bf16>(q_.size());
    SparseCall call = parts.call;
    call.out = warps.data();
    attend_spans_cuda(stream(), call);
    expect_near(on_host(warps), wanted, kind + " by warps");
  }

  std::mt19937 random_{23};
  std::string name_;
  RowBlocks rows_;
  int heads_ = 0;
  int dim_ = 0;
  int count_ = 0;
  int capacity_ = 0;
  int64_t stride_ = 0;
  std::vector<float> bias_;
  std::vector<bf16> q_;
  std::vector<bf16> keys_;
  std::vector<bf16> values_;
  DeviceMemory<bf16> q_there_;
  DeviceMemory<bf16> keys_there_;
  DeviceMemory<bf16> values_there_;
  Staging staging_;
  SparseAttentionCuda attention_;
};

TEST_F(SparseCudaTest, EveryKindIsWhatItsReferenceSays) {
  for (const Shape& shape : shapes()) {
    make(shape);
    for (const SparseSettings& one : settings()) {
      check(one);
      if (HasFatalFailure()) return;
    }
  }
}

// Of the mean queries and keys that are on the device; what is chosen has no smaller score than
// what is not, but for sums that are rounded in another order.
TEST_F(SparseCudaTest, TheBlocksWithTheLargestProductsOfMeansAreChosen) {
  std::vector<Shape> all = shapes();
  const size_t as_given = all.size();
  // Heads of which four rows of warps do not fit into what many GPUs have, 99 KiB a block.
  all.push_back({"few bytes", test::grid(88, 96), 1, 72});
  for (size_t shape = 0; shape < all.size(); ++shape) {
    const size_t shared = shape < as_given ? attention_.shared_bytes() : kBytesOfSmallGpus;
    make(all[shape]);
    ASSERT_LE(rows_.blocks(), most_chosen_from(dim_, shared));
    auto out = poisoned<bf16>(q_.size());
    const auto parts = attention_.parts_of(job(out), {AttentionKind::kHierarchical, 0.3});
    mean_groups_cuda(stream(), parts.call.rows, parts.means);
    choose_blocks_cuda(stream(), parts.call.rows, parts.means, parts.call.full, shared);
    const int blocks = rows_.blocks();
    const auto slots = static_cast<size_t>(blocks) * kGroupsOfBlock;
    std::vector<bf16> queries(static_cast<size_t>(heads_) * slots * static_cast<size_t>(dim_));
    std::vector<bf16> keys(queries.size());
    stream_.download(queries.data(), parts.means.queries, queries.size());
    stream_.download(keys.data(), parts.means.keys, keys.size());
    const auto room = static_cast<size_t>(parts.call.full.room);
    std::vector<RowSpan> lists(static_cast<size_t>(heads_ * blocks) * room);
    stream_.download(lists.data(), parts.call.full.lists, lists.size());
    const size_t words = (static_cast<size_t>(blocks) + kBlocksOfWord - 1) / kBlocksOfWord;
    std::vector<unsigned> in_full(static_cast<size_t>(heads_ * blocks) * words);
    stream_.download(in_full.data(), parts.call.full.in_full, in_full.size());
    ASSERT_TRUE(stream_.wait());
    const auto row = [&](const std::vector<bf16>& means, int head, size_t slot) {
      return means.data() + (static_cast<size_t>(head) * slots + slot) * static_cast<size_t>(dim_);
    };
    for (int head = 0; head < heads_; ++head)
      for (int block = 0; block < std::min(blocks, 40); ++block) {
        const auto choice = static_cast<size_t>(head * blocks + block);
        std::set<int> firsts;
        for (size_t i = 0; i < room; ++i) firsts.insert(lists[choice * room + i].first);
        EXPECT_EQ(firsts.count(rows_.first_row(block)), 1u) << name_ << ": not its own block";
        double least = 1e30;
        double most = -1e30;
        for (int other = 0; other < blocks; ++other) {
          double score = -1e30;
          for (size_t a = 0; a < kGroupsOfBlock; ++a)
            for (size_t b = 0; b < kGroupsOfBlock; ++b) {
              const bf16* q = row(queries, head, static_cast<size_t>(block) * kGroupsOfBlock + a);
              const bf16* k = row(keys, head, static_cast<size_t>(other) * kGroupsOfBlock + b);
              double product = 0;
              for (int d = 0; d < dim_; ++d) product += double{to_float(q[d])} * to_float(k[d]);
              score = std::max(score, product);
            }
          const bool is_chosen = firsts.count(rows_.first_row(other)) == 1;
          const auto bit = static_cast<size_t>(other);
          EXPECT_EQ(in_full[choice * words + bit / kBlocksOfWord] >> bit % kBlocksOfWord & 1,
                    static_cast<unsigned>(is_chosen))
              << name_ << ", block " << block << " of " << other;
          if (other == block) continue;
          if (is_chosen)
            least = std::min(least, score);
          else
            most = std::max(most, score);
        }
        EXPECT_GE(least, most - 1e-4) << name_ << ", head " << head << ", block " << block;
      }
  }
}

TEST_F(SparseCudaTest, RowsThatAreTooScatteredAreRefused) {
  std::vector<GridPlace> places;
  for (int i = 0; i <= kMostChosenFrom; ++i) places.push_back({0, 8 * (i % 64), 8 * (i / 64)});
  const Status placed = attention_.place(stream_, staging_, block_rows(places), {}, 1, 8, {});
  ASSERT_FALSE(placed);
  EXPECT_NE(placed.error().message.find("4097 blocks"), std::string::npos);
}

TEST(SparseCuda, FewerBlocksAreChosenFromWhereSharedMemoryIsShort) {
  EXPECT_EQ(most_chosen_from(64, size_t{227} << 10), kMostChosenFrom);
  for (const int dim : {16, 32, 64, 72, 128}) {
    EXPECT_GE(most_chosen_from(dim, kBytesOfSmallGpus), 256) << dim;
    EXPECT_LT(most_chosen_from(dim, size_t{48} << 10), kMostChosenFrom) << dim;
  }
  EXPECT_EQ(most_chosen_from(64, 1000), 0);
}

}  // namespace
}  // namespace fovea
