// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "ops/attention/sparse/chosen_keys.h"

namespace fovea {
namespace {

// Adds keys to the choice being made; those that follow the last range make it longer.
void add_range(ChosenKeys& chosen, int32_t first, int32_t count, bool pooled) {
  const bool begun = static_cast<int64_t>(chosen.ranges.size()) > chosen.begins.back();
  if (begun) {
    KeyRange& last = chosen.ranges.back();
    if (last.pooled == pooled && last.first + last.count == first) {
      last.count += count;
      return;
    }
  }
  chosen.ranges.push_back({first, count, pooled});
}

void add_block(ChosenKeys& chosen, const RowBlocks& rows, int block, bool pooled) {
  if (pooled)
    add_range(chosen, rows.block_begins[block],
              rows.block_begins[block + 1] - rows.block_begins[block], true);
  else
    add_range(chosen, rows.first_row(block), rows.end_row(block) - rows.first_row(block), false);
}

void end_choice(ChosenKeys& chosen) {
  chosen.begins.push_back(static_cast<int64_t>(chosen.ranges.size()));
}

// Whether a row of block a may see one of block b in the window: their rectangles of places, which
// may be larger than what they hold.
bool may_see(const GridPlace& a, const GridPlace& b, int32_t reach) {
  const auto gap = [](int32_t p, int32_t q) {
    return std::max(std::abs(p - q) - RowBlocks::kBlockSide + 1, 0);
  };
  return a.level == b.level && gap(a.x, b.x) <= reach && gap(a.y, b.y) <= reach;
}

GridPlace corner_of(const RowBlocks& rows, int block) {
  GridPlace place = rows.places[static_cast<size_t>(rows.first_row(block))];
  place.x -= place.x % RowBlocks::kBlockSide;
  place.y -= place.y % RowBlocks::kBlockSide;
  return place;
}

// The mean queries of each group, of all heads: [groups][heads * head_dim].
std::vector<float> mean_queries(Threads& threads, const SparseAttention& given) {
  const RowBlocks& rows = *given.rows;
  const int64_t width = int64_t{given.params->heads} * given.kv->head_dim;
  std::vector<float> means(static_cast<size_t>(rows.groups() * width));
  threads.for_each(rows.groups(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      float* mean = means.data() + group * width;
      const int32_t first = rows.group_begins[group];
      const int32_t last = rows.group_begins[group + 1];
      for (int64_t row = first; row < last; ++row)
        for (int64_t i = 0; i < width; ++i) mean[i] += given.q[row * given.q_stride + i];
      const float share = 1 / static_cast<float>(last - first);
      for (int64_t i = 0; i < width; ++i) mean[i] *= share;
    }
  });
  return means;
}

// Which blocks are seen by their rows: the own one, and the best of the others.
std::vector<bool> best_blocks(const float* scores, int blocks, int own, int count) {
  std::vector<int> by_score(static_cast<size_t>(blocks));
  std::iota(by_score.begin(), by_score.end(), 0);
  const auto better = [&](int a, int b) {
    if ((a == own) != (b == own)) return a == own;
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  count = std::clamp(count, 1, blocks);
  std::nth_element(by_score.begin(), by_score.begin() + (count - 1), by_score.end(), better);
  std::vector<bool> best(static_cast<size_t>(blocks));
  for (int i = 0; i < count; ++i)
    best[static_cast<size_t>(by_score[static_cast<size_t>(i)])] = true;
  return best;
}

// scores: [kv_heads][blocks][blocks]
ChosenKeys choose_by_scores(const SparseAttention& given, const std::vector<float>& scores,
                            int count, OtherBlocks others, BestBlocks best_as) {
  const RowBlocks& rows = *given.rows;
  const bool pooled = best_as == BestBlocks::kPooled;
  const int blocks = rows.blocks();
  ChosenKeys chosen{.per_head = true, .begins = {0}, .ranges = {}, .window = {}};
  for (int64_t choice = 0; choice < int64_t{given.kv->kv_heads} * blocks; ++choice) {
    const auto best = best_blocks(scores.data() + choice * blocks, blocks,
                                  static_cast<int>(choice % blocks), count);
    for (int block = 0; block < blocks; ++block)
      if (best[static_cast<size_t>(block)]) add_block(chosen, rows, block, pooled);
    if (others == OtherBlocks::kPooled)
      for (int block = 0; block < blocks; ++block)
        if (!best[static_cast<size_t>(block)]) add_block(chosen, rows, block, true);
    end_choice(chosen);
  }
  return chosen;
}

// Which blocks have the most attention, of what their groups have.
std::vector<bool> most_attended(const RowBlocks& rows, const std::vector<float>& masses,
                                int count) {
  std::vector<float> scores;
  scores.reserve(static_cast<size_t>(rows.blocks()));
  for (int block = 0; block < rows.blocks(); ++block)
    scores.push_back(std::accumulate(masses.begin() + rows.block_begins[block],
                                     masses.begin() + rows.block_begins[block + 1], 0.0f));
  constexpr int kNoOwn = -1;
  return best_blocks(scores.data(), rows.blocks(), kNoOwn, count);
}

// masses: of each group
ChosenKeys choose_by_masses(const RowBlocks& rows, const std::vector<float>& masses, int count) {
  const std::vector<bool> best = most_attended(rows, masses, count);
  ChosenKeys chosen{.per_head = false, .begins = {0}, .ranges = {}, .window = {}};
  for (int own = 0; own < rows.blocks(); ++own) {
    for (const bool pooled : {false, true})
      for (int block = 0; block < rows.blocks(); ++block)
        if ((best[static_cast<size_t>(block)] || block == own) != pooled)
          add_block(chosen, rows, block, pooled);
    end_choice(chosen);
  }
  return chosen;
}

AttentionParams params_of_groups(const SparseAttention& given) {
  AttentionParams params = *given.params;
  params.key_bias = given.pooled->biases();
  return params;
}

}  // namespace

double ChosenKeys::share(const RowBlocks& rows) const {
  const auto blocks = static_cast<size_t>(rows.blocks());
  double seen = 0;
  double all = 0;
  for (size_t choice = 0; choice + 1 < begins.size(); ++choice) {
    const auto block = static_cast<int>(choice % blocks);
    const auto queries = static_cast<double>(rows.end_row(block) - rows.first_row(block));
    for (int64_t i = begins[choice]; i < begins[choice + 1]; ++i)
      seen += queries * ranges[static_cast<size_t>(i)].count;
    all += queries * static_cast<double>(rows.rows());
  }
  return seen / all;
}

PooledKeys::PooledKeys(Threads& threads, const PagedKeys& kv, const float* key_bias,
                       std::span<const int32_t> group_begins)
    : kv_heads_(kv.kv_heads),
      head_dim_(kv.head_dim),
      groups_(static_cast<int64_t>(group_begins.size()) - 1),
      values_(static_cast<size_t>(page_values(kv_heads_, head_dim_, groups_))),
      page_(values_.data()),
      biases_(static_cast<size_t>(groups_)) {
  FOVEA_CHECK(!group_begins.empty() && kv.size == group_begins.back());
  threads.for_each(groups_, 16, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const int32_t first = group_begins[group];
      const int32_t last = group_begins[group + 1];
      const float share = 1 / static_cast<float>(last - first);
      biases_[static_cast<size_t>(group)] =
          std::log(static_cast<float>(last - first)) + (key_bias != nullptr ? key_bias[first] : 0);
      for (int head = 0; head < kv_heads_; ++head) {
        float* key = values_.data() + (2 * head * groups_ + group) * head_dim_;
        float* value = key + groups_ * head_dim_;
        std::fill_n(key, head_dim_, 0.0f);
        std::fill_n(value, head_dim_, 0.0f);
        for (int32_t row = first; row < last; ++row) {
          for (int i = 0; i < head_dim_; ++i) key[i] += share * kv.key(head, row)[i];
          for (int i = 0; i < head_dim_; ++i) value[i] += share * kv.value(head, row)[i];
        }
      }
    }
  });
}

