// SPDX-License-Identifier: Apache-2.0
// reach = min(value, max(reach, reach of the neighbours)), swept down-right and up-left until
// nothing changes. A row is swept again only when it, or the row it takes from, changed since.
#include "relevance/figure_cpu.h"

#include <cstddef>
#include <cstring>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "relevance/figure_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One row's inner pixels, from the one at offset 0 on; `step` is +-kFigureLanes. `side` is the row
// above or below. Says whether anything changed.
bool sweep_row(const uint8_t* HWY_RESTRICT value, uint8_t* HWY_RESTRICT reach,
               const uint8_t* HWY_RESTRICT side, ptrdiff_t step, int count) {
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, kFigureLanes> d;
  auto last = hn::Load(d, reach - step);
  auto difference = hn::Zero(d);
  for (int i = 0; i < count; ++i, value += step, reach += step, side += step) {
    const auto before = hn::Load(d, reach);
    const auto known = hn::Max(before, hn::Load(d, side));
    last = hn::Min(hn::Load(d, value), hn::Max(known, last));
    hn::Store(last, d, reach);
    difference = hn::Or(difference, hn::Xor(last, before));
  }
  return !hn::AllTrue(d, hn::Eq(difference, hn::Zero(d)));
#else
  bool changed = false;
  for (int i = 0; i < count; ++i, value += step, reach += step, side += step) {
    for (int lane = 0; lane < kFigureLanes; ++lane) {
      const uint8_t known = HWY_MAX(HWY_MAX(reach[lane], side[lane]), (reach - step)[lane]);
      const uint8_t now = HWY_MIN(value[lane], known);
      changed = changed || now != reach[lane];
      reach[lane] = now;
    }
  }
  return changed;
#endif
}

// Sweeps the inner rows once, downwards or upwards. `changed_at` holds, for each row, the sweep
// that changed it last; `swept_at` the last sweep of this direction that visited it.
bool sweep(Size size, const uint8_t* value, uint8_t* reach, bool down, int now,
           std::vector<int>& changed_at, std::vector<int>& swept_at) {
  const ptrdiff_t stride = static_cast<ptrdiff_t>(size.width_px) * kFigureLanes;
  bool any = false;
  for (int i = 1; i < size.height_px - 1; ++i) {
    const int y = down ? i : size.height_px - 1 - i;
    const int from = down ? y - 1 : y + 1;
    const auto row = static_cast<size_t>(y);
    const auto source = static_cast<size_t>(from);
    if (changed_at[row] < swept_at[row] && changed_at[source] < swept_at[row]) continue;
    const ptrdiff_t start = y * stride + (down ? 1 : size.width_px - 2) * kFigureLanes;
    const ptrdiff_t side = start + (from - y) * stride;
    swept_at[row] = now;
    if (sweep_row(value + start, reach + start, reach + side, down ? kFigureLanes : -kFigureLanes,
                  size.width_px - 2)) {
      changed_at[row] = now;
      any = true;
    }
  }
  return any;
}

void reach_from_border(Size size, const uint8_t* HWY_RESTRICT value, uint8_t* HWY_RESTRICT reach) {
  const size_t row_bytes = static_cast<size_t>(size.width_px) * kFigureLanes;
  const auto height = static_cast<size_t>(size.height_px);
  // The border reaches itself; the inner pixels nothing yet.
  std::memcpy(reach, value, row_bytes);
  for (size_t y = 1; y + 1 < height; ++y) {
    std::memset(reach + y * row_bytes, 0, row_bytes);
    std::memcpy(reach + y * row_bytes, value + y * row_bytes, kFigureLanes);
    std::memcpy(reach + (y + 1) * row_bytes - kFigureLanes,
                value + (y + 1) * row_bytes - kFigureLanes, kFigureLanes);
  }
  std::memcpy(reach + (height - 1) * row_bytes, value + (height - 1) * row_bytes, row_bytes);
  if (size.width_px < 3 || size.height_px < 3) return;
  std::vector<int> changed_at(height, 0);
  std::vector<int> down_at(height, 0);
  std::vector<int> up_at(height, 0);
  for (int now = 1;; now += 2) {
    const bool down = sweep(size, value, reach, true, now, changed_at, down_at);
    const bool up = sweep(size, value, reach, false, now + 1, changed_at, up_at);
    if (!down && !up) return;
  }
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(reach_from_border);

void reach_border(Size size, const uint8_t* value, uint8_t* reach) {
  HWY_DYNAMIC_DISPATCH(reach_from_border)(size, value, reach);
}

}  // namespace fovea
#endif
