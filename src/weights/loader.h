// SPDX-License-Identifier: Apache-2.0
// Reads the weights once, checked, in whatever form they are kept.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "base/threads.h"
#include "fovea/result.h"
#include "weights/checkpoint.h"

namespace fovea {

// Called on the loading thread; `done_bytes` of `total_bytes` of the checkpoint's weights.
using LoadProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// How a tensor is read.
struct Take {
  int64_t rows_multiple = 1;  // pieces hold a multiple of this many rows (the last one the rest)
  bool drop_source = true;    // drop pages soon after they were packed; false: keep them
};

// Each tensor is taken once. A piece is looked at for NaN and infinity, then handed to
// `pack` while it is in the cache, so that checking costs no second reading of memory.
//
//   Loader loader(threads, checkpoint, progress);
//   const TensorView qkv = checkpoint.vision("blocks.0.attn.qkv.weight");
//   if (auto status = loader.take(qkv, [&](int64_t begin, int64_t end) { pack_rows(begin, end); });
//       !status) return status.error();
class Loader {
 public:
  Loader(Threads& threads, const Checkpoint& checkpoint, LoadProgress progress = nullptr)
      : Loader(threads, checkpoint.tensors(), checkpoint.source_bytes(), std::move(progress)) {}
  // For tensors of `source_bytes` bytes in all, of any set.
  Loader(Threads& threads, const TensorSet& tensors, int64_t source_bytes,
         LoadProgress progress = nullptr)
      : threads_(threads),
        tensors_(tensors),
        source_bytes_(source_bytes),
        progress_(std::move(progress)) {}

  // Calls pack(row_begin, row_end) for all rows (shape[0]) on the threads, in pieces whose borders
  // do not depend on the number of threads; `pack` may be empty, to check only. The error names a
  // tensor with a value that is not finite, or a file that changed meanwhile; what was packed is
  // worthless then.
  Status take(const TensorView& tensor, const std::function<void(int64_t, int64_t)>& pack,
              const Take& how = {});

  // For a tensor that is used where it lies. In a large checkpoint its values are not looked at
  // now, which would read all of it: they are in check_later().
  Status take_in_place(const TensorView& tensor);
  const std::vector<TensorView>& in_place() const { return in_place_; }
  std::vector<TensorView> check_later() const;

  int64_t done_bytes() const { return done_bytes_; }

 private:
  void count(const TensorView& tensor);

  Threads& threads_;
  const TensorSet& tensors_;
  const int64_t source_bytes_;
  LoadProgress progress_;
  int64_t done_bytes_ = 0;
  std::vector<TensorView> in_place_;
};

// Looks for values that are not finite, on the calling thread; `stop` ends it early.
Status check_values(const Checkpoint& checkpoint, std::span<const TensorView> tensors,
                    const std::atomic<bool>& stop);

}  // namespace fovea