PagedKeys PooledKeys::view() const {
  return {.pages = &page_,
          .size = groups_,
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .page_tokens = static_cast<int>(groups_)};
}

ChosenKeys choose_window(const RowBlocks& rows, KeyWindow window) {
  FOVEA_CHECK(window.radius > 0 && window.step > 0);
  ChosenKeys chosen{.per_head = false, .begins = {0}, .ranges = {}, .window = window};
  for (int block = 0; block < rows.blocks(); ++block) {
    const GridPlace corner = corner_of(rows, block);
    for (int other = 0; other < rows.blocks(); ++other)
      if (may_see(corner, corner_of(rows, other), window.radius * window.step))
        add_block(chosen, rows, other, false);
    end_choice(chosen);
  }
  return chosen;
}

ChosenKeys choose_strided(const RowBlocks& rows, int stride) {
  FOVEA_CHECK(stride > 0);
  ChosenKeys chosen{.per_head = false, .begins = {0}, .ranges = {}, .window = {}};
  for (int block = 0; block < rows.blocks(); ++block) {
    for (int other = 0; other < rows.blocks(); ++other) {
      if (other == block) {
        add_block(chosen, rows, other, false);
        continue;
      }
      const int32_t first = (rows.first_row(other) + stride - 1) / stride * stride;
      for (int32_t row = first; row < rows.end_row(other); row += stride)
        add_range(chosen, row, 1, false);
    }
    end_choice(chosen);
  }
  return chosen;
}

