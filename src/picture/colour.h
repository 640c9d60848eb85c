// SPDX-License-Identifier: Apache-2.0
// The colours of the picture, chosen in OKLab, where equal steps look equal.
#pragma once

#include <cstdint>

namespace fovea {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  friend bool operator==(const Rgb&, const Rgb&) = default;
};

struct OkLab {
  double lightness = 0;  // 0 black, 1 white
  double a = 0;          // green to red
  double b = 0;          // blue to yellow
};

OkLab oklab_of(Rgb colour);
// Colours outside sRGB lose chroma until they fit; lightness and hue stay.
Rgb rgb_of(const OkLab& colour);

// Mixes on the stored (gamma-encoded) values: share 0 gives `under`, 255 gives `over`.
constexpr uint8_t mix(uint8_t under, uint8_t over, int share) {
  return static_cast<uint8_t>((under * (255 - share) + over * share + 127) / 255);
}
constexpr Rgb mix(Rgb under, Rgb over, int share) {
  return {mix(under.red, over.red, share), mix(under.green, over.green, share),
          mix(under.blue, over.blue, share)};
}

// The heat scale of the maps for a score in [0,1]: night blue, violet, ember, pale yellow, its
// lightness rising in proportion to the score, so that it reads the same in gray.
OkLab heat(double score);

// One colour for each level, the same in every picture: level 0 the lightest, so that fine cells
// stand out, each coarser level a clear step around the hue circle.
Rgb level_colour(int level);

namespace ink {
inline constexpr Rgb kGround{19, 21, 25};   // behind everything
inline constexpr Rgb kRaised{30, 33, 39};   // bands and empty parts of a panel
inline constexpr Rgb kRule{58, 63, 72};     // thin lines
inline constexpr Rgb kText{238, 240, 243};  // titles
inline constexpr Rgb kSoft{160, 167, 178};  // notes
inline constexpr Rgb kQuestion{255, 214, 130};
}  // namespace ink

}  // namespace fovea
