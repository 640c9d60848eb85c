// SPDX-License-Identifier: Apache-2.0
// The spine of a scene: lay out, background, distractors, cards.
#include "base/check.h"
#include "cards/background.h"
#include "cards/cards.h"
#include "cards/layout.h"
#include "cards/payload.h"
#include "cards/shapes.h"

namespace fovea {
namespace {

void paint_background(const CardCanvas& canvas, uint64_t seed, const CardOptions& options) {
  CardRandom random(seed, CardStream::kBackground);
  if (options.photos.empty()) return paint_noise(canvas, random);
  const int photo = random.below(static_cast<int>(options.photos.size()));
  paint_photo(canvas, options.photos[static_cast<size_t>(photo)], random);
}

void paint_distractor(const CardCanvas& canvas, const Distractor& distractor, CardRandom& random) {
  const CardBox& box = distractor.box;
  if (!distractor.noise) {
    blend(canvas, box.x0, box.y0, blank_mask(distractor.shape, box.width_px()),
          blank_ink(distractor.colour));
    return;
  }
  for (int y = box.y0; y < box.y1; ++y) {
    uint8_t* out = canvas.at(box.x0, y);
    for (int x = box.x0; x < box.x1; ++x) {
      const uint64_t bits = random.next();
      for (int c = 0; c < 3; ++c) *out++ = static_cast<uint8_t>(bits >> (8 * c + 40));
    }
  }
}

void paint_card(const CardCanvas& canvas, const Card& card, bool blank) {
  const CardMask shape = shape_mask(card.shape, card.card_box.width_px());
  blend(canvas, card.card_box.x0, card.card_box.y0, shape,
        colour_ink(card.colour, card.style_bits));
  if (blank) {
    paint_blank_payload(canvas, card, shape);
  } else {
    paint_payload(canvas, card);
  }
}

}  // namespace

CardScene make_scene_into(uint64_t seed, const CardOptions& options, std::span<uint8_t> rgb) {
  FOVEA_CHECK(check_card_options(options));
  FOVEA_CHECK(rgb.size() == static_cast<size_t>(options.size.pixels()) * 3);
  CardLayout layout = lay_out(CardRandom(seed, CardStream::kLayout), options);
  const CardCanvas canvas = {options.size, rgb.data()};
  paint_background(canvas, seed, options);
  CardRandom random(seed, CardStream::kDistractors);
  for (const Distractor& distractor : layout.distractors)
    paint_distractor(canvas, distractor, random);
  for (const Card& card : layout.cards) paint_card(canvas, card, options.blank_payloads);
  return {Image(), std::move(layout.cards)};
}

CardScene make_scene(uint64_t seed, const CardOptions& options) {
  Image image(options.size);
  CardScene scene = make_scene_into(seed, options, image.rgb);
  scene.image = std::move(image);
  return scene;
}

}  // namespace fovea
