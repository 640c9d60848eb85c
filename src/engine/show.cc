// SPDX-License-Identifier: Apache-2.0
// Cells of a view -> visual tokens, unless an earlier question has paid for them.
#include <algorithm>
#include <utility>

#include "engine/view.h"
#include "memory/key_values.h"

namespace fovea {
namespace {

bool operator==(const CellBlock& a, const CellBlock& b) {
  return a.row_begin == b.row_begin && a.row_end == b.row_end && a.col_begin == b.col_begin &&
         a.col_end == b.col_end;
}

std::vector<Cell> cells_of(const CellBlock& block) {
  std::vector<Cell> cells;
  for (int row = block.row_begin; row < block.row_end; ++row)
    for (int col = block.col_begin; col < block.col_end; ++col) cells.push_back({0, row, col});
  return cells;
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

void push_part(ImageView& view, Encoded part) {
  part.number = ++view.encodings;
  view.parts.push_back(std::move(part));
  ++view.shown;
}

// What a part's tokens depend on, where the pixels are known; parts that are kept attend to those
// before them. The index of beginnings belongs to one model, so that none is named.
Digest content_of(const ImageView& view, const Encoded& part) {
  if (!view.content || !view.share) return {};
  Hasher hasher;
  hasher.text("part").text(view.salt).value(*view.content);
  hasher.value(view.limits.min_pixels).value(view.limits.max_pixels);
  hasher.value(view.size_bias ? 1 : 0).value(part.kept ? 1 : 0).text(view.attention.text());
  const auto [top, bottom, left, right] = part.crop;
  hasher.value(top).value(bottom).value(left).value(right);
  if (part.kept)
    for (const Encoded& before : view.shown_parts())
      if (before.kept) hasher.value(before.content);
  for (const Cell& cell : part.cells) hasher.value(cell.level).value(cell.row).value(cell.col);
  return hasher.finish();
}

// Whether other sessions may use a part: a glance, which no question changes.
bool is_shared(const Model& model, const ImageView& view, const Encoded& part) {
  return model.beginnings && part.kept && view.shown == 0 && part.content != Digest();
}

std::vector<Digest> patch_keys(const Encoded& part) {
  std::vector<Digest> keys;
  keys.reserve(part.cells.size() * kPatchesPerCell);
  for (size_t i = 0; i < part.cells.size() * kPatchesPerCell; ++i)
    keys.push_back(Hasher().text("patch").value(part.content).value(i).finish());
  return keys;
}

// Takes a part that another session has encoded, keys, values and tokens.
bool show_shared(const Model& model, ImageView& view, Encoded& part) {
  const std::vector<Digest> keys = patch_keys(part);
  view.memory.open(model.config().vision);
  const int64_t ends[] = {static_cast<int64_t>(keys.size())};
  const auto found = model.beginnings->find(keys, ends, 0, tables_of(view.memory.blocks));
  if (found.tokens == 0) return false;
  for (const Cell& cell : part.cells)
    view.memory.levels.insert(view.memory.levels.end(), kPatchesPerCell, cell.level);
  part.tokens = std::static_pointer_cast<const VisualTokens>(found.extra);
  push_part(view, std::move(part));
  return true;
}

// Encodes a part and shows it. False where it was stopped.
Result<bool> encode(const Model& model, ImageView& view, Encoded part, const EncodeOptions& options,
                    Looked& looked) {
  // A crop is an ordinary image: its own canvas, its own places, and nothing else to attend to.
  TowerMemory of_crop;
  of_crop.pages = view.memory.pages;
  auto tokens = model.front_end->encode(
      *view.prepared->on_device, part.cells, part.is_crop() ? &part.crop : nullptr,
      part.is_crop() ? of_crop : view.memory, options, looked.watch);
  if (!tokens) return tokens.error();
  looked.watch.lap("tower");
  if (tokens->count == 0) return false;
  part.tokens = std::make_shared<const VisualTokens>(std::move(*tokens));
  looked.encoded_tokens += static_cast<int>(part.cells.size());
  push_part(view, std::move(part));
  return true;
}

}  // namespace

Result<bool> show_cells(const Model& model, ImageView& view, std::vector<Cell> cells, bool keep,
                        const std::function<bool()>& keep_going, Looked& looked) {
  Encoded part;
  part.cells = std::move(cells);
  part.kept = keep;
  if (part.cells.empty() || show_again(view, part)) return true;
  part.content = content_of(view, part);
  const bool shared = is_shared(model, view, part);
  if (shared && show_shared(model, view, part)) return true;
  auto shown = encode(model, view, std::move(part),
                      {.keep = keep,
                       .attention = view.attention,
                       .size_bias = view.size_bias,
                       .keep_going = keep_going},
                      looked);
  if (shown && *shown && shared)
    model.beginnings->insert(patch_keys(view.parts.back()),
                             tables_of(std::as_const(view.memory).blocks),
                             view.parts.back().tokens);
  return shown;
}

Result<bool> show_crop(const Model& model, ImageView& view, const CellBlock& crop,
                       const std::function<bool()>& keep_going, Looked& looked) {
  Encoded part;
  part.cells = cells_of(crop);
  part.crop = crop;
  if (show_again(view, part)) return true;
  part.content = content_of(view, part);
  return encode(model, view, std::move(part),
                {.keep = false, .attention = view.attention, .keep_going = keep_going}, looked);
}

}  // namespace fovea
