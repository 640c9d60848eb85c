// SPDX-License-Identifier: Apache-2.0
// The canvas: the image rounded to multiples of 32 px, as Qwen's smart_resize does it.
#pragma once

#include <cstdint>
#include <limits>

#include "base/threads.h"
#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

struct CanvasLimits {
  int64_t min_pixels = 65'536;
  int64_t max_pixels = 16'777'216;
};

// The processor's upper limit binds the uniform plan only; other plans keep every pixel.
inline constexpr CanvasLimits kCanvasKeepsAll{65'536, std::numeric_limits<int64_t>::max()};

// The size smart_resize gives; an error when the side ratio is over 200.
Result<Size> canvas_size(Size image, const CanvasLimits& limits = {});

// Resizes with 8-bit fixed-point bicubic (a = -0.5, antialiased when it shrinks), bit for bit what
// transformers' processor computes with its PIL backend (resize.h). Returns the image untouched
// where the size is kept.
Image fit_canvas(Threads& threads, Image image, Size canvas);

}  // namespace fovea
