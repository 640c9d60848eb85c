// SPDX-License-Identifier: Apache-2.0
// Cells of a view -> visual tokens, unless an earlier question has paid for them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/view.h"
#include "patches/patches.h"

namespace fovea {
namespace {

bool operator==(const CellBlock& a, const CellBlock& b) {
  return a.row_begin == b.row_begin && a.row_end == b.row_end && a.col_begin == b.col_begin &&
         a.col_end == b.col_end;
}

std::vector<Cell> cells_of(const CellBlock& block, int first_row, int first_col) {
  std::vector<Cell> cells;
  for (int row = block.row_begin; row < block.row_end; ++row)
    for (int col = block.col_begin; col < block.col_end; ++col)
      cells.push_back({0, row - first_row, col - first_col});
  return cells;
}

// The pixels of a rectangle of level-0 cells.
Image cut_out(const Pyramid& pyramid, const CellBlock& block) {
  Image image(Size{(block.col_end - block.col_begin) * kCellPx,
                   (block.row_end - block.row_begin) * kCellPx});
  const LevelView level = pyramid.level(0);
  const auto row_bytes = static_cast<size_t>(image.size.width_px) * 3;
  for (int y = 0; y < image.size.height_px; ++y)
    std::memcpy(image.row(y),
                level.row(block.row_begin * kCellPx + y) + ptrdiff_t{block.col_begin} * kCellPx * 3,
                row_bytes);
  return image;
}

// Whether the next part of an earlier question is the wanted one; what comes after it is dropped
// where it is not.
bool show_again(ImageView& view, const Encoded& wanted) {
  if (view.shown < view.parts.size()) {
    const Encoded& next = view.parts[view.shown];
    if (next.cells == wanted.cells && next.kept == wanted.kept && next.crop == wanted.crop) {
      ++view.shown;
      return true;
    }
  }
  view.parts.resize(view.shown);
  int64_t kept_cells = 0;
  for (const Encoded& part : view.parts)
    if (part.kept) kept_cells += static_cast<int64_t>(part.cells.size());
  view.memory.truncate(kept_cells * kPatchesPerCell);
  return false;
}

bool add_part(ImageView& view, Encoded part, Looked& looked) {
  looked.watch.lap("tower");
  if (part.tokens.count == 0) return false;  // it was stopped
  looked.encoded_tokens += static_cast<int>(part.cells.size());
  part.number = ++view.encodings;
  view.parts.push_back(std::move(part));
  ++view.shown;
  return true;
}

VisualTokens encode(const Model& model, const Pyramid& pyramid, const std::vector<Cell>& cells,
                    TowerMemory& memory, const EncodeOptions& options, Looked& looked) {
  Plan plan;
  plan.cells = cells;
  const PatchFormat format = model.device ? PatchFormat::kBFloat16 : PatchFormat::kFloat32;
  const Patches patches = sample_patches(*model.threads, pyramid, plan, format);
  looked.watch.lap("patches");
  return model.tower.encode(*model.threads, patches, pyramid.canvas(), memory, options);
}

// Of a view that a device has, whose patches it samples by itself.
VisualTokens encode_on_device(const Model& model, ImageView& view, const std::vector<Cell>& cells,
                              const EncodeOptions& options, Looked& looked) {
  if (options.keep_going && !options.keep_going()) return {};
  auto tokens =
      model.front_end->encode(*view.prepared->on_device, cells, view.memory, options, looked.watch);
  if (!tokens) return model.device->fail(tokens.error()), VisualTokens();
  if (options.keep)
    for (const Cell& cell : cells)
      view.memory.levels.insert(view.memory.levels.end(), kPatchesPerCell, cell.level);
  return std::move(*tokens);
}

}  // namespace

bool show_cells(const Model& model, ImageView& view, std::vector<Cell> cells, bool keep,
                const std::function<bool()>& keep_going, Looked& looked) {
  Encoded part;
  part.cells = std::move(cells);
  part.kept = keep;
  if (part.cells.empty() || show_again(view, part)) return true;
  EncodeOptions options;
  options.keep = keep;
  options.size_bias = view.size_bias;
  options.keep_going = keep_going;
  part.tokens = model.front_end ? encode_on_device(model, view, part.cells, options, looked)
                                : encode(model, view.prepared->pyramid(*model.threads), part.cells,
                                         view.memory, options, looked);
  return add_part(view, std::move(part), looked);
}

bool show_crop(const Model& model, ImageView& view, const CellBlock& crop,
               const std::function<bool()>& keep_going, Looked& looked) {
  Encoded part;
  part.cells = cells_of(crop, 0, 0);
  part.crop = crop;
  if (show_again(view, part)) return true;
  // An ordinary image: its own canvas, its own places, and nothing else to attend to.
  const Pyramid& whole = view.prepared->pyramid(*model.threads);
  const Pyramid pyramid = build_pyramid(*model.threads, cut_out(whole, crop), /*levels=*/1);
  TowerMemory memory;
  part.tokens = encode(model, pyramid, cells_of(crop, crop.row_begin, crop.col_begin), memory,
                       {.keep = false, .keep_going = keep_going}, looked);
  return add_part(view, std::move(part), looked);
}

}  // namespace fovea
