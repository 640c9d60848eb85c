// SPDX-License-Identifier: Apache-2.0
#include "relevance/relevance_cuda.h"

#include <vector>

#include "base/check.h"
#include "relevance/information.h"
#include "relevance/information_detail_cuda.h"

namespace fovea {

RelevanceWorkspace::~RelevanceWorkspace() {
  if (fork_ != nullptr) cudaEventDestroy(fork_);
  if (join_ != nullptr) cudaEventDestroy(join_);
}

Status RelevanceWorkspace::make(Size canvas, int images, bool figure_in_shared) {
  FOVEA_CHECK(fork_ == nullptr && images >= 1 && canvas.pixels() > 0);
  std::vector<uint32_t> table(kCellPx * kCellPx + 1);
  for (size_t n = 0; n < table.size(); ++n) table[n] = plogp(n);
  for (Status made :
       {salience_.make(canvas, images, figure_in_shared), plogp_.allocate(table.size()),
        done_.allocate(static_cast<size_t>(images)), beside_.open()})
    if (!made) return made;
  for (cudaEvent_t* event : {&fork_, &join_})
    if (const cudaError_t error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
        error != cudaSuccess)
      return cuda_error("an event", error);
  // In the order that memory is taken in; the other stream does not wait for that.
  cudaStream_t stream = memory_order().stream;
  cudaMemcpyAsync(plogp_.data(), table.data(), plogp_.bytes(), cudaMemcpyHostToDevice, stream);
  cudaMemsetAsync(done_.data(), 0, done_.bytes(), stream);
  const cudaError_t error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? Status(Done{}) : cuda_error("relevance", error);
}

Status RelevanceMemory::make(Size canvas, int level, int images) {
  const Grid grid = grid_at(canvas, level);
  const size_t count = static_cast<size_t>(grid.cells()) * static_cast<size_t>(images);
  DeviceMaps* const maps[] = {&maps_.information,     &maps_.salience,
                              &maps_.coupling,        &maps_.compress_particularize,
                              &maps_.exploit_explore, &maps_.focus_diversify,
                              &maps_.relevance};
  if (Status made = scores_.allocate(std::size(maps) * count); !made) return made;
  for (size_t i = 0; i < std::size(maps); ++i)
    *maps[i] = {grid, images, scores_.data() + i * count};
  return Done{};
}

Status DetailMemory::make(Size canvas, int levels, int images) {
  FOVEA_CHECK(levels >= 1 && levels <= kMaxLevels);
  size_t count = 0;
  for (int k = 1; k < levels; ++k)
    count += static_cast<size_t>(grid_at(canvas, k).cells()) * static_cast<size_t>(images);
  if (Status made = lost_.allocate(count); !made) return made;
  detail_.levels = levels;
  detail_.images = images;
  uint64_t* next = lost_.data();
  for (int k = 0; k < levels; ++k) {
    detail_.grid[k] = grid_at(canvas, k);
    if (k == 0) continue;
    detail_.lost[k] = next;
    next += detail_.grid[k].cells() * images;
  }
  return Done{};
}

void measure_picture_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                          const RelevanceParams& params, RelevanceWorkspace& workspace,
                          const DeviceRelevance& parts, const DeviceDetail* detail) {
  FOVEA_CHECK(parts.information.images == pyramids.images &&
              parts.salience.images == pyramids.images);
  InformationDetail wanted;
  wanted.level = params.level;
  wanted.information = parts.information;
  wanted.plogp = workspace.plogp_.data();
  wanted.done = workspace.done_.data();
  if (detail != nullptr) wanted.detail = *detail;
  begin_salience_cuda(stream, pyramids, workspace.salience_, workspace.fork_);
  // Enqueued after the figure, whose few long blocks should start first.
  cudaStreamWaitEvent(workspace.beside_.get(), workspace.fork_);
  measure_information_detail_cuda(workspace.beside_.get(), pyramids, wanted);
  cudaEventRecord(workspace.join_, workspace.beside_.get());
  finish_salience_cuda(stream, pyramids, {params.level, params.centre_bias}, workspace.salience_,
                       parts.salience);
  cudaStreamWaitEvent(stream, workspace.join_);
}

void measure_relevance_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                            const DeviceMaps* coupling, const RelevanceParams& params,
                            RelevanceWorkspace& workspace, const DeviceRelevance& parts,
                            const DeviceDetail* detail) {
  measure_picture_cuda(stream, pyramids, params, workspace, parts, detail);
  weave_coupling_cuda(stream, pyramids.canvas, coupling, params, parts);
}

void measure_detail_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                         RelevanceWorkspace& workspace, const DeviceDetail& detail) {
  InformationDetail wanted;
  wanted.done = workspace.done_.data();
  wanted.detail = detail;
  measure_information_detail_cuda(stream, pyramids, wanted);
}

}  // namespace fovea
