// SPDX-License-Identifier: Apache-2.0
// Images that share a pass of the tower on a GPU, where there is no memory for all of them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/front_end.h"
#include "engine/front_end_cuda.h"
#include "vision/test_tower_cuda.h"

namespace fovea {
namespace {

using test::Parts;
using test::parts_of;

// An image, its cells, and what is kept of them.
struct OneImage {
  Prepared prepared;
  std::vector<Cell> cells;
  TowerMemory memory;
  VisualTokens tokens;
};

class FrontEndPassesCuda : public test::TowerCudaTest {
 protected:
  // One whose tower no pass has gone through.
  void make_front_end() {
    tower_ = tower_itself(scene_);
    front_end_ = std::make_unique<CudaFrontEnd>(device_, tower_);
  }

  OneImage image_of(Size canvas, int level, uint8_t colour) {
    Image image(canvas);
    for (size_t i = 0; i < image.rgb.size(); ++i)
      image.rgb[i] = static_cast<uint8_t>(colour + i / 96 * 7);
    OneImage made;
    made.prepared = *prepare(threads_, *front_end_, image,
                             {.min_pixels = 1, .max_pixels = canvas.pixels()}, watch_);
    made.cells = test::cover(canvas, level);
    return made;
  }
  void put_off(OneImage& one, bool keep) {
    auto tokens = front_end_->encode(*one.prepared.on_device, one.cells, nullptr, one.memory,
                                     {.keep = keep}, watch_);
    ASSERT_TRUE(tokens) << tokens.error().message;
    one.tokens = std::move(*tokens);
  }

  test::Scene scene_ = test::small_scene();
  std::shared_ptr<CudaTower> tower_;
  std::unique_ptr<CudaFrontEnd> front_end_;
  Stopwatch watch_;
};

TEST_P(FrontEndPassesCuda, WhatHasNoMemoryTogetherIsDoneAlone) {
  if (!kEmulated) GTEST_SKIP() << "memory runs out when it should in an emulation alone";
  constexpr size_t kLarge = 1;
  const auto three = [&] {
    std::vector<OneImage> all;
    all.reserve(3);
    all.push_back(image_of({224, 96}, 1, 10));  // 32 patches
    all.push_back(image_of({160, 96}, 0, 20));  // 60
    all.push_back(image_of({192, 96}, 1, 30));  // 24
    return all;
  };
  for (const bool keep : {false, true}) {
    make_front_end();
    std::vector<Parts> expected;
    expected.reserve(3);
    for (OneImage& one : three()) {
      put_off(one, keep);
      expected.push_back(parts_of(*tower_->download(std::move(one.tokens))));
    }
    make_front_end();
    std::vector<OneImage> all = three();
    for (OneImage& one : all) put_off(one, keep);
    limit_allocation_bytes(100'000);  // a patch is 3,072 bytes
    front_end_->start();
    limit_allocations(-1);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto parts = tower_->download(std::move(all[i].tokens));
      if (i == kLarge) {
        ASSERT_FALSE(parts);
        EXPECT_NE(parts.error().message.find("memory"), std::string::npos);
        continue;
      }
      ASSERT_TRUE(parts) << i << ": " << parts.error().message;
      EXPECT_EQ(parts_of(*parts), expected[i]) << i;
    }
    OneImage again = std::move(three()[kLarge]);
    put_off(again, keep);
    EXPECT_EQ(parts_of(*tower_->download(std::move(again.tokens))), expected[kLarge]);
  }
}

INSTANTIATE_TEST_SUITE_P(kernels, FrontEndPassesCuda, testing::ValuesIn(kernel_choices()),
                         kernel_choice_name);

}  // namespace
}  // namespace fovea
