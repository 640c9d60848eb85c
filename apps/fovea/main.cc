// SPDX-License-Identifier: Apache-2.0
// The command line: one subcommand a file.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include "fovea/command.h"
#include "fovea/fovea.h"

namespace fovea::app {
namespace {

int run_program(int argc, char** argv) {
  CLI::App program("Fovea lets a vision-language model look the way eyes do.", "fovea");
  program.set_version_flag("--version", std::string("fovea ") + version());
  program.set_help_all_flag("--help-all", "Print the help of every subcommand and exit");
  program.footer("Try: fovea see photo.jpg --budget 96 -o seen.png");
  program.require_subcommand(0, 1);

  std::map<std::string, Run> commands;
  commands["see"] = add_see(program);
  commands["ask"] = add_ask(program);
  commands["chat"] = add_chat(program);
  commands["info"] = add_info(program);
  commands["bench"] = add_bench(program);
  commands["eval"] = add_eval(program);
  commands["profile"] = add_profile(program);
  commands["cards"] = add_cards(program);
  commands["tokenize"] = add_tokenize(program);

  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    return program.exit(success);
  } catch (const CLI::ParseError& error) {
    const auto chosen = program.get_subcommands();
    const std::string command = chosen.empty() ? "fovea" : "fovea " + chosen.front()->get_name();
    return complain(bad_input(std::string(error.what()) + "; see " + command + " --help"));
  }
  if (program.get_subcommands().empty()) {
    std::cout << program.help();
    return kGood;
  }
  return commands.at(program.get_subcommands().front()->get_name())();
}

}  // namespace
}  // namespace fovea::app

int main(int argc, char** argv) {
  try {
    return fovea::app::run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    return fovea::app::complain(fovea::failed("out of memory; try a smaller image"));
  } catch (const std::exception& error) {
    return fovea::app::complain(fovea::failed(error.what()));
  }
}
