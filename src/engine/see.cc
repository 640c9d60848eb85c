// SPDX-License-Identifier: Apache-2.0
// The spine of the front end: one call per room, in order.
#include "base/stopwatch.h"
#include "base/threads.h"
#include "engine/front_end.h"
#include "engine/see_parts.h"
#include "fovea/fovea.h"
#include "media/decode.h"
#include "patches/patches.h"

namespace fovea {
namespace {

Result<Sight> see_decoded(Result<Image> decoded, const std::string& name, const SeeOptions& options,
                          Stopwatch& watch) {
  if (!decoded) return decoded.error();
  Threads threads(options.threads > 0 ? options.threads : usable_cores());
  const auto prepared = prepare(threads, std::move(*decoded), canvas_limits_of(options), watch);
  if (!prepared) return prepared.error();
  auto choice = choose(threads, *prepared, options, watch);
  if (!choice) return choice.error();
  const Patches patches = sample_patches(threads, prepared->pyramid(threads), choice->plan);
  watch.lap("patches");
  return make_sight(threads, *prepared, *choice, name, options,
                    static_cast<int64_t>(patches.bytes()), watch);
}

}  // namespace

Result<Sight> see(const std::string& path, const SeeOptions& options) {
  Stopwatch watch;
  auto image = read_image(path, decode_limits_of(options));
  watch.lap("decode");
  return see_decoded(std::move(image), path, options, watch);
}

Result<Sight> see(std::span<const uint8_t> file_bytes, const SeeOptions& options) {
  Stopwatch watch;
  auto image = decode_image(file_bytes, "image", decode_limits_of(options));
  watch.lap("decode");
  return see_decoded(std::move(image), "image", options, watch);
}

Result<Sight> see(Image image, const SeeOptions& options) {
  Stopwatch watch;
  const auto checked = check_image(image, options);
  if (!checked) return checked.error();
  return see_decoded(std::move(image), "image", options, watch);
}

}  // namespace fovea
