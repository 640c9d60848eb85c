// SPDX-License-Identifier: Apache-2.0
#include "engine/front_end_cuda.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "patches/patches_cuda.h"

namespace fovea {
namespace {

constexpr size_t kMostWorkspaces = 8;

void download_map(Stream& stream, Downloads& downloads, const DeviceMaps& from, Map& to) {
  to = Map(from.grid);
  downloads.add(stream, to.score.data(), from.score, to.score.size());
}

}  // namespace

// Memory that measuring works in; nothing is allocated for a canvas of a size that was there
// before.
Result<RelevanceWorkspace*> CudaFrontEnd::workspace_for(Size canvas) {
  const std::pair key(canvas.width_px, canvas.height_px);
  if (workspaces_.size() >= kMostWorkspaces && workspaces_.find(key) == workspaces_.end()) {
    if (auto done = device_->stream().wait(); !done) return done.error();
    workspaces_.clear();
  }
  auto& workspace = workspaces_[key];
  if (workspace != nullptr) return workspace.get();
  auto made = std::make_unique<RelevanceWorkspace>();
  if (auto done = made->make(canvas, 1); !done) return done.error();
  workspace = std::move(made);
  return workspace.get();
}

Result<std::shared_ptr<OnDevice>> CudaFrontEnd::prepare(const std::shared_ptr<HostCanvas>& here,
                                                        const CopyBytes& copy, Stopwatch& watch) {
  const Image& canvas = here->pixels();
  const CudaAccelerator::Lock lock(*device_);
  const auto workspace = workspace_for(canvas.size);
  if (!workspace) return workspace.error();
  auto prepared = std::make_shared<PreparedOnDevice>();
  Status made = prepared->pyramid.make_in_order(canvas.size, 1);
  if (made) made = prepared->relevance.make(canvas.size, 0, 1);
  if (made) made = prepared->detail.make(canvas.size, level_count(canvas.size), 1);
  if (!made) return made.error();
  cudaStream_t stream = device_->stream().get();
  const DevicePyramids pyramids = prepared->pyramid.view();
  FOVEA_CHECK(pyramids.stride_bytes[0] == int64_t{3} * canvas.size.width_px);
  if (auto sent = staging_.upload(device_->stream(), std::as_bytes(std::span(canvas.rgb)),
                                  pyramids.rgb[0], copy);
      !sent)
    return sent.error();
  watch.lap("upload");
  build_pyramids_cuda(stream, pyramids, prepared->pyramid.done());
  watch.lap("pyramid");
  const DeviceDetail detail = prepared->detail.detail();
  measure_picture_cuda(stream, pyramids, RelevanceParams(), **workspace, prepared->relevance.maps(),
                       &detail);
  watch.lap("relevance");
  return std::shared_ptr<OnDevice>(std::move(prepared));
}

Result<PictureMeasures> CudaFrontEnd::measures(OnDevice& prepared) {
  const CudaAccelerator::Lock lock(*device_);
  const auto& there = static_cast<const PreparedOnDevice&>(prepared);
  Stream& stream = device_->stream();
  PictureMeasures here;
  if (auto opened = downloads_.open(); !opened) return opened.error();
  download_map(stream, downloads_, there.relevance.maps().information, here.relevance.information);
  download_map(stream, downloads_, there.relevance.maps().salience, here.relevance.salience);
  const DeviceDetail& detail = there.detail.detail();
  for (int level = 0; level < detail.levels; ++level) {
    here.detail.grid.push_back(detail.grid[level]);
    auto& lost = here.detail.lost.emplace_back(static_cast<size_t>(detail.grid[level].cells()));
    if (detail.lost[level] != nullptr)
      downloads_.add(stream, lost.data(), detail.lost[level], lost.size());
  }
  if (auto done = downloads_.finish(stream); !done) return done.error();
  return here;
}

// Balances the maps for the question.
Status CudaFrontEnd::weave(const PreparedOnDevice& prepared, const PlanRequest& request) {
  DeviceMaps coupling;
  if (request.coupling != nullptr) {
    if (auto done =
            staging_.upload<uint16_t>(device_->stream(), request.coupling->score, plans_.coupling);
        !done)
      return done;
    coupling = {request.coupling->grid, 1, plans_.coupling.data()};
  }
  weave_coupling_cuda(device_->stream().get(), prepared.canvas(),
                      request.coupling != nullptr ? &coupling : nullptr, request.relevance,
                      prepared.relevance.maps());
  return Done{};
}

Result<DeviceScene> CudaFrontEnd::scene_of(const PreparedOnDevice& prepared,
                                           const PlanRequest& request) {
  DeviceScene scene;
  scene.canvas = prepared.canvas();
  scene.images = 1;
  scene.relevance = prepared.relevance.maps().relevance;
  scene.detail = prepared.detail.detail();
  scene.budget_tokens = request.budget_tokens;
  scene.params = request.gaze;
  if (request.fixations.empty()) return scene;
  Stream& stream = device_->stream();
  if (auto done = staging_.upload<Point>(stream, request.fixations, plans_.fixations); !done)
    return done.error();
  const auto count = static_cast<int>(request.fixations.size());
  if (auto done = staging_.upload<int>(stream, {&count, 1}, plans_.fixation_counts); !done)
    return done.error();
  scene.fixations = plans_.fixations.data();
  scene.fixation_counts = plans_.fixation_counts.data();
  scene.fixation_room = count;
  return scene;
}

void CudaFrontEnd::download_maps(const PreparedOnDevice& prepared, bool coupled,
                                 Relevance& relevance) {
  Stream& stream = device_->stream();
  const DeviceRelevance& maps = prepared.relevance.maps();
  download_map(stream, downloads_, maps.information, relevance.information);
  download_map(stream, downloads_, maps.salience, relevance.salience);
  if (coupled) download_map(stream, downloads_, maps.coupling, relevance.coupling);
  download_map(stream, downloads_, maps.compress_particularize, relevance.compress_particularize);
  download_map(stream, downloads_, maps.exploit_explore, relevance.exploit_explore);
  download_map(stream, downloads_, maps.focus_diversify, relevance.focus_diversify);
  download_map(stream, downloads_, maps.relevance, relevance.relevance);
}

// The fixations that a cortical plan took by itself.
Status CudaFrontEnd::find_peaks(const DeviceScene& scene, const PlanWorkspace& workspace,
                                PlanAnswer& answer) {
  DeviceFixations found;
  found.room = most_fixations(scene);
  Status made = plans_.found.at_least(static_cast<size_t>(found.room));
  if (made) made = plans_.found_counts.at_least(1);
  if (!made) return made;
  found.points = plans_.found.data();
  found.counts = plans_.found_counts.data();
  Stream& stream = device_->stream();
  find_fixations_cuda(stream.get(), scene, workspace, found);
  int count = 0;
  answer.fixations.resize(static_cast<size_t>(found.room));
  stream.download(answer.fixations.data(), found.points, answer.fixations.size());
  stream.download(&count, found.counts, 1);
  if (auto done = stream.wait(); !done) return done;
  answer.fixations.resize(static_cast<size_t>(count));
  return Done{};
}

Result<PlanAnswer> CudaFrontEnd::choose(OnDevice& prepared, const PlanRequest& request,
                                        Stopwatch& /*watch*/) {
  const CudaAccelerator::Lock lock(*device_);
  const auto& there = static_cast<const PreparedOnDevice&>(prepared);
  Stream& stream = device_->stream();
  if (auto woven = weave(there, request); !woven) return woven.error();
  const auto scene = scene_of(there, request);
  if (!scene) return scene.error();
  PlanWorkspace workspace;
  workspace.shared_limit_bytes = device_->shared_limit_bytes();
  workspace.bytes = plan_workspace_bytes(*scene, workspace.shared_limit_bytes);
  const int room = plan_room(scene->canvas, scene->budget_tokens);
  Status made = plans_.workspace.at_least(workspace.bytes);
  if (made) made = plans_.cells.at_least(static_cast<size_t>(room));
  if (made) made = plans_.counts.at_least(1);
  if (!made) return made.error();
  workspace.data = plans_.workspace.data();
  const DevicePlans plans{scene->canvas, 1, room, plans_.cells.data(), plans_.counts.data()};
  make_plans_cuda(stream.get(), request.maker, *scene, workspace, plans);

  PlanAnswer answer;
  if (auto opened = downloads_.open(); !opened) return opened.error();
  answer.fixations = request.fixations;
  answer.cells.resize(static_cast<size_t>(room));
  int count = 0;
  downloads_.add(stream, answer.cells.data(), plans.cells, answer.cells.size());
  downloads_.add(stream, &count, plans.counts, 1);
  download_maps(there, request.coupling != nullptr, answer.relevance);
  if (auto done = downloads_.finish(stream); !done) return done.error();
  answer.cells.resize(static_cast<size_t>(count));
  if (request.maker == MakerKind::kCortical && request.fixations.empty())
    if (auto found = find_peaks(*scene, workspace, answer); !found) return found.error();
  return answer;
}

// Of a still image: one frame.
Status CudaFrontEnd::sample_into(const PreparedOnDevice& prepared, std::span<const Cell> cells,
                                 DevicePatches patches) {
  Stream& stream = device_->stream();
  const auto count = static_cast<int>(cells.size());
  Status done = staging_.upload<Cell>(stream, cells, plans_.cells);
  if (done) done = staging_.upload<int>(stream, {&count, 1}, plans_.counts);
  if (done) done = plans_.offsets.at_least(2);
  if (!done) return done;
  patches.frames = 1;
  patches.offsets = plans_.offsets.data();
  sample_patches_cuda(stream.get(), prepared.pyramid.view(),
                      {prepared.canvas(), 1, count, plans_.cells.data(), plans_.counts.data()},
                      patches);
  return Done{};
}

Result<int64_t> CudaFrontEnd::sample(OnDevice& prepared, std::span<const Cell> cells) {
  const CudaAccelerator::Lock lock(*device_);
  const size_t count = cells.size() * kPatchesPerCell;
  const size_t values = count * kPatchValues / 2;
  Status done = plans_.patches.at_least(values);
  if (done) done = plans_.places.at_least(count);
  DevicePatches patches;
  patches.values = plans_.patches.data();
  patches.places = plans_.places.data();
  if (done) done = sample_into(static_cast<const PreparedOnDevice&>(prepared), cells, patches);
  if (done) done = device_->stream().wait();
  if (!done) return done.error();
  return static_cast<int64_t>(values * sizeof(uint16_t));
}

CudaFrontEnd::~CudaFrontEnd() {
  for (const PutOff& one : put_off_) one.tokens->waits_for = nullptr;
}

int CudaFrontEnd::put_off_rows() const {
  int rows = 0;
  for (const PutOff& one : put_off_) rows += one.request.count;
  return rows;
}

Result<VisualTokens> CudaFrontEnd::encode(OnDevice& prepared, std::span<const Cell> cells,
                                          const CellBlock* crop, TowerMemory& memory,
                                          const EncodeOptions& options, Stopwatch& watch) {
  if (options.keep_going && !options.keep_going()) return VisualTokens();
  const CudaAccelerator::Lock lock(*device_);
  PutOff one;
  one.prepared = static_cast<PreparedOnDevice&>(prepared).shared_from_this();
  one.cells.assign(cells.begin(), cells.end());
  Size canvas = one.prepared->canvas();
  if (!options.attention.is_dense() && memory.patches() == 0) {
    one.order = std::make_unique<TowerOrder>(options.attention, cells,
                                             crop == nullptr ? 0 : crop->row_begin,
                                             crop == nullptr ? 0 : crop->col_begin);
    std::transform(one.order->cells.begin(), one.order->cells.end(), one.cells.begin(),
                   [&](int cell) { return cells[static_cast<size_t>(cell)]; });
  }
  std::vector<int> levels;
  for (const Cell& cell : one.cells) levels.insert(levels.end(), kPatchesPerCell, cell.level);
  if (crop != nullptr) {
    canvas = {(crop->col_end - crop->col_begin) * kCellPx,
              (crop->row_end - crop->row_begin) * kCellPx};
    for (const Cell& cell : one.cells)
      for (int i = 0; i < kPatchesPerCell; ++i) {
        const int row = (cell.row - crop->row_begin) * 2 + i / 2;
        const int col = (cell.col - crop->col_begin) * 2 + i % 2;
        one.places.push_back({static_cast<float>(row), static_cast<float>(col), 0});
      }
  }
  // Keys and values that these patches attend to are written before.
  const bool follows =
      memory.on_device && std::any_of(put_off_.begin(), put_off_.end(), [&](const PutOff& other) {
        return other.memory == memory.on_device;
      });
  if (follows || put_off_rows() + static_cast<int>(levels.size()) > kMostRows) start();
  auto request = tower_->request_for(levels, canvas, memory, options);
  if (!request) return request.error();
  auto tokens = tower_->tokens_for(static_cast<int>(cells.size()));
  if (!tokens) return tokens.error();
  one.request = *request;
  one.request.order = one.order.get();
  if (request->memory != nullptr) one.memory = memory.on_device;
  if (options.size_bias) one.biases = CudaTower::size_biases(memory, levels);
  one.tokens = *tokens;
  one.tokens->waits_for = this;
  one.request.tokens = one.tokens.get();
  put_off_.push_back(std::move(one));
  // Those who see each block, or time each stage, want it by itself.
  if (options.on_block || device_->on_stage)
    run_put_off(options, &watch);
  else
    watch.lap("patches");
  if (options.keep) memory.levels.insert(memory.levels.end(), levels.begin(), levels.end());
  VisualTokens result;
  result.count = static_cast<int>(cells.size());
  result.width = tower_->width();
  result.on_device = std::move(*tokens);
  return Result<VisualTokens>(std::move(result));
}

void CudaFrontEnd::start() {
  if (put_off_.empty()) return;
  const CudaAccelerator::Lock lock(*device_);
  run_put_off({}, nullptr);
}

// Those that attend by kinds by themselves; of the others those of which no keys and values are
// kept in one pass, those of which they are in another. Memory of the host that runs out is theirs,
// too.
void CudaFrontEnd::run_put_off(const EncodeOptions& options, Stopwatch* watch) {
  std::vector<PutOff> all = std::move(put_off_);
  put_off_.clear();
  std::vector<std::vector<PutOff*>> passes;
  const Status grouped = within_memory([&]() -> Status {
    passes.resize(2);
    for (PutOff& one : all) {
      if (one.order != nullptr)
        passes.push_back({&one});
      else
        passes[one.request.memory != nullptr ? 1 : 0].push_back(&one);
    }
    return Done{};
  });
  const auto run = [&](std::span<PutOff* const> pass) {
    return within_memory([&] { return run_pass(pass, options, watch); });
  };
  for (const std::vector<PutOff*>& pass : passes) {
    if (pass.empty() || !grouped) continue;
    const Status done = run(pass);
    for (PutOff* one : pass) {
      // There may be memory for each, where there is none for all.
      const bool alone = done || pass.size() == 1;
      one->tokens->status = alone ? done : run({&one, 1});
    }
  }
  for (PutOff& one : all) {
    if (!grouped) one.tokens->status = grouped;
    one.tokens->waits_for = nullptr;
  }
}

Status CudaFrontEnd::run_pass(std::span<PutOff* const> pass, const EncodeOptions& options,
                              Stopwatch* watch) {
  int rows = 0;
  std::vector<float> biases;
  for (const PutOff* one : pass) {
    rows += one->request.count;
    biases.insert(biases.end(), one->biases.begin(), one->biases.end());
  }
  const auto input = tower_->input(rows);
  if (!input) return input.error();
  const float* bias = nullptr;
  if (!biases.empty()) {
    const auto uploaded = tower_->upload_biases(biases);
    if (!uploaded) return uploaded.error();
    bias = *uploaded;
  }
  std::vector<TowerRequest> requests;
  int64_t row = 0;
  for (PutOff* one : pass) {
    DevicePatches patches;
    patches.values = reinterpret_cast<uint16_t*>(input->patches) + row * (kPatchValues / 2);
    patches.places = input->places + row;
    if (auto done = sample_into(*one->prepared, one->cells, patches); !done) return done;
    if (!one->places.empty())
      if (auto done = staging_.upload(device_->stream(), std::as_bytes(std::span(one->places)),
                                      input->places + row);
          !done)
        return done;
    if (!one->biases.empty()) {
      one->request.key_bias = bias;
      bias += one->biases.size();
    }
    requests.push_back(one->request);
    row += one->request.count;
  }
  if (watch != nullptr) watch->lap("patches");
  const auto encoded = tower_->run(requests, options, /*frames=*/1);
  return encoded ? Status(Done{}) : Status(encoded.error());
}

}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_make_front_end(
    const std::shared_ptr<fovea::Accelerator>& device,
    const std::shared_ptr<fovea::DeviceTower>& tower, fovea::Threads& /*threads*/,
    fovea::Result<std::shared_ptr<fovea::DeviceFrontEnd>>& result) {
  result = std::shared_ptr<fovea::DeviceFrontEnd>(std::make_shared<fovea::CudaFrontEnd>(
      std::static_pointer_cast<fovea::CudaAccelerator>(device),
      std::static_pointer_cast<fovea::CudaTower>(tower)));
}
