// SPDX-License-Identifier: Apache-2.0
// The front end on a GPU, one image at a time.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "device/cuda/cuda_accelerator.h"
#include "device/cuda/staging.h"
#include "engine/device_front_end.h"
#include "gaze/plans_cuda.h"
#include "patches/device_patches.h"
#include "pyramid/pyramid_cuda.h"
#include "relevance/relevance_cuda.h"
#include "vision/tower_cuda.h"

namespace fovea {

// A canvas and what was measured of it.
struct PreparedOnDevice : OnDevice, std::enable_shared_from_this<PreparedOnDevice> {
  PyramidsOnDevice pyramid;
  RelevanceMemory relevance;
  DetailMemory detail;

  Size canvas() const { return pyramid.view().canvas; }
  size_t bytes() const override { return pyramid.bytes(); }
};

class CudaFrontEnd : public DeviceFrontEnd, public PutOffWork {
 public:
  CudaFrontEnd(std::shared_ptr<CudaAccelerator> device, std::shared_ptr<CudaTower> tower)
      : device_(std::move(device)), tower_(std::move(tower)) {}

  Result<std::shared_ptr<OnDevice>> prepare(const std::shared_ptr<HostCanvas>& canvas,
                                            const CopyBytes& copy, Stopwatch& watch) override;
  Result<PictureMeasures> measures(OnDevice& prepared) override;
  Result<PlanAnswer> choose(OnDevice& prepared, const PlanRequest& request,
                            Stopwatch& watch) override;
  Result<int64_t> sample(OnDevice& prepared, std::span<const Cell> cells) override;
  Result<VisualTokens> encode(OnDevice& prepared, std::span<const Cell> cells,
                              const CellBlock* crop, TowerMemory& memory,
                              const EncodeOptions& options, Stopwatch& watch) override;
  void start() override;
  ~CudaFrontEnd() override;

 private:
  // Where plans are made; grows.
  struct PlanMemory {
    DeviceMemory<uint16_t> coupling;
    DeviceMemory<Point> fixations;
    DeviceMemory<int> fixation_counts;
    DeviceMemory<unsigned char> workspace;
    DeviceMemory<Cell> cells;
    DeviceMemory<int> counts;
    DeviceMemory<Point> found;
    DeviceMemory<int> found_counts;
    DeviceMemory<int> offsets;
    DeviceMemory<uint16_t> patches;  // where there is no tower to take them
    DeviceMemory<PatchPlace> places;
  };

  // Cells that are to be encoded.
  struct PutOff {
    std::shared_ptr<const PreparedOnDevice> prepared;
    std::vector<Cell> cells;
    std::vector<PatchPlace> places;  // of a crop; empty: those of the cells
    TowerRequest request;
    std::unique_ptr<TowerOrder> order;  // of cells and places; null: as they were given
    std::shared_ptr<OnDevice> memory;   // of the request
    std::vector<float> biases;          // by size; empty: none
    std::shared_ptr<TokensOnDevice> tokens;
  };
  // Of a pass, unless one image has more: enough to fill a device, which then works while the host
  // prepares the images that follow.
  static constexpr int kMostRows = 2048;

  int put_off_rows() const;
  // In passes that requests share; each alone, where such a pass fails. With a watch, patches are a
  // stage.
  void run_put_off(const EncodeOptions& options, Stopwatch* watch);
  Status run_pass(std::span<PutOff* const> pass, const EncodeOptions& options, Stopwatch* watch);
  Result<RelevanceWorkspace*> workspace_for(Size canvas);
  Status sample_into(const PreparedOnDevice& prepared, std::span<const Cell> cells,
                     DevicePatches patches);
  Result<DeviceScene> scene_of(const PreparedOnDevice& prepared, const PlanRequest& request);
  Status weave(const PreparedOnDevice& prepared, const PlanRequest& request);
  Status find_peaks(const DeviceScene& scene, const PlanWorkspace& workspace, PlanAnswer& answer);
  void download_maps(const PreparedOnDevice& prepared, bool coupled, Relevance& relevance);

  std::shared_ptr<CudaAccelerator> device_;
  std::shared_ptr<CudaTower> tower_;
  // The pixels of ten images of 1024x1024, which wait behind a pass of the tower.
  Staging staging_{32};
  Downloads downloads_;
  PlanMemory plans_;
  std::vector<PutOff> put_off_;
  // By canvas; a few, since most pictures of a process are of few sizes.
  std::map<std::pair<int, int>, std::unique_ptr<RelevanceWorkspace>> workspaces_;
};

}  // namespace fovea
