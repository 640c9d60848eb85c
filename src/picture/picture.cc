// SPDX-License-Identifier: Apache-2.0
#include "picture/picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "picture/layout.h"
#include "picture/legend.h"
#include "picture/panels.h"

namespace fovea {
namespace {

constexpr int kPanelTextPx = 19;
constexpr int kNoteTextPx = 15;

struct MapPanel {
  const Map* map;
  std::u32string title;
  std::u32string note;
};

std::vector<MapPanel> present_maps(const Relevance* relevance) {
  std::vector<MapPanel> panels;
  if (relevance == nullptr) return panels;
  panels = {{&relevance->information, U"Information", U"how much there is to see"},
            {&relevance->salience, U"Salience", U"what stands out"},
            {&relevance->coupling, U"Coupling", U"what the question points at"},
            {&relevance->relevance, U"Relevance", U"what the plan follows"}};
  std::erase_if(panels, [](const MapPanel& panel) { return panel.map->empty(); });
  return panels;
}

// A title over a panel, and a note behind it where there is room.
void draw_panel_title(const Rect& panel, const std::u32string& title, const std::u32string& note,
                      Font& font, Image& image) {
  const int bottom = panel.y_px - 9;
  const int x = font.draw(image, panel.x_px, bottom - font.line_px(kPanelTextPx) + 3,
                          font.fit(title, kPanelTextPx, panel.width_px), kPanelTextPx, ink::kText) +
                12;
  if (x + font.width_px(note, kNoteTextPx) > panel.right_px()) return;
  const int baseline = bottom - font.line_px(kPanelTextPx) + 3 + font.ascent_px(kPanelTextPx);
  font.draw(image, x, baseline - font.ascent_px(kNoteTextPx), note, kNoteTextPx, ink::kSoft);
}

Rect moved(Rect rect, int x, int y) {
  rect.x_px += x;
  rect.y_px += y;
  return rect;
}

std::u32string plan_note(const Plan& plan, const Folding& folding) {
  std::string note = fmt::format("{} {}, coloured by level", grouped(plan.tokens()),
                                 plan.tokens() == 1 ? "cell" : "cells");
  if (folding.parts > 1)
    note += fmt::format("; canvas cut into {} {}", folding.parts,
                        folding.columns ? "columns, left to right" : "rows, top to bottom");
  return decode_utf8(note);
}

}  // namespace

Image draw_picture(Threads& threads, const Scenery& scenery) {
  FOVEA_CHECK(scenery.pyramid != nullptr && scenery.plan != nullptr);
  const Pyramid& pyramid = *scenery.pyramid;
  const Plan& plan = *scenery.plan;
  const Size canvas = pyramid.canvas();
  const Finest finest = find_finest(plan, canvas);
  const std::vector<MapPanel> maps = present_maps(scenery.relevance);

  Font font;
  const Legend legend(plan, finest, font);
  const Layout layout = lay_out(canvas, static_cast<int>(maps.size()),
                                [&](int width_px) { return legend.height_px(width_px); });
  const Header header(scenery, layout.size.width_px, font);
  const Caption caption(scenery, layout.size.width_px, font);
  const int top = kMarginPx - 10 + header.height_px() + kGapPx / 2;
  const int caption_y = top + layout.size.height_px + kGapPx + 4;
  Image image(
      {layout.size.width_px + 2 * kMarginPx, caption_y + caption.height_px() + kMarginPx - 12});
  fill(image, bounds(image), ink::kGround);

  header.draw(kMarginPx, kMarginPx - 10, image);
  const auto views = [&](const Rect& panel) { return fold_views(canvas, layout.folding, panel); };
  const Rect plan_panel = moved(layout.plan, kMarginPx, top);
  draw_panel_title(plan_panel, U"Plan", plan_note(plan, layout.folding), font, image);
  draw_plan_panel(threads, pyramid, plan, finest, views(plan_panel), image);
  if (scenery.scan_path) draw_scan_path(scenery.fixations, views(plan_panel), image);
  draw_fixations(scenery.fixations, views(plan_panel), font, image);

  const Rect tower_panel = moved(layout.tower, kMarginPx, top);
  draw_panel_title(tower_panel, U"What the tower sees", U"each cell at its own level", font, image);
  draw_tower_panel(threads, pyramid, plan, finest, views(tower_panel), image);
  legend.draw(moved(layout.legend, kMarginPx, top), image);

  Relief relief;
  for (size_t i = 0; i < maps.size(); ++i) {
    const Rect panel = moved(layout.maps[i], kMarginPx, top);
    if (i == 0) relief = make_relief(threads, pyramid, views(panel), panel);
    draw_panel_title(panel, maps[i].title, maps[i].note, font, image);
    draw_map_panel(threads, *maps[i].map, canvas, relief, views(panel), panel, image);
  }
  if (!maps.empty()) draw_scale(moved(layout.scale, kMarginPx, top), font, image);
  caption.draw(kMarginPx, caption_y, image);
  return image;
}

}  // namespace fovea
