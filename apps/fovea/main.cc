// SPDX-License-Identifier: Apache-2.0
// The command line: one subcommand a file.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "fovea/command.h"
#include "fovea/fovea.h"

namespace fovea::app {
namespace {

// A file that is opened while stdin, stdout or stderr is closed would take its number, and with it
// what the program prints. Reading and writing the first two fails, as it does where they are
// closed; what goes to stderr is dropped.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
}

// The arguments, last one first, as CLI11 wants them. It takes the word after "--name=" for the
// value; an empty value is an empty value.
std::vector<std::string> arguments_of(const CLI::App& program, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const CLI::App* command = &program;
  for (const CLI::App* each : program.get_subcommands({}))
    if (!words.empty() && each->check_name(words.front())) command = each;
  const auto takes_value = [&](const std::string& name) {
    const CLI::Option* option = command->get_option_no_throw(name);
    return option != nullptr && option->get_items_expected_min() > 0;
  };
  std::vector<std::string> all;
  bool is_value = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--" && !is_value) {
      all.insert(all.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    const size_t equals = word.find('=');
    const bool is_name = !is_value && word.starts_with('-');
    if (is_name && equals + 1 == word.size() && takes_value(word.substr(0, equals))) {
      all.push_back(word.substr(0, equals));
      all.emplace_back();
    } else {
      all.push_back(word);
    }
    is_value = is_name && takes_value(word);
  }
  std::reverse(all.begin(), all.end());
  return all;
}

int print(const std::string& text) {
  const Status written = save_text("-", text);
  return written ? kGood : complain(written.error());
}

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
  commands["batch"] = add_batch(program);
  commands["info"] = add_info(program);
  commands["bench"] = add_bench(program);
  commands["eval"] = add_eval(program);
  commands["profile"] = add_profile(program);
  commands["cards"] = add_cards(program);
  commands["tokenize"] = add_tokenize(program);
  commands["serve"] = add_serve(program);
  commands["view"] = add_view(program);

  try {
    program.parse(arguments_of(program, argc, argv));
  } catch (const CLI::Success& success) {  // --help and --version
    std::ostringstream text;
    program.exit(success, text, text);
    return print(text.str());
  } catch (const CLI::ParseError& error) {
    const auto chosen = program.get_subcommands();
    const std::string command = chosen.empty() ? "fovea" : "fovea " + chosen.front()->get_name();
    return complain(bad_input(std::string(error.what()) + "; see " + command + " --help"));
  }
  if (program.get_subcommands().empty()) return print(program.help());
  return commands.at(program.get_subcommands().front()->get_name())();
}

std::terminate_handler earlier_handler = nullptr;

// Memory may run out where nothing may be thrown: destructors of JSON values take some, and so do
// CLI11's constants before main().
[[noreturn]] void end_program() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the earlier handler says what it is
  }
  earlier_handler();
  std::abort();
}

[[gnu::constructor(101)]] void set_handler() { earlier_handler = std::set_terminate(end_program); }

}  // namespace
}  // namespace fovea::app

// What is thrown here ends in end_program().
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  using namespace fovea;
  using namespace fovea::app;
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, not the end
  int status = kFailed;
  try {
    status = run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain_of_memory();
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0)
      return complain(failed("cannot write to stdout: " + error.code().message()));
    return complain(failed(error.what()));
  } catch (const std::exception& error) {
    return complain(failed(error.what()));
  }
  const Status written = check_stdout();
  return status == kGood && !written ? complain(written.error()) : status;
}
