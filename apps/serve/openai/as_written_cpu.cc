// SPDX-License-Identifier: Apache-2.0
// By vectors that are written out: the server is compiled with few optimisations, and then a loop
// over single characters took longer than all else that is done to a picture's text (1.3 of 1.5 ms
// for 2.8 MB).
#include <cstddef>
#include <cstdint>

#include "serve/openai/as_written.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "serve/openai/as_written_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::serve::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The characters of the vectors before the first that has an odd one.
size_t look_at_vectors(const char* HWY_RESTRICT text, size_t size) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto space = hn::Set(d, uint8_t{0x20});
  const auto last = hn::Set(d, uint8_t{0x7e - 0x20});
  const auto slash = hn::Set(d, uint8_t{'\\'});
  const auto quote = hn::Set(d, uint8_t{'"'});
  size_t done = 0;
  for (; done + lanes <= size; done += lanes) {
    const auto read = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + done);
    // Of unsigned numbers: what is below a space becomes large.
    const auto outside = hn::Lt(last, hn::Sub(read, space));
    const auto escaped = hn::Or(hn::Eq(read, slash), hn::Eq(read, quote));
    if (!hn::AllFalse(d, hn::Or(outside, escaped))) break;
  }
  return done;
}

}  // namespace fovea::serve::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::serve {

HWY_EXPORT(look_at_vectors);

size_t as_written(std::string_view text) {
  const size_t done = HWY_DYNAMIC_DISPATCH(look_at_vectors)(text.data(), text.size());
  return done + as_written_reference(text.substr(done));
}

}  // namespace fovea::serve
#endif
