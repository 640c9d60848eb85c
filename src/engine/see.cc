// SPDX-License-Identifier: Apache-2.0
// The spine of the front end: one call per room, in order.
#include "base/out_of_memory.h"
#include "base/stopwatch.h"
#include "base/threads.h"
#include "engine/front_end.h"
#include "engine/see_parts.h"
#include "fovea/fovea.h"
#include "media/decode.h"

namespace fovea {
namespace {

Result<Sight> see_decoded(Result<Image> decoded, const std::string& name, const SeeOptions& options,
                          Stopwatch& watch) {
  if (!decoded) return decoded.error();
  const auto settings = settings_of(options);
  if (!settings) return settings.error();
  Threads threads(options.threads > 0 ? options.threads : usable_cores());
  const auto device = open_accelerator(options.device, false);
  if (!device) return device.error();
  const auto opened = front_end_on(*device, nullptr, threads);
  if (!opened) return opened.error();
  DeviceFrontEnd& front_end = **opened;
  watch.skip();
  const auto prepared = prepare(threads, front_end, *decoded, canvas_limits_of(*settings), watch);
  if (!prepared) return prepared.error();
  auto choice = choose(front_end, *prepared, *settings, watch);
  if (!choice) return choice.error();
  // What the tower would be given, in bytes.
  const auto bytes = front_end.sample(*prepared->on_device, choice->plan.cells);
  if (!bytes) return bytes.error();
  watch.lap("patches");
  return make_sight(threads, *prepared, *choice, name, options, *bytes, watch);
}

}  // namespace

Result<Sight> see(const std::string& path, const SeeOptions& options) {
  return within_memory([&] {
    Stopwatch watch;
    auto image = read_image(path, image_limits_of(options));
    watch.lap("decode");
    return see_decoded(std::move(image), path, options, watch);
  });
}

Result<Sight> see(std::span<const uint8_t> file_bytes, const SeeOptions& options) {
  return within_memory([&] {
    Stopwatch watch;
    auto image = decode_image(file_bytes, "image", image_limits_of(options));
    watch.lap("decode");
    return see_decoded(std::move(image), "image", options, watch);
  });
}

Result<Sight> see(Image image, const SeeOptions& options) {
  return within_memory([&]() -> Result<Sight> {
    Stopwatch watch;
    const auto checked = check_image(image, options);
    if (!checked) return checked.error();
    return see_decoded(std::move(image), "image", options, watch);
  });
}

}  // namespace fovea
