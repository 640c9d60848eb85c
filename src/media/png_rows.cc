// SPDX-License-Identifier: Apache-2.0
#include "media/png_rows.h"

#include <cstddef>
#include <cstring>

#include "media/composite.h"

namespace fovea {
namespace {

struct Target {
  uint8_t* rgb;
  size_t stride_bytes;
};

int through_table(const PngPixels& pixels, const uint8_t* samples, int count, Target target) {
  for (int i = 0; i < count; ++i, target.rgb += target.stride_bytes) {
    if (samples[i] >= pixels.table_size) return samples[i];
    std::memcpy(target.rgb, pixels.table[samples[i]].data(), 3);
  }
  return -1;
}

// kColours: 1 for gray, 3 for RGB; kBytes: of one sample. The first byte is the high one.
template <size_t kColours, size_t kBytes>
void opaque(const PngPixels& pixels, const uint8_t* samples, int count, Target target) {
  for (int i = 0; i < count; ++i, target.rgb += target.stride_bytes) {
    const uint8_t* pixel = samples + static_cast<size_t>(i) * (kColours * kBytes);
    for (size_t c = 0; c < 3; ++c) target.rgb[c] = pixel[kColours == 3 ? c * kBytes : 0];
  }
  if (!pixels.key) return;
  target.rgb -= static_cast<size_t>(count) * target.stride_bytes;
  for (int i = 0; i < count; ++i, target.rgb += target.stride_bytes) {
    const uint8_t* pixel = samples + static_cast<size_t>(i) * (kColours * kBytes);
    bool transparent = true;
    for (size_t c = 0; c < kColours; ++c) {
      const uint8_t* sample = pixel + c * kBytes;
      const int value = kBytes == 2 ? sample[0] << 8 | sample[1] : sample[0];
      transparent = transparent && value == (*pixels.key)[c];
    }
    if (transparent) std::memset(target.rgb, 255, 3);
  }
}

template <size_t kColours, size_t kBytes>
void with_alpha(const uint8_t* samples, int count, Target target) {
  for (int i = 0; i < count; ++i, target.rgb += target.stride_bytes) {
    const uint8_t* pixel = samples + static_cast<size_t>(i) * ((kColours + 1) * kBytes);
    const uint8_t alpha = pixel[kColours * kBytes];
    for (size_t c = 0; c < 3; ++c)
      target.rgb[c] = over_white(pixel[kColours == 3 ? c * kBytes : 0], alpha);
  }
}

}  // namespace

int png_to_rgb(const PngPixels& pixels, const uint8_t* samples, int count, uint8_t* rgb, int step) {
  const Target target{rgb, size_t{3} * static_cast<size_t>(step)};
  switch (pixels.samples) {
    case PngSamples::kTable:
      return through_table(pixels, samples, count, target);
    case PngSamples::kGray16:
      opaque<1, 2>(pixels, samples, count, target);
      break;
    case PngSamples::kRgb8:
      opaque<3, 1>(pixels, samples, count, target);
      break;
    case PngSamples::kRgb16:
      opaque<3, 2>(pixels, samples, count, target);
      break;
    case PngSamples::kGrayAlpha8:
      with_alpha<1, 1>(samples, count, target);
      break;
    case PngSamples::kGrayAlpha16:
      with_alpha<1, 2>(samples, count, target);
      break;
    case PngSamples::kRgba8:
      with_alpha<3, 1>(samples, count, target);
      break;
    case PngSamples::kRgba16:
      with_alpha<3, 2>(samples, count, target);
      break;
  }
  return -1;
}

}  // namespace fovea