ChosenKeys choose_groups(const RowBlocks& rows) {
  ChosenKeys chosen{.per_head = false, .begins = {0}, .ranges = {}, .window = {}};
  for (int block = 0; block < rows.blocks(); ++block) {
    add_range(chosen, 0, rows.groups(), true);
    end_choice(chosen);
  }
  return chosen;
}

ChosenKeys choose_best_blocks(Threads& threads, const SparseAttention& given, int count,
                              OtherBlocks others, BestBlocks best) {
  const int64_t blocks = given.rows->blocks();
  const std::vector<float> queries = mean_queries(threads, given);
  std::vector<float> scores(static_cast<size_t>(given.kv->kv_heads * blocks * blocks));
  threads.for_each(given.kv->kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head)
      block_scores(given, queries.data(), static_cast<int>(head),
                   scores.data() + head * blocks * blocks);
  });
  return choose_by_scores(given, scores, count, others, best);
}

ChosenKeys choose_best_blocks_reference(const SparseAttention& given, int count,
                                        OtherBlocks others) {
  const RowBlocks& rows = *given.rows;
  Threads one(1);
  const std::vector<float> queries = mean_queries(one, given);
  const PagedKeys keys = given.pooled->view();
  const int head_dim = given.kv->head_dim;
  const int sharing = given.params->heads / given.kv->kv_heads;
  std::vector<float> scores;
  for (int head = 0; head < given.kv->kv_heads; ++head)
    for (int a = 0; a < rows.blocks(); ++a)
      for (int b = 0; b < rows.blocks(); ++b) {
        double most = -INFINITY;
        for (int32_t i = rows.block_begins[a]; i < rows.block_begins[a + 1]; ++i)
          for (int32_t j = rows.block_begins[b]; j < rows.block_begins[b + 1]; ++j)
            for (int q = head * sharing; q < (head + 1) * sharing; ++q) {
              double product = 0;
              for (int d = 0; d < head_dim; ++d)
                product += static_cast<double>(queries[static_cast<size_t>(
                               (int64_t{i} * given.params->heads + q) * head_dim + d)]) *
                           keys.key(head, j)[d];
              most = std::max(most, product);
            }
        scores.push_back(static_cast<float>(most));
      }
  return choose_by_scores(given, scores, count, others, BestBlocks::kRows);
}

ChosenKeys choose_shared_blocks(Threads& threads, const SparseAttention& given, int count) {
  const int64_t groups = given.rows->groups();
  const int64_t width = int64_t{given.params->heads} * given.kv->head_dim;
  const std::vector<float> queries = mean_queries(threads, given);
  std::vector<float> masses(static_cast<size_t>(groups));
  attention_mass(threads, queries.data(), width, groups, given.pooled->view(),
                 params_of_groups(given), 0, groups, masses.data());
  return choose_by_masses(*given.rows, masses, count);
}

ChosenKeys choose_shared_blocks_reference(const SparseAttention& given, int count) {
  const int64_t groups = given.rows->groups();
  const int64_t width = int64_t{given.params->heads} * given.kv->head_dim;
  Threads one(1);
  const std::vector<float> queries = mean_queries(one, given);
  std::vector<float> masses(static_cast<size_t>(groups));
  attention_mass_reference(queries.data(), width, groups, given.pooled->view(),
                           params_of_groups(given), 0, groups, masses.data());
  return choose_by_masses(*given.rows, masses, count);
}

}  // namespace fovea
