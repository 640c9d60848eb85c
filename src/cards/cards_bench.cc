// SPDX-License-Identifier: Apache-2.0
// How fast training can draw fresh scenes.
#include "cards/cards.h"

#include <fmt/format.h>

#include "bench/bench.h"

namespace fovea {
namespace {

constexpr int kScenes = 32;
constexpr int kQuestions = 32;

void bench_cards(Bench& bench) {
  for (const int side_px : {512, 1024, 2048}) {
    const std::string name = fmt::format("cards/{}x{}", side_px, side_px);
    bench.progress(name);
    const CardOptions options = {.size = {side_px, side_px}};
    std::vector<Image> images(kScenes, Image(options.size));
    const auto make = [&](Threads& threads) {
      threads.for_each(kScenes, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto seed = static_cast<uint64_t>(i);
          const CardScene scene =
              make_scene_into(seed, options, images[static_cast<size_t>(i)].rgb);
          (void)make_questions(scene, seed, kAllFamilies, kQuestions);
        }
      });
    };
    Threads one(1);
    make(one);
    const std::vector<Image> expected = images;
    for (Image& image : images) std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{0});
    const double ms = Bench::median_ms([&] { make(bench.threads); });
    bool same = true;
    for (size_t i = 0; i < images.size(); ++i) same = same && images[i].rgb == expected[i].rgb;
    bench.add(same, {.name = name,
                     .value = kScenes * 1000 / ms,
                     .unit = "scenes/s",
                     .note = fmt::format("{} questions each, {:.2f} ms a scene and thread",
                                         kQuestions, ms * bench.threads.size() / kScenes)});
  }
}

const BenchRegistration kCards("cards", "cards", bench_cards);

}  // namespace
}  // namespace fovea
