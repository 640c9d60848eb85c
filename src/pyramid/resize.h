// SPDX-License-Identifier: Apache-2.0
// Bicubic resize of 8-bit RGB in fixed point, bit for bit what Pillow's resize gives, and so what
// transformers' image processor gives with its PIL backend.
//
//   a pass for each side, 8-bit values between them; a side that keeps its size has none:
//   out[i] = clamp((sum_j weight[i][j] * in[first[i] + j] + 2^21) >> 22, 0, 255)
//
// The cubic has a = -0.5 and is stretched by the scale where the side shrinks.
//
// The order of the passes shows in up to a quarter of the values. It is the one of Pillow 13;
// before, Pillow took the horizontal pass first.
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"

namespace fovea {

// Bits after the point: 8-bit values times weights that sum to 1 stay within int32.
inline constexpr int kWeightBits = 22;

// The weights of one side, computed in double and then rounded, halves away from zero.
struct ResizeAxis {
  int in_px = 0;
  int out_px = 0;
  int taps = 0;                 // the stride of `weight`: the most input pixels one output takes
  std::vector<int> first;       // [out_px] the first input pixel
  std::vector<int> count;       // [out_px] how many it takes
  std::vector<int32_t> weight;  // [out_px][taps], zero from count on
};

ResizeAxis make_resize_axis(int in_px, int out_px);

// Whether the vertical pass is the first: the height loses more than twice the pixels of the width.
inline bool vertical_first(Size from, Size to) {
  const int64_t rows_lost = int64_t{from.height_px} - to.height_px;
  const int64_t columns_lost = int64_t{from.width_px} - to.width_px;
  return rows_lost > 0 && rows_lost > 2 * columns_lost;
}

// The fast form; needs the image, the result, and under 1 MiB a thread for common scales.
Image resize_bicubic(Threads& threads, const Image& image, Size size);

// The specification.
Image resize_bicubic_reference(const Image& image, Size size);

namespace detail {

// The passes on the CPU; an axis of equal sizes is skipped, not both may be.
void resize_bicubic_cpu(Threads& threads, const Image& image, const ResizeAxis& horizontal,
                        const ResizeAxis& vertical, Image& out);

}  // namespace detail
}  // namespace fovea
