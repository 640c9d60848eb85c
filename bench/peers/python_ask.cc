// SPDX-License-Identifier: Apache-2.0
// What bench/peers/python.py compares engine.ask with: the same questions asked from C++.
//   python_ask_bench PIXELS WIDTH HEIGHT QUESTION COUNT
// PIXELS is a file of RGB bytes; WIDTH 0: no picture. Prints the milliseconds of each question, on
// the wall's clock and on the calling thread's own.
#include <fovea/fovea.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <utility>

namespace {

double wall_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const fovea::Size size{std::atoi(argv[2]), std::atoi(argv[3])};
  fovea::Image image(size);
  std::ifstream file(argv[1], std::ios::binary);
  image.rgb.assign(std::istreambuf_iterator<char>(file), {});
  const auto engine = fovea::Engine::load("tiny");
  if (!engine) return 1;
  for (int i = 0; i < std::atoi(argv[5]); ++i) {
    const double wall = wall_ms();
    const double thread = thread_ms();
    fovea::Session session = engine->session();
    fovea::Image copy = image;  // the caller keeps its pixels, as in Python
    if (size.width_px > 0 && !session.add(std::move(copy))) return 1;
    const auto answer = session.ask(argv[4], {.max_tokens = 1});
    if (!answer || answer->tokens.size() != 1) return 1;
    std::printf("%.6f %.6f\n", wall_ms() - wall, thread_ms() - thread);
  }
}
