// SPDX-License-Identifier: Apache-2.0
// Bicubic resize of 8-bit RGB in fixed point, bit for bit what torchvision's resize gives with
// antialias, and so what transformers' image processor gives.
//
//   horizontal, then vertical, 8-bit values between them; a side that keeps its size has no pass:
//   out[i] = clamp((sum_j weight[i][j] * in[first[i] + j] + 2^(bits-1)) >> bits, 0, 255)
//
// The cubic has a = -0.5 and is stretched by the scale where the side shrinks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"

namespace fovea {

// The weights of one side. They are rounded to 16 bits at the highest precision at which the
// largest of them still fits, at most 22 bits after the point.
struct ResizeAxis {
  int in_px = 0;
  int out_px = 0;
  int precision_bits = 0;
  int taps = 0;                 // the stride of `weight`: the most input pixels one output takes
  std::vector<int> first;       // [out_px] the first input pixel
  std::vector<int> count;       // [out_px] how many it takes
  std::vector<int16_t> weight;  // [out_px][taps], zero from count on
};

ResizeAxis make_resize_axis(int in_px, int out_px);

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
