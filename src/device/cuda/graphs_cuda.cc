// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/graphs.h"

namespace fovea {

#if defined(FOVEA_EMULATE)

void Graphs::run(Stream& /*stream*/, const GraphKey& key, const std::function<void()>& enqueue) {
  ++entries_[key].runs;
  enqueue();
}
void Graphs::clear() { entries_.clear(); }

#else

bool Graphs::record(Stream& stream, const std::function<void()>& enqueue, Entry& entry) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) != cudaSuccess)
    return false;
  enqueue();
  if (cudaStreamEndCapture(stream.get(), &graph) != cudaSuccess) return false;
  const cudaError_t made = cudaGraphInstantiate(&entry.graph, graph, 0);
  cudaGraphDestroy(graph);
  if (made != cudaSuccess) entry.graph = nullptr;
  return made == cudaSuccess;
}

void Graphs::run(Stream& stream, const GraphKey& key, const std::function<void()>& enqueue) {
  stream_ = &stream;
  if (entries_.size() >= kMost && entries_.find(key) == entries_.end()) clear();
  Entry& entry = entries_[key];
  ++entry.runs;
  // Work that cannot be recorded is enqueued as ever.
  if (entry.runs == 2 && !record(stream, enqueue, entry)) cudaGetLastError();
  if (entry.graph == nullptr) {
    enqueue();
    return;
  }
  cudaGraphLaunch(entry.graph, stream.get());
}

void Graphs::clear() {
  // One that is still running is not to be destroyed.
  if (stream_ != nullptr && !entries_.empty()) (void)stream_->wait();
  for (auto& [key, entry] : entries_)
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  entries_.clear();
}

#endif

}  // namespace fovea
