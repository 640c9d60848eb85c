// SPDX-License-Identifier: Apache-2.0
// Work that is enqueued again and again, kept as CUDA graphs: one launch in place of hundreds.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "device/cuda/stream.h"

namespace fovea {

// What decides which kernels run with which arguments. Everything else must lie in device memory.
using GraphKey = std::vector<int64_t>;
// Rows of a pass up to which a graph pays: the kernels of longer ones take longer than launching
// them, and recording takes milliseconds.
inline constexpr int kMostGraphRows = 1152;

class Graphs {
 public:
  Graphs() = default;
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs() { clear(); }

  // Enqueues what `enqueue` does. The first time it is called, since what is made only once may
  // not be made while a graph is recorded; the second time a graph is recorded; from then on the
  // graph is launched.
  void run(Stream& stream, const GraphKey& key, const std::function<void()>& enqueue);

  void clear();  // where memory that graphs refer to has moved

 private:
#if defined(FOVEA_EMULATE)
  using Executable = void*;
#else
  using Executable = cudaGraphExec_t;
#endif
  struct Entry {
    int runs = 0;
    Executable graph = nullptr;
  };
  static constexpr size_t kMost = 256;
  bool record(Stream& stream, const std::function<void()>& enqueue, Entry& entry);

  Stream* stream_ = nullptr;  // where they run
  std::map<GraphKey, Entry> entries_;
};

}  // namespace fovea
