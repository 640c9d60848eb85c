// SPDX-License-Identifier: Apache-2.0
// Blocks that a token sees become the pages of a shorter sequence, to which attention() attends as
// to any other.
#include "ops/attention/sparse/token_blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace fovea {
namespace {

constexpr int kStride = 4;
constexpr int kWindowBlocks = 8;
constexpr double kShare = 0.25;

// Visual tokens of a block.
int64_t visual_tokens(std::span<const TokenRange> images, int block) {
  const int64_t begin = int64_t{block} * kTokenBlock;
  int64_t count = 0;
  for (const TokenRange& range : images)
    count += std::max<int64_t>(
        0, std::min(range.end, begin + kTokenBlock) - std::max(range.begin, begin));
  return count;
}

// Some blocks of a sequence and its keys from the first of block `own` on, as a sequence of their
// own; of all heads, or of one. Parts of pages that lie together are its pages.
class ShorterKeys {
 public:
  explicit ShorterKeys(const PagedKeys& kv) : kv_(kv) {
    // Memory in one piece has pages wherever one likes.
    page_ = kv.page_tokens >= kv.size ? kTokenBlock : std::gcd(kv.page_tokens, kTokenBlock);
  }

  // Keys [begin, end), of which the first stands at the beginning of a block.
  void add(int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t += page_) pages_.push_back(kv_.key(0, t));
    size_ += end - begin;
  }
  PagedKeys view() const {
    return {.pages = pages_.data(),
            .size = size_,
            .kv_heads = kv_.kv_heads,
            .head_dim = kv_.head_dim,
            .page_tokens = page_,
            .page_rows = kv_.page_rows > 0 ? kv_.page_rows : kv_.page_tokens};
  }
  // The same of one head alone, whose pointers it keeps.
  PagedKeys view_of(int head) {
    of_head_.clear();
    for (const float* page : pages_) of_head_.push_back(page + kv_.head_at(head));
    PagedKeys view = this->view();
    view.pages = of_head_.data();
    view.kv_heads = 1;
    return view;
  }

 private:
  const PagedKeys& kv_;
  int page_ = 0;
  std::vector<const float*> pages_;
  std::vector<const float*> of_head_;
  int64_t size_ = 0;
};

// Queries [begin, end) of a call, which stand in one block or in one image.
struct Queries {
  int64_t begin = 0;
  int64_t end = 0;
};

void attend_part(Threads& threads, const TokenAttention& given, const Queries& queries,
                 const PagedKeys& keys, int64_t first_query, bool causal, float* out,
                 int64_t out_stride) {
  AttentionParams params = *given.params;
  params.causal = causal;
  params.first_query = first_query;
  attention(threads, given.q + queries.begin * given.q_stride, given.q_stride,
            queries.end - queries.begin, keys, params, out + queries.begin * out_stride,
            out_stride);
}

// Text by causal attention, images to the end of their range.
void attend_by_prefix(Threads& threads, const TokenAttention& given, float* out,
                      int64_t out_stride) {
  const int64_t first = given.params->first_query;
  for (int64_t begin = 0; begin < given.queries;) {
    const int64_t limit = prefix_limit(given.images, first + begin);
    const bool is_text = limit == first + begin + 1;
    int64_t end = begin + 1;
    while (end < given.queries) {
      const int64_t next = prefix_limit(given.images, first + end);
      if (is_text ? next != first + end + 1 : next != limit) break;
      ++end;
    }
    PagedKeys keys = *given.kv;
    if (!is_text) {
      FOVEA_CHECK(limit <= keys.size);
      keys.size = limit;
    }
    attend_part(threads, given, {begin, end}, keys, first + begin, is_text, out, out_stride);
    begin = end;
  }
}

// The queries of a block all see the same blocks.
void attend_by_place(Threads& threads, const TokenAttention& given, const SparseSettings& settings,
                     float* out, int64_t out_stride) {
  const int64_t first = given.params->first_query;
  for (int64_t begin = 0; begin < given.queries;) {
    const auto own = static_cast<int>((first + begin) / kTokenBlock);
    const int64_t own_begin = int64_t{own} * kTokenBlock;
    const int64_t end = std::min(given.queries, own_begin + kTokenBlock - first);
    ShorterKeys keys(*given.kv);
    const SeenBlocks seen = seen_blocks(settings, given.images, own);
    for (const int block : seen.always)
      keys.add(int64_t{block} * kTokenBlock, int64_t{block + 1} * kTokenBlock);
    keys.add(own_begin, first + end);
    const auto before = static_cast<int64_t>(seen.always.size()) * kTokenBlock;
    attend_part(threads, given, {begin, end}, keys.view(), before + first + begin - own_begin, true,
                out, out_stride);
    begin = end;
  }
}

// The mean keys of the blocks that some token may choose: [blocks][kv_heads][head_dim].
std::vector<float> mean_keys(Threads& threads, const PagedKeys& kv, std::span<const int> blocks) {
  const int64_t width = int64_t{kv.kv_heads} * kv.head_dim;
  std::vector<float> means(blocks.size() * static_cast<size_t>(width));
  threads.for_each(static_cast<int64_t>(blocks.size()), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = int64_t{blocks[static_cast<size_t>(i)]} * kTokenBlock;
      for (int head = 0; head < kv.kv_heads; ++head) {
        float* mean = means.data() + i * width + int64_t{head} * kv.head_dim;
        for (int64_t t = first; t < first + kTokenBlock; ++t) {
          const float* key = kv.key(head, t);
          for (int d = 0; d < kv.head_dim; ++d) mean[d] += key[d];
        }
        for (int d = 0; d < kv.head_dim; ++d) mean[d] *= 1.0f / kTokenBlock;
      }
    }
  });
  return means;
}

