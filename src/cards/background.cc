// SPDX-License-Identifier: Apache-2.0
// The scales are added up on one grid of 129x129 nodes, whose rows are stretched to the width once;
// what is left for each pixel is a sum, in loops the compiler vectorises.
#include "cards/background.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace fovea {
namespace {

constexpr int kSteps = 128;        // of the finest scale, across the longer side
constexpr int kFractionBits = 15;  // of places between nodes
constexpr int kFraction = 1 << kFractionBits;
constexpr int kUnitBits = 6;  // brightness is in 64ths of a pixel's step
constexpr int kUnit = 1 << kUnitBits;
constexpr int kDarkest = 51 * kUnit;
constexpr int kScaleRange = 42 * kUnit;  // what each scale adds at most

// Nodes of one scale: [side][side][3].
struct NodeGrid {
  int side = 0;
  std::vector<int16_t> value;

  explicit NodeGrid(int nodes) : side(nodes), value(static_cast<size_t>(nodes) * nodes * 3) {}
  int16_t* row(int y) { return value.data() + static_cast<size_t>(y) * side * 3; }
  const int16_t* row(int y) const { return value.data() + static_cast<size_t>(y) * side * 3; }
};

void add_random(NodeGrid& grid, CardRandom& random) {
  size_t i = 0;
  while (i < grid.value.size()) {
    uint64_t bits = random.next();
    for (int k = 0; k < 4 && i < grid.value.size(); ++k, ++i, bits >>= 16)
      grid.value[i] = static_cast<int16_t>(grid.value[i] +
                                           static_cast<int>(((bits & 0xffff) * kScaleRange) >> 16));
  }
}

// Four steps for each one, bilinear.
NodeGrid four_times_finer(const NodeGrid& coarse) {
  NodeGrid fine((coarse.side - 1) * 4 + 1);
  for (int y = 0; y < fine.side; ++y) {
    const int16_t* upper = coarse.row(y / 4);
    const int16_t* lower = coarse.row(std::min(y / 4 + 1, coarse.side - 1));
    int16_t* out = fine.row(y);
    for (int x = 0; x < fine.side; ++x) {
      const int left = x / 4 * 3;
      const int right = std::min(x / 4 + 1, coarse.side - 1) * 3;
      for (int c = 0; c < 3; ++c) {
        const int above = upper[left + c] * (4 - x % 4) + upper[right + c] * (x % 4);
        const int below = lower[left + c] * (4 - x % 4) + lower[right + c] * (x % 4);
        out[x * 3 + c] = static_cast<int16_t>((above * (4 - y % 4) + below * (y % 4)) / 16);
      }
    }
  }
  return fine;
}

NodeGrid make_nodes(CardRandom& random) {
  NodeGrid coarse(kSteps / 16 + 1);
  std::fill(coarse.value.begin(), coarse.value.end(), static_cast<int16_t>(kDarkest));
  add_random(coarse, random);
  NodeGrid middle = four_times_finer(coarse);
  add_random(middle, random);
  NodeGrid fine = four_times_finer(middle);
  add_random(fine, random);
  return fine;
}

// Where the centre of a pixel lies: the node before it, and the fraction of a step beyond.
struct NodePlace {
  int node;
  int16_t fraction;
};

NodePlace place_of(int pixel, int longer_px) {
  const int64_t place = (int64_t{2} * pixel + 1) * kSteps * kFraction / (int64_t{2} * longer_px);
  return {static_cast<int>(place / kFraction), static_cast<int16_t>(place % kFraction)};
}

int16_t between(int16_t a, int16_t b, int16_t fraction) {
  return static_cast<int16_t>(a + (((b - a) * fraction) >> kFractionBits));
}

// Bytes of which each holds two values 0..15: sixteen xorshift generators side by side.
class PixelNoise {
 public:
  explicit PixelNoise(CardRandom& random) {
    for (uint32_t& lane : lanes_) lane = static_cast<uint32_t>(random.next()) | 1;
  }
  void fill(std::vector<uint8_t>& bytes) {
    static_assert(std::endian::native == std::endian::little, "bytes are taken from words");
    for (size_t i = 0; i < bytes.size(); i += sizeof(lanes_)) {
      for (uint32_t& lane : lanes_) {
        lane ^= lane << 13;
        lane ^= lane >> 17;
        lane ^= lane << 5;
      }
      std::memcpy(bytes.data() + i, lanes_, sizeof(lanes_));
    }
  }
  static size_t room_for(size_t bytes) {
    return (bytes + sizeof(lanes_) - 1) / sizeof(lanes_) * sizeof(lanes_);
  }

 private:
  uint32_t lanes_[16];
};

void stretch(const int16_t* nodes, const std::vector<NodePlace>& places, int16_t* out) {
  for (const NodePlace& place : places) {
    const int16_t* a = nodes + place.node * 3;
    for (int c = 0; c < 3; ++c) *out++ = between(a[c], a[c + 3], place.fraction);
  }
}

// Rows between two rows of nodes, each a step further down.
struct RowWalk {
  std::vector<int16_t> value;
  std::vector<int16_t> step;  // from one row of pixels to the next

