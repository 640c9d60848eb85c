// SPDX-License-Identifier: Apache-2.0
// Looks at a small made-up image through the installed library.
#include <fovea/fovea.h>

#include <cstdio>

int main() {
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
