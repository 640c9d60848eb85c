// SPDX-License-Identifier: Apache-2.0
// The inside of each panel. `views` say what of the canvas stands where.
#pragma once

#include <span>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"
#include "picture/text.h"
#include "picture/view.h"
#include "pyramid/pyramid.h"

namespace fovea {

// The photo, darker and grayer where the plan reads it coarsely, with every cell's border in the
// colour of its level and the fixations in their order.
void draw_plan_panel(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                     const Finest& finest, std::span<const View> views, Image& image);
// Lines from each fixation to the next.
void draw_scan_path(std::span<const Point> fixations, std::span<const View> views, Image& image);
void draw_fixations(std::span<const Point> fixations, std::span<const View> views, Font& font,
                    Image& image);

// The reconstruction; hatched where the plan reads nothing.
void draw_tower_panel(Threads& threads, const Pyramid& pyramid, const Plan& plan,
                      const Finest& finest, std::span<const View> views, Image& image);

// The fine structure of the photo, to be laid over a map so that one sees where one is: lightness
// less its own blur, so that it averages to nothing and the colours keep their meaning.
struct Relief {
  Size size;
  std::vector<uint8_t> light;  // [height][width], darker under kReliefFlat, lighter over it
};
inline constexpr int kReliefFlat = 48;  // of 0..96
Relief make_relief(Threads& threads, const Pyramid& pyramid, std::span<const View> views,
                   const Rect& panel);

// A map in the colours of heat(), smooth between the centres of its cells, with the relief on it.
void draw_map_panel(Threads& threads, const Map& map, Size canvas, const Relief& relief,
                    std::span<const View> views, const Rect& panel, Image& image);

// The colours of heat() from 0 (bottom) to 1 with their figures.
void draw_scale(const Rect& bar, Font& font, Image& image);

}  // namespace fovea
