// SPDX-License-Identifier: Apache-2.0
// Asks two questions about a picture and shows where the model looked: ask MODEL PICTURE
#include <fovea/fovea.h>

#include <iostream>

int fail(const fovea::Error& error) {
  std::cerr << error.message << "\n";
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return fail(fovea::bad_input("usage: ask MODEL PICTURE"));
  const auto engine = fovea::Engine::load(argv[1]);
  if (!engine) return fail(engine.error());
  fovea::Session session = engine->session();
  if (const auto added = session.add(argv[2]); !added) return fail(added.error());

  const fovea::AskOptions options{.budget_tokens = 96, .max_tokens = 32, .draw = true};
  for (const char* question : {"What is in the picture?", "What is in its middle?"}) {
    const auto answer = session.ask(question, options, [](std::string_view text) {
      return bool(std::cout << text << std::flush);  // false would stop the answer
    });
    if (!answer) return fail(answer.error());
    const fovea::Usage& usage = answer->trace.usage;
    std::cout << "\n" << usage.image_tokens << " visual tokens of " << usage.image_tokens_full;
    std::cout << ", " << usage.kept_tokens << " tokens of the prompt kept from before\n";
    (void)fovea::save_png("gaze.png", answer->trace.looks[0].picture);
  }
}
