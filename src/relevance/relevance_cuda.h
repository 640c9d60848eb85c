// SPDX-License-Identifier: Apache-2.0
// Relevance on the device: relevance.h for a batch of canvases of one size, without a word to the
// host in between. All work is enqueued; nothing is allocated and nothing waits.
//
// measure_picture_cuda is seven launches, weave_coupling_cuda (balance_cuda.h) one.
#pragma once

#include "device/cuda/stream.h"
#include "pyramid/device_pyramids.h"
#include "relevance/balance_cuda.h"
#include "relevance/device_maps.h"
#include "relevance/relevance.h"
#include "relevance/salience_cuda.h"

namespace fovea {

// What measuring needs beside its input and output, for canvases of one size.
class RelevanceWorkspace {
 public:
  RelevanceWorkspace() = default;
  RelevanceWorkspace(const RelevanceWorkspace&) = delete;
  RelevanceWorkspace& operator=(const RelevanceWorkspace&) = delete;
  ~RelevanceWorkspace();

  // For up to so many images at once, at any level of the canvas. Once.
  Status make(Size canvas, int images, bool figure_in_shared = true);

 private:
  friend void measure_picture_cuda(cudaStream_t, const DevicePyramids&, const RelevanceParams&,
                                   RelevanceWorkspace&, const DeviceRelevance&,
                                   const DeviceDetail*);
  friend void measure_detail_cuda(cudaStream_t, const DevicePyramids&, RelevanceWorkspace&,
                                  const DeviceDetail&);

  SalienceWorkspace salience_;
  DeviceMemory<uint32_t> plogp_;
  DeviceMemory<unsigned> done_;
  // Information and detail are read from memory while the figure keeps the arithmetic busy.
  Stream beside_;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
};

// Memory for all maps of a batch.
class RelevanceMemory {
 public:
  Status make(Size canvas, int level, int images);
  const DeviceRelevance& maps() const { return maps_; }

 private:
  DeviceMemory<uint16_t> scores_;
  DeviceRelevance maps_;
};

// Memory for the detail of a batch.
class DetailMemory {
 public:
  Status make(Size canvas, int levels, int images);
  const DeviceDetail& detail() const { return detail_; }

 private:
  DeviceMemory<uint64_t> lost_;
  DeviceDetail detail_;
};

// Information and salience, which no question changes; with `detail` that too, from the same
// reading of the pixels.
void measure_picture_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                          const RelevanceParams& params, RelevanceWorkspace& workspace,
                          const DeviceRelevance& parts, const DeviceDetail* detail = nullptr);

// All of it. `coupling` is null where no question was asked.
void measure_relevance_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                            const DeviceMaps* coupling, const RelevanceParams& params,
                            RelevanceWorkspace& workspace, const DeviceRelevance& parts,
                            const DeviceDetail* detail = nullptr);

// Detail alone. One launch.
void measure_detail_cuda(cudaStream_t stream, const DevicePyramids& pyramids,
                         RelevanceWorkspace& workspace, const DeviceDetail& detail);

}  // namespace fovea
