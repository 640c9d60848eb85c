// SPDX-License-Identifier: Apache-2.0
// The tower on a GPU where patches attend to each other by kinds.
#include <utility>

#include "base/check.h"
#include "vision/tower_cuda.h"

namespace fovea {
namespace {

std::vector<GridPlace> grid_places(std::span<const Cell> cells, int row, int col) {
  std::vector<GridPlace> places;
  for (const Cell& cell : cells)
    for (int i = 0; i < kPatchesPerCell; ++i)
      places.push_back({cell.level, (cell.col - col) * 2 + i % 2, (cell.row - row) * 2 + i / 2});
  return places;
}

}  // namespace

TowerOrder::TowerOrder(const AttentionSchedule& its_attention, RowBlocks its_rows)
    : attention(its_attention), rows(std::move(its_rows)) {
  for (size_t i = 0; i < rows.order.size(); i += kPatchesPerCell)
    cells.push_back(rows.order[i] / kPatchesPerCell);
}

TowerOrder::TowerOrder(const AttentionSchedule& its_attention, std::span<const Cell> given, int row,
                       int col)
    : TowerOrder(its_attention, block_rows(grid_places(given, row, col))) {}

bool CudaTower::has_kind(AttentionKind kind) const {
  if (kind == AttentionKind::kDense) return true;
  const bool has_kernels =
      kEmulated || (attention_kernels_ == KernelChoice::kBest && attention_.tensor_cores());
  return has_kernels && has_cuda_form(kind);
}

Status CudaTower::place_order(const TowerRequest& request, const AttentionSequence& sequence,
                              Pass& pass) {
  const TowerOrder& order = *request.order;
  FOVEA_CHECK(pass.sequences == 1 && request.kept == 0);
  pass.order = &order;
  pass.ordered = sequence;
  std::vector<float> biases;
  if (request.key_bias != nullptr)
    for (const GridPlace& place : order.rows.places) biases.push_back(size_bias(place.level));
  if (auto done = staging_.upload<int>(device_->stream(), order.cells, work_.cells); !done)
    return done;
  return sparse_.place(device_->stream(), staging_, order.rows, biases, config_.num_heads,
                       config_.head_dim, order.attention.parts());
}

void CudaTower::attend_by_kind(const Pass& pass, const AttentionShape& shape,
                               const SparseSettings& settings) {
  const AttentionSequence& sequence = pass.ordered;
  const int64_t layer = int64_t{shape.layer} * shape.kv_heads * sequence.capacity * shape.head_dim;
  sparse_.attend(device_->stream().get(),
                 {.q = work_.wide.data(),
                  .q_stride = 3 * config_.hidden_size,
                  .keys = sequence.keys + layer,
                  .values = sequence.values + layer,
                  .capacity = sequence.capacity,
                  .scale = shape.scale,
                  .out = work_.narrow.data(),
                  .out_stride = config_.hidden_size},
                 settings);
}

}  // namespace fovea
