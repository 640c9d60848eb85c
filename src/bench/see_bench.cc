// SPDX-License-Identifier: Apache-2.0
// The whole front end of one image, from canvas pixels to patches: what a question costs before the
// tower. Decoding is left out, as it is for the peers.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "bench/bench.h"
#include "gaze/gaze.h"
#include "patches/patches.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {
namespace {

// Smooth blobs with noise on one half: something to see, and nothing a shortcut could skip.
Image busy_image(Size size) {
  Image image(size);
  std::mt19937 random(7);
  for (int y = 0; y < size.height_px; ++y) {
    for (int x = 0; x < size.width_px; ++x) {
      const int noise = x > size.width_px / 2 ? static_cast<int>(random() % 64) : 0;
      uint8_t* pixel = image.row(y) + 3 * x;
      pixel[0] = static_cast<uint8_t>((x * 255 / size.width_px + noise) & 255);
      pixel[1] = static_cast<uint8_t>((y * 255 / size.height_px + noise) & 255);
      pixel[2] = static_cast<uint8_t>(((x / 96 + y / 96) % 2) * 128 + noise);
    }
  }
  return image;
}

struct FrontEnd {
  Plan plan;
  Patches patches;
};

FrontEnd look(Threads& threads, Pyramid& pyramid, int budget_tokens) {
  rebuild_pyramid(threads, pyramid);
  const Relevance relevance = measure_relevance(threads, pyramid, nullptr);
  const Detail detail = measure_detail(threads, pyramid);
  const Scene scene{.canvas = pyramid.canvas(),
                    .relevance = &relevance.relevance,
                    .detail = &detail,
                    .fixations = {},
                    .budget_tokens = budget_tokens};
  FrontEnd result;
  result.plan = *make_plan(MakerKind::kQuadtree, scene);
  result.patches = sample_patches(threads, pyramid, result.plan);
  return result;
}

bool same_values(const Patches& a, const Patches& b) {
  return a.f32.size() == b.f32.size() && std::equal(a.f32.begin(), a.f32.end(), b.f32.begin());
}

void bench_front_end(Bench& bench) {
  for (const int side_px : {1024, 4096}) {
    constexpr int kBudgetTokens = 68;
    const Image image = busy_image({side_px, side_px});
    Pyramid pyramid = build_pyramid(bench.threads, image);
    const FrontEnd first = look(bench.threads, pyramid, kBudgetTokens);

    Threads alone(1);  // the same answer from a pyramid of its own on one thread
    Pyramid other = build_pyramid(alone, image);
    const FrontEnd again = look(alone, other, kBudgetTokens);
    const bool verified = first.plan.cells == again.plan.cells &&
                          same_values(first.patches, again.patches) &&
                          first.plan.tokens() <= kBudgetTokens &&
                          first.patches.count == kPatchesPerCell * first.plan.tokens();
    BenchRow row;
    row.name = fmt::format("front-end/{0}x{0}/{1}", side_px, kBudgetTokens);
    row.value = Bench::median_ms([&] { look(bench.threads, pyramid, kBudgetTokens); });
    row.unit = "ms";
    row.note = fmt::format("{} tokens, {} patches", first.plan.tokens(), first.patches.count);
    bench.add(verified, row);
  }
}

const BenchRegistration kRegistered("front-end", "front-end", bench_front_end);

}  // namespace
}  // namespace fovea
