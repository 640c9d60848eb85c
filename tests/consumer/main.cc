// SPDX-License-Identifier: Apache-2.0
// Looks at a small made-up image through the installed library, and puts a resampler behind states
// of its own: consumer FOLDER, the folder of a BLIP-2 or Idefics2 model.
#include <fovea/fovea.h>
#include <fovea/resampler.h>

#include <cstdio>

namespace {

bool resamples(const char* folder) {
  const auto resampler = fovea::StateResampler::load(folder);
  if (!resampler) {
    std::fprintf(stderr, "%s\n", resampler.error().message.c_str());
    return false;
  }
  const std::vector<float> states(7 * static_cast<size_t>(resampler->state_size()), 0.5f);
  const auto tokens = resampler->run(states);
  if (!tokens) {
    std::fprintf(stderr, "%s\n", tokens.error().message.c_str());
    return false;
  }
  std::printf("7 states became %d tokens\n", resampler->tokens());
  return tokens->size() ==
         static_cast<size_t>(resampler->tokens()) * static_cast<size_t>(resampler->token_size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 || !resamples(arguments[1])) return 1;
  fovea::Image image(fovea::Size{320, 256});
  for (size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  const auto sight = fovea::see(std::move(image), {.plan = "quadtree", .budget_tokens = 20});
  if (!sight) {
    std::fprintf(stderr, "%s\n", sight.error().message.c_str());
    return 1;
  }
  std::printf("fovea %s: %d tokens of %d\n", fovea::version(), sight->plan.tokens(),
              static_cast<int>(sight->tokens_full));
  return sight->plan.tokens() > 0 && sight->plan.tokens() <= 20 ? 0 : 1;
}
