// SPDX-License-Identifier: Apache-2.0
// A vector of characters becomes sextets by comparing it with the alphabet's ranges, four sextets
// of a 32-bit lane become 24 bits by shifts, and a table brings the three bytes of each lane
// together: 12 bytes of 16 characters.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "serve/pictures/base64.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "serve/pictures/base64_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::serve::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // where a lane of 32 bits is no four of bytes

constexpr size_t kBlock = 16;       // characters that a table reaches
constexpr size_t kBlockBytes = 12;  // that they are

// Their sextets; 64 where one is foreign.
template <class D, class V = hn::Vec<D>>
V sextets_of(D d, V text) {
  const auto set = [&](int value) { return hn::Set(d, static_cast<uint8_t>(value)); };
  // Of unsigned numbers: less than the range's size behind its beginning.
  const auto in = [&](int first, int count) {
    return hn::Lt(hn::Sub(text, set(first)), set(count));
  };
  V made = set(64);
  made = hn::IfThenElse(in('A', 26), hn::Sub(text, set('A')), made);
  made = hn::IfThenElse(in('a', 26), hn::Sub(text, set('a' - 26)), made);
  made = hn::IfThenElse(in('0', 10), hn::Add(text, set(52 - '0')), made);
  made = hn::IfThenElse(hn::Or(hn::Eq(text, set('+')), hn::Eq(text, set('-'))), set(62), made);
  made = hn::IfThenElse(hn::Or(hn::Eq(text, set('/')), hn::Eq(text, set('_'))), set(63), made);
  return made;
}

// Characters a, b, c, d are the bytes of a lane from its lowest: a << 18 | b << 12 | c << 6 | d,
// whose three bytes go the other way around.
template <class D, class V = hn::Vec<D>>
V pack(D d, V sextets) {
  alignas(kBlock) static constexpr uint8_t kOrder[kBlock] = {2, 1,  0,  6,  5,   4,   10,  9,
                                                             8, 14, 13, 12, 128, 128, 128, 128};
  const hn::Repartition<uint32_t, D> d32;
  const auto four = hn::BitCast(d32, sextets);
  const auto a = hn::ShiftLeft<18>(hn::And(four, hn::Set(d32, 0xffu)));
  const auto b = hn::ShiftLeft<4>(hn::And(four, hn::Set(d32, 0xff00u)));
  const auto c = hn::ShiftRight<10>(hn::And(four, hn::Set(d32, 0xff0000u)));
  const auto all = hn::Or(hn::Or(a, b), hn::Or(c, hn::ShiftRight<24>(four)));
  return hn::TableLookupBytesOr0(hn::BitCast(d, all), hn::LoadDup128(d, kOrder));
}

#endif

// A vector is read before its bytes are written, which end where it begins at the latest, or within
// it: `bytes` may be the text's own memory.
size_t decode_vectors(const char* text, size_t size, uint8_t* bytes) {
  size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  if (lanes < kBlock) return 0;
  alignas(64) uint8_t packed[64];
  for (; done + lanes <= size; done += lanes) {
    const auto read = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + done);
    const auto sextets = sextets_of(d, read);
    if (!hn::AllFalse(d, hn::Eq(sextets, hn::Set(d, uint8_t{64})))) break;
    hn::Store(pack(d, sextets), d, packed);
    uint8_t* out = bytes + done / 4 * 3;
    for (size_t block = 0; block < lanes / kBlock; ++block)
      std::copy_n(packed + block * kBlock, kBlockBytes, out + block * kBlockBytes);
  }
#else
  (void)text;
  (void)size;
  (void)bytes;
#endif
  return done;
}

}  // namespace fovea::serve::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::serve {

HWY_EXPORT(decode_vectors);

size_t decode_base64_vectors(std::string_view text, uint8_t* bytes) {
  return HWY_DYNAMIC_DISPATCH(decode_vectors)(text.data(), text.size(), bytes);
}

}  // namespace fovea::serve
#endif
