// SPDX-License-Identifier: Apache-2.0
// Figure on the device: figure.h for a batch of small pictures, a block for each channel of each.
#pragma once

#include <cstdint>

#include "device/cuda/runtime.h"
#include "fovea/words.h"

namespace fovea {

// Where a pixel lies in a block's memory, and how its rows and columns are shared out to lanes. A
// part is 16 pixels of a line, which a lane holds in registers; the lanes of a line are neighbours.
struct FigureLines {
  int lines = 0;       // with those outside the picture, up to a multiple of 16
  int lanes_log2 = 0;  // of a line: at most 5
  int windows = 0;     // parts a lane works on, one after the other
  int step = 0;        // words between pixels of a line
  int part_step = 0;   // words between its parts
};
struct FigureLayout {
  Size size;
  int pitch = 0;  // words between rows
  int words = 0;  // of the whole picture
  FigureLines rows;
  FigureLines cols;
};

// The layout whose banks do not meet where that takes at most `most_bytes`, else the smallest.
FigureLayout lay_out_figure(Size size, size_t most_bytes);

struct FigureJob {
  FigureLayout layout;
  int images = 0;
  const uint8_t* rgb = nullptr;  // the work level
  int64_t stride_bytes = 0;
  int64_t image_bytes = 0;
  const uint16_t* texture = nullptr;  // [images][height][width]
  uint32_t* state = nullptr;          // [images][5][words], or null: shared memory holds it
  uint32_t* figure = nullptr;         // [images][5][height][width]: what each channel adds
};

// Every value equals the CPU's.
void measure_figure_cuda(cudaStream_t stream, const FigureJob& job);

}  // namespace fovea
