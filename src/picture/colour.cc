// SPDX-License-Identifier: Apache-2.0
#include "picture/colour.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace fovea {
namespace {

struct Linear {
  double red = 0;
  double green = 0;
  double blue = 0;
};

double undo_gamma(uint8_t value) {
  const double v = value / 255.0;
  return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

uint8_t encode_gamma(double v) {
  v = std::clamp(v, 0.0, 1.0);
  const double encoded = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(encoded * 255));
}

Linear linear_of(const OkLab& lab) {
  const auto cube = [](double v) { return v * v * v; };
  const double l = cube(lab.lightness + 0.3963377774 * lab.a + 0.2158037573 * lab.b);
  const double m = cube(lab.lightness - 0.1055613458 * lab.a - 0.0638541728 * lab.b);
  const double s = cube(lab.lightness - 0.0894841775 * lab.a - 1.2914855480 * lab.b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool fits(const Linear& v) {
  constexpr double kSlack = 1e-4;  // far below one 8-bit step
  const auto [low, high] = std::minmax({v.red, v.green, v.blue});
  return low >= -kSlack && high <= 1 + kSlack;
}

OkLab from_polar(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * std::numbers::pi / 180;
  return {lightness, chroma * std::cos(hue), chroma * std::sin(hue)};
}

}  // namespace

OkLab oklab_of(Rgb colour) {
  const double red = undo_gamma(colour.red);
  const double green = undo_gamma(colour.green);
  const double blue = undo_gamma(colour.blue);
  const double l = std::cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const double m = std::cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const double s = std::cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

Rgb rgb_of(const OkLab& colour) {
  Linear linear = linear_of(colour);
  if (!fits(linear)) {
    double inside = 0;
    double outside = 1;
    for (int step = 0; step < 16; ++step) {
      const double share = (inside + outside) / 2;
      const OkLab paler{colour.lightness, colour.a * share, colour.b * share};
      (fits(linear_of(paler)) ? inside : outside) = share;
    }
    linear = linear_of({colour.lightness, colour.a * inside, colour.b * inside});
  }
  return {encode_gamma(linear.red), encode_gamma(linear.green), encode_gamma(linear.blue)};
}

OkLab heat(double score) {
  // Chroma and hue at equal steps of the score; lightness is a straight line beside them.
  static const std::array<OkLab, 6> kStops{from_polar(0, 0.035, 275), from_polar(0, 0.125, 288),
                                           from_polar(0, 0.170, 335), from_polar(0, 0.175, 22),
                                           from_polar(0, 0.155, 65),  from_polar(0, 0.090, 103)};
  constexpr double kDarkest = 0.17;
  constexpr double kLightest = 0.95;
  score = std::clamp(score, 0.0, 1.0);
  const double place = score * (kStops.size() - 1);
  const auto from = std::min(static_cast<size_t>(place), kStops.size() - 2);
  const double share = place - static_cast<double>(from);
  // A Catmull-Rom curve through the stops, so that no stop shows as an edge in a smooth map.
  const OkLab& p0 = kStops[from == 0 ? 0 : from - 1];
  const OkLab& p1 = kStops[from];
  const OkLab& p2 = kStops[from + 1];
  const OkLab& p3 = kStops[std::min(from + 2, kStops.size() - 1)];
  const auto curve = [share](double v0, double v1, double v2, double v3) {
    return v1 + share / 2 *
                    (v2 - v0 +
                     share * (2 * v0 - 5 * v1 + 4 * v2 - v3 + share * (3 * (v1 - v2) + v3 - v0)));
  };
  return {kDarkest + (kLightest - kDarkest) * score, curve(p0.a, p1.a, p2.a, p3.a),
          curve(p0.b, p1.b, p2.b, p3.b)};
}

Rgb level_colour(int level) {
  // Yellow, orange, red, magenta, violet, blue, teal, green; canvases with more levels begin again.
  static const std::array<Rgb, 8> kColours{
      rgb_of(from_polar(0.92, 0.19, 104)), rgb_of(from_polar(0.75, 0.18, 55)),
      rgb_of(from_polar(0.65, 0.22, 8)),   rgb_of(from_polar(0.62, 0.22, 318)),
      rgb_of(from_polar(0.58, 0.18, 278)), rgb_of(from_polar(0.66, 0.13, 235)),
      rgb_of(from_polar(0.72, 0.12, 185)), rgb_of(from_polar(0.78, 0.19, 142))};
  return kColours[static_cast<size_t>(level) % kColours.size()];
}

}  // namespace fovea