// Of each candidate, the largest product with a query of the heads that share a kv head; `count` of
// them, in the order of their places.
std::vector<int> best_of(const TokenAttention& given, const SeenBlocks& seen, int64_t query,
                         int kv_head, const float* means) {
  const PagedKeys& kv = *given.kv;
  const int sharing = given.params->heads / kv.kv_heads;
  std::vector<float> scores(seen.candidates.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const float* mean = means + (static_cast<int64_t>(i) * kv.kv_heads + kv_head) * kv.head_dim;
    for (int head = 0; head < sharing; ++head) {
      const float* q =
          given.q + query * given.q_stride + int64_t{kv_head * sharing + head} * kv.head_dim;
      float sum = 0;
      for (int d = 0; d < kv.head_dim; ++d) sum += q[d] * mean[d];
      scores[i] = head == 0 ? sum : std::max(scores[i], sum);
    }
  }
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(seen.count));
  std::vector<int> best;
  best.reserve(order.size());
  for (const int i : order) best.push_back(seen.candidates[static_cast<size_t>(i)]);
  std::sort(best.begin(), best.end());
  return best;
}

// Each query and kv head has blocks of its own. The candidates of a block are those of the blocks
// before it and more, so that all means are those of the last one's.
void attend_by_keys(Threads& threads, const TokenAttention& given, const SparseSettings& settings,
                    float* out, int64_t out_stride) {
  const PagedKeys& kv = *given.kv;
  const int64_t first = given.params->first_query;
  const auto first_own = static_cast<int>(first / kTokenBlock);
  const auto last_own = static_cast<int>((first + given.queries - 1) / kTokenBlock);
  std::vector<SeenBlocks> seen;
  for (int own = first_own; own <= last_own; ++own)
    seen.push_back(seen_blocks(settings, given.images, own));
  const std::vector<float> means = mean_keys(threads, kv, seen.back().candidates);
  const int sharing = given.params->heads / kv.kv_heads;
  threads.for_each(given.queries * kv.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t query = task / kv.kv_heads;
      const auto head = static_cast<int>(task % kv.kv_heads);
      const int64_t own = (first + query) / kTokenBlock;
      const SeenBlocks& of_block = seen[static_cast<size_t>(own - first_own)];
      std::vector<int> blocks = best_of(given, of_block, query, head, means.data());
      blocks.insert(blocks.end(), of_block.always.begin(), of_block.always.end());
      ShorterKeys keys(kv);
      for (const int block : blocks)
        keys.add(int64_t{block} * kTokenBlock, int64_t{block + 1} * kTokenBlock);
      keys.add(own * kTokenBlock, first + query + 1);
      const int64_t column = int64_t{head} * sharing * kv.head_dim;
      AttentionParams params = *given.params;
      params.heads = sharing;
      params.causal = false;
      attention(threads, given.q + query * given.q_stride + column, given.q_stride, 1,
                keys.view_of(head), params, out + query * out_stride + column, out_stride);
    }
  });
}

}  // namespace

SeenBlocks seen_blocks(const SparseSettings& settings, std::span<const TokenRange> images,
                       int own) {
  SeenBlocks seen;
  for (int block = 0; block < own; ++block) {
    bool always = false;
    if (settings.kind == AttentionKind::kStrided)
      always = block % kStride == 0 || block == own - 1;
    else if (settings.kind == AttentionKind::kWindow)
      always = block == 0 || block > own - kWindowBlocks;
    else if (visual_tokens(images, block) == kTokenBlock)
      seen.candidates.push_back(block);
    else
      always = true;
    if (always) seen.always.push_back(block);
  }
  const double share = settings.share > 0 ? settings.share : kShare;
  seen.count = static_cast<int>(std::ceil(share * static_cast<double>(seen.candidates.size())));
  return seen;
}

void attend_to_tokens(Threads& threads, const TokenAttention& given, const SparseSettings& settings,
                      float* out, int64_t out_stride) {
  if (given.queries <= 0) return;
  FOVEA_CHECK(given.params->causal && given.params->key_bias == nullptr);
  FOVEA_CHECK(row_of(settings.kind).token_words != nullptr);
  FOVEA_CHECK(given.params->first_query + given.queries <= given.kv->size);
  if (settings.kind == AttentionKind::kDense)
    attention(threads, given.q, given.q_stride, given.queries, *given.kv, *given.params, out,
              out_stride);
  else if (settings.kind == AttentionKind::kPrefix)
    attend_by_prefix(threads, given, out, out_stride);
  else if (settings.kind == AttentionKind::kTopBlocks)
    attend_by_keys(threads, given, settings, out, out_stride);
  else
    attend_by_place(threads, given, settings, out, out_stride);
}

double share_of_keys(const TokenAttention& given, const SparseSettings& settings) {
  double seen = 0;
  double all = 0;
  for (int64_t query = 0; query < given.queries; ++query) {
    const int64_t position = given.params->first_query + query;
    all += static_cast<double>(position + 1);
    if (settings.kind == AttentionKind::kDense || settings.kind == AttentionKind::kPrefix) {
      seen += static_cast<double>(settings.kind == AttentionKind::kDense
                                      ? position + 1
                                      : prefix_limit(given.images, position));
      continue;
    }
    const SeenBlocks of_block =
        seen_blocks(settings, given.images, static_cast<int>(position / kTokenBlock));
    const auto blocks = static_cast<int64_t>(of_block.always.size()) + of_block.count;
    seen += static_cast<double>(blocks * kTokenBlock + position % kTokenBlock + 1);
  }
  return seen / all;
}

}  // namespace fovea
