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

// Without a tower; null for the CPU.
Result<std::shared_ptr<DeviceFrontEnd>> front_end_of(const std::string& device) {
  if (device == "cpu") return std::shared_ptr<DeviceFrontEnd>();
  const auto opened = open_accelerator(device, false);
  if (!opened) return opened.error();
  return front_end_on(*opened, nullptr);
}

// What the tower would be given, in bytes.
Result<int64_t> sample(Threads& threads, const Prepared& prepared, const Plan& plan,
                       DeviceFrontEnd* device) {
  if (device != nullptr) return device->sample(*prepared.on_device, plan.cells);
  const Patches patches = sample_patches(threads, prepared.pyramid(threads), plan);
  return static_cast<int64_t>(patches.bytes());
}

Result<Sight> see_decoded(Result<Image> decoded, const std::string& name, const SeeOptions& options,
                          Stopwatch& watch) {
  if (!decoded) return decoded.error();
  Threads threads(options.threads > 0 ? options.threads : usable_cores());
  const auto device = front_end_of(options.device);
  if (!device) return device.error();
  watch.skip();
  const auto prepared =
      prepare(threads, std::move(*decoded), canvas_limits_of(options), watch, device->get());
  if (!prepared) return prepared.error();
  auto choice = choose(threads, *prepared, options, watch, device->get());
  if (!choice) return choice.error();
  const auto bytes = sample(threads, *prepared, choice->plan, device->get());
  if (!bytes) return bytes.error();
  watch.lap("patches");
  return make_sight(threads, *prepared, *choice, name, options, *bytes, watch);
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
