// SPDX-License-Identifier: Apache-2.0
// What the spine of the front end needs to put options into each room's own terms.
#pragma once

#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "fovea/fovea.h"
#include "gaze/gaze.h"
#include "media/decode.h"
#include "picture/picture.h"
#include "pyramid/canvas.h"
#include "relevance/relevance.h"

namespace fovea {

// Options whose names are known.
struct SeeSettings {
  SeeOptions options;
  MakerKind maker = MakerKind::kQuadtree;
  Balance balance = Balance::kMean;
};
Result<SeeSettings> settings_of(SeeOptions options);

ImageLimits image_limits_of(const SeeOptions& options);
CanvasLimits canvas_limits_of(const SeeSettings& settings);
RelevanceParams relevance_params_of(const SeeSettings& settings);
GazeParams gaze_params_of(const SeeSettings& settings);
int budget_of(const SeeSettings& settings);

// An image that was not decoded here keeps the same limits, and its buffer fits its size.
Status check_image(const Image& image, const SeeOptions& options);

// A map from outside has as many scores as its grid says.
Status check_coupling(const Map& coupling);

// Image pixels -> canvas pixels; an error names a point that lies outside the image.
Result<std::vector<Point>> fixations_on_canvas(const std::vector<Point>& fixations, Size image,
                                               Size canvas);

// The title and caption of the picture.
Scenery describe(const Sight& sight, const std::string& name, const SeeOptions& options,
                 const Pyramid& pyramid, const Relevance& relevance, const Stopwatch& watch);

}  // namespace fovea
