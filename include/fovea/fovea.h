// SPDX-License-Identifier: Apache-2.0
// Fovea's public surface: the one header a program includes.
//
//   auto sight = fovea::see("photo.jpg", {.plan = "quadtree", .budget_tokens = 96});
//   if (!sight) return complain(sight.error().message);
//   for (const fovea::Cell& cell : sight->plan.cells) ...
//   fovea::save_png("seen.png", sight->picture);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

const char* version();

// The CPU first, then what the run-time libraries for CUDA and Vulkan find.
std::vector<Device> devices();

// A plan maker and what it promises.
struct PlanKind {
  std::string name;
  std::string description;
};
std::vector<PlanKind> plan_kinds();

// What the program refuses or assumes unless told otherwise.
struct Limits {
  int64_t max_pixels = 0;      // larger images are refused
  int max_side_ratio = 0;      // so are longer ones
  int budget_tokens = 0;       // the default budget
  int64_t uniform_pixels = 0;  // the canvas of the uniform plan is shrunk to this
};
Limits limits();

struct SeeOptions {
  std::string plan = "quadtree";  // one of plan_kinds()
  int budget_tokens = -1;         // the most cells; -1: the default (96; level 0 for "uniform")
  std::string question;           // shown in the picture; couples through `coupling`
  std::vector<Point> fixations;  // pixels of the image after EXIF rotation; none: relevance decides
  Map coupling;  // what the question has to do with each place; any grid, may be empty
  std::string balance = "mean";  // how relevance is balanced: "mean", "product" or "sum"
  bool centre_bias = true;       // people look to the middle first
  bool draw = true;              // fill Sight::picture
  int64_t max_pixels = 0;        // refuse larger images; 0: the default limit of 178,956,970
  int threads = 0;               // 0: the cores this process may use
};

// What the front end made of one image, and everything that choice rests on.
struct Sight {
  Size image;
  Size canvas;
  Plan plan;
  int64_t tokens_full = 0;       // cells of the uniform level-0 plan of this canvas
  int64_t patch_bytes = 0;       // what the tower would be given, as float32
  std::vector<Point> fixations;  // canvas pixels: the given ones, or those the maker took
  Map information;               // all maps: one score a level-0 cell
  Map salience;
  Map coupling;  // all zero where nothing was asked
  Map relevance;
  std::vector<StageTime> times;
  Image picture;  // for a person; empty where SeeOptions::draw is off
};

// Looks at an image without a model: what would the tower be given, and why?
Result<Sight> see(const std::string& path, const SeeOptions& options = {});
Result<Sight> see(std::span<const uint8_t> file_bytes, const SeeOptions& options = {});
Result<Sight> see(Image image, const SeeOptions& options = {});

// Reads a picture as a map of any grid, by its lightness: black 0, white 1.
Result<Map> load_map(const std::string& path);

Status save_png(const std::string& path, const Image& image);
Status save_png(const std::string& path, const Map& map);  // 16-bit gray, one pixel a cell

}  // namespace fovea