  explicit RowWalk(size_t values) : value(values), step(values) {}

  void start(const std::vector<int16_t>& upper, const std::vector<int16_t>& lower, NodePlace place,
             int longer_px) {
    const int rise = kSteps * kFraction / longer_px;
    for (size_t i = 0; i < value.size(); ++i) {
      value[i] = between(upper[i], lower[i], place.fraction);
      step[i] = static_cast<int16_t>(((lower[i] - upper[i]) * rise) >> kFractionBits);
    }
  }
  void paint(const std::vector<uint8_t>& noise, uint8_t* out) {
    const size_t half = value.size() / 2;
    walk(0, half, out, [&](size_t i) { return noise[i] & 15; });
    walk(half, value.size(), out, [&](size_t i) { return noise[i - half] >> 4; });
  }

 private:
  template <class Noise>
  void walk(size_t begin, size_t end, uint8_t* out, const Noise& noise_at) {
    for (size_t i = begin; i < end; ++i) {
      out[i] = static_cast<uint8_t>((value[i] >> kUnitBits) + noise_at(i));
      value[i] = static_cast<int16_t>(value[i] + step[i]);
    }
  }
};

// 16.16 places of a photograph for each pixel of a side, bilinear.
struct PhotoPlace {
  int first;
  int second;
  int weight;  // of the second, 0..255
};

std::vector<PhotoPlace> photo_places(int count, int64_t begin, int64_t step, int side_px) {
  std::vector<PhotoPlace> places;
  places.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const int64_t place =
        std::clamp<int64_t>(begin + step * i + step / 2 - 32768, 0, (int64_t{side_px} - 1) << 16);
    const int first = static_cast<int>(place >> 16);
    places.push_back(
        {first, std::min(first + 1, side_px - 1), static_cast<int>((place & 0xffff) >> 8)});
  }
  return places;
}

}  // namespace

void paint_noise(const CardCanvas& canvas, CardRandom random) {
  const auto [width_px, height_px] = canvas.size;
  const int longer_px = std::max(width_px, height_px);
  const NodeGrid nodes = make_nodes(random);
  std::vector<NodePlace> places;
  places.reserve(static_cast<size_t>(width_px));
  for (int x = 0; x < width_px; ++x) places.push_back(place_of(x, longer_px));

  const size_t values = static_cast<size_t>(width_px) * 3;
  std::vector<int16_t> upper(values);
  std::vector<int16_t> lower(values);
  std::vector<uint8_t> noise(PixelNoise::room_for(values - values / 2));
  PixelNoise generator(random);
  RowWalk rows(values);
  int stretched = -1;  // the node row that `lower` holds
  for (int y = 0; y < height_px; ++y) {
    const NodePlace place = place_of(y, longer_px);
    if (stretched < place.node + 1) {
      for (; stretched < place.node + 1; ++stretched) {
        std::swap(upper, lower);
        stretch(nodes.row(stretched + 1), places, lower.data());
      }
      rows.start(upper, lower, place, longer_px);
    }
    generator.fill(noise);
    rows.paint(noise, canvas.at(0, y));
  }
}

void paint_photo(const CardCanvas& canvas, const Image& photo, CardRandom random) {
  const auto [width_px, height_px] = canvas.size;
  // Source pixels a scene pixel, as 16.16: the largest crop that fits, down to half of it.
  const int64_t widest = std::min((int64_t{photo.size.width_px} << 16) / width_px,
                                  (int64_t{photo.size.height_px} << 16) / height_px);
  const int64_t step = widest * random.between(128, 256) / 256;
  const auto begin = [&](int photo_px, int scene_px) {
    const int64_t room = std::max<int64_t>(0, (int64_t{photo_px} << 16) - step * scene_px);
    return room * random.between(0, 4096) / 4096;
  };
  const auto columns =
      photo_places(width_px, begin(photo.size.width_px, width_px), step, photo.size.width_px);
  const auto rows =
      photo_places(height_px, begin(photo.size.height_px, height_px), step, photo.size.height_px);
  for (int y = 0; y < height_px; ++y) {
    const PhotoPlace& v = rows[static_cast<size_t>(y)];
    const uint8_t* upper = photo.row(v.first);
    const uint8_t* lower = photo.row(v.second);
    uint8_t* out = canvas.at(0, y);
    for (const PhotoPlace& h : columns) {
      for (int c = 0; c < 3; ++c) {
        const int above =
            upper[h.first * 3 + c] * (256 - h.weight) + upper[h.second * 3 + c] * h.weight;
        const int below =
            lower[h.first * 3 + c] * (256 - h.weight) + lower[h.second * 3 + c] * h.weight;
        const int value = (above * (256 - v.weight) + below * v.weight) >> 16;
        *out++ = static_cast<uint8_t>(24 + value * 5 / 8);
      }
    }
  }
}

}  // namespace fovea
