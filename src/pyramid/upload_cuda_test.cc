// SPDX-License-Identifier: Apache-2.0
#include "pyramid/upload_cuda.h"

#include <algorithm>

#include "device/cuda/test_device.h"
#include "pyramid/pyramid_cuda.h"
#include "pyramid/test_device_pyramids.h"

namespace fovea {
namespace {

class UploadCuda : public CudaTest {
 protected:
  // Level 1 of each image, before the batch is overwritten.
  void keep(const DevicePyramids& batch, DeviceMemory<uint8_t>& kept) {
    stream_.copy(kept.data(), batch.rgb[1], kept.size());
  }

  Threads threads_{2};
};

TEST_F(UploadCuda, BatchesThatTakeTurnsEachHaveTheirOwnCanvases) {
  const Size size = kEmulated ? Size{96, 64} : Size{1024, 1024};
  constexpr int kImages = 3;
  constexpr int kBatches = 5;
  PyramidsOnDevice pyramids[2];
  for (PyramidsOnDevice& each : pyramids) ASSERT_TRUE(each.make(size, kImages));
  CanvasUploads uploads;
  ASSERT_TRUE(uploads.open(size));
  DeviceMemory<uint8_t> kept[kBatches];
  for (DeviceMemory<uint8_t>& each : kept)  // beforehand, since allocating waits for all streams
    ASSERT_TRUE(each.allocate(static_cast<size_t>(pyramids[0].view().image_bytes[1] * kImages)));
  Image canvas;
  for (int batch = 0; batch < kBatches; ++batch) {
    PyramidsOnDevice& mine = pyramids[batch % 2];
    uploads.begin(mine.view());
    for (int i = 0; i < kImages; ++i) {
      canvas = random_canvas(size, static_cast<uint32_t>(kImages * batch + i));
      if (i == 1) {  // made in pinned memory
        const Result<uint8_t*> to = uploads.next_canvas();
        ASSERT_TRUE(to);
        std::copy(canvas.rgb.begin(), canvas.rgb.end(), *to);
        uploads.send();
      } else {
        ASSERT_TRUE(uploads.push(canvas.rgb.data()));
        std::fill(canvas.rgb.begin(), canvas.rgb.end(), uint8_t{0});  // it is free
      }
    }
    EXPECT_EQ(uploads.pushed(), kImages);
    uploads.hand_over(stream());
    build_pyramids_cuda(stream(), mine.view(), mine.done());
    keep(mine.view(), kept[batch]);
    uploads.release(stream());
  }
  for (int batch = 0; batch < kBatches; ++batch) {
    const DevicePyramids view = pyramids[batch % 2].view();
    const auto got = on_host(kept[batch]);
    for (int i = 0; i < kImages; ++i) {
      const Pyramid expected =
          build_pyramid(threads_, random_canvas(size, static_cast<uint32_t>(kImages * batch + i)));
      const LevelView level = expected.level(1);
      for (int y = 0; y < level.size.height_px; ++y)
        ASSERT_EQ(std::memcmp(got.data() + i * view.image_bytes[1] + y * view.stride_bytes[1],
                              level.row(y), static_cast<size_t>(3 * level.size.width_px)),
                  0)
            << "batch " << batch << ", image " << i << ", row " << y;
    }
  }
}

TEST_F(UploadCuda, RowsMayBePaddedOnTheDevice) {
  const Image canvas = random_canvas({64, 32}, 4);
  constexpr int64_t kStride = 256;
  auto memory = poisoned<uint8_t>(kStride * 32);
  DevicePyramids view{.canvas = canvas.size, .levels = 1, .images = 1};
  view.rgb[0] = memory.data();
  view.stride_bytes[0] = kStride;
  view.image_bytes[0] = kStride * 32;
  upload_canvas_cuda(stream(), view, 0, canvas.rgb.data());
  const auto got = on_host(memory);
  for (int y = 0; y < 32; ++y) {
    EXPECT_EQ(std::memcmp(got.data() + y * kStride, canvas.row(y), 192), 0) << "row " << y;
    EXPECT_EQ(got[static_cast<size_t>(y * kStride + 192)], 0xFF) << "row " << y;
  }
}

}  // namespace
}  // namespace fovea
