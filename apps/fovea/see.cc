// SPDX-License-Identifier: Apache-2.0
// fovea see: what the engine would look at in a picture, and why.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "fovea/answer_json.h"
#include "fovea/command.h"
#include "fovea/fovea.h"

namespace fovea::app {
namespace {

struct SeeFlags {
  Common common;
  SeeOptions options;
  std::string image;
  std::vector<std::string> fixations;
  std::string coupling;
  std::string output;
  std::string json;
  std::string maps;
};

// Whether a folder cannot be made for what its path is; else it is the machine's doing.
bool is_wrong_path(std::error_code error) {
  constexpr std::errc kWrong[] = {std::errc::file_exists,
                                  std::errc::filename_too_long,
                                  std::errc::invalid_argument,
                                  std::errc::no_such_file_or_directory,
                                  std::errc::not_a_directory,
                                  std::errc::operation_not_permitted,
                                  std::errc::permission_denied,
                                  std::errc::read_only_file_system,
                                  std::errc::too_many_symbolic_link_levels};
  return !error || std::any_of(std::begin(kWrong), std::end(kWrong),
                               [&](std::errc wrong) { return error == wrong; });
}

Status save_maps(const std::string& folder, const Sight& sight) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return Error(is_wrong_path(error) ? Error::Kind::kBadInput : Error::Kind::kFailed,
                 fmt::format("--maps {}: cannot make that folder: {}", folder,
                             error ? error.message() : "something else is there"));
  const std::pair<const char*, const Map*> maps[] = {{"information", &sight.information},
                                                     {"salience", &sight.salience},
                                                     {"coupling", &sight.coupling},
                                                     {"relevance", &sight.relevance}};
  for (const auto& [name, map] : maps) {
    auto saved =
        save_png((std::filesystem::path(folder) / (std::string(name) + ".png")).string(), *map);
    if (!saved) return saved;
  }
  return Done{};
}

Status read_flags(SeeFlags& flags) {
  if (auto settled = settle_outputs({{"-o", &flags.output}, {"--json", &flags.json}}); !settled)
    return settled;
  if (flags.output == "-" && flags.json == "-")
    return bad_input("of -o - and --json - one alone can have stdout");
  for (const std::string& text : flags.fixations) {
    const auto point = parse_point(text);
    if (!point) return point.error();
    flags.options.fixations.push_back(*point);
  }
  if (!flags.coupling.empty()) {
    auto map = load_map(flags.coupling);
    if (!map) return map.error();
    flags.options.coupling = std::move(*map);
  }
  flags.options.device = flags.common.device;
  flags.options.threads = flags.common.threads;
  flags.options.draw = !flags.output.empty();
  return Done{};
}

Status write_results(const SeeFlags& flags, const Sight& sight) {
  if (!flags.output.empty())
    if (auto saved = save_png(flags.output, sight.picture); !saved) return saved;
  if (!flags.maps.empty())
    if (auto saved = save_maps(flags.maps, sight); !saved) return saved;
  if (!flags.json.empty())
    if (auto saved = save_text(flags.json, sight_json(sight).dump() + "\n"); !saved) return saved;
  return Done{};
}

int run(SeeFlags& flags) {
  if (const auto read = read_flags(flags); !read) return complain(read.error());
  const auto sight = see(flags.image, flags.options);
  if (!sight) return complain(sight.error());
  if (const auto written = write_results(flags, *sight); !written) return complain(written.error());
  if (!flags.options.question.empty() && flags.options.coupling.empty())
    note(flags.common,
         "note: without --coupling the question is shown but does not steer the plan");
  if (flags.json != "-" && flags.output != "-") {
    fmt::print("{} tokens of {} ({}, canvas {}x{} px){}\n", sight->plan.tokens(),
               sight->tokens_full, sight->plan.maker, sight->canvas.width_px,
               sight->canvas.height_px, flags.output.empty() ? "" : ": " + one_line(flags.output));
  }
  return kGood;
}

std::string plan_help() {
  std::string help = "How cells are chosen:";
  for (const PlanKind& kind : plan_kinds())
    help += fmt::format("\n  {}: {}", kind.name, kind.description);
  return help;
}

std::vector<std::string> plan_names() {
  std::vector<std::string> names;
  for (const PlanKind& kind : plan_kinds()) names.push_back(kind.name);
  return names;
}

}  // namespace

Run add_see(CLI::App& program) {
  auto flags = std::make_shared<SeeFlags>();
  SeeOptions& options = flags->options;
  CLI::App* command = program.add_subcommand("see", "Show what the engine would look at, and why");
  command->add_option("image", flags->image, "JPEG, PNG or WebP; - reads stdin")->required();
  command->add_option("-p,--plan", options.plan, plan_help())
      ->capture_default_str()
      ->check(CLI::IsMember(plan_names()));
  command
      ->add_option("-b,--budget", options.budget_tokens,
                   "The most tokens (cells) the plan may hold (default: 96; all for uniform)")
      ->check(whole_number(1, 1 << 30));
  command->add_option("--question", options.question, "What is asked of the picture");
  command->add_option("--coupling", flags->coupling,
                      "A picture of what the question has to do with each place, white the most");
  command->add_option("--fixation", flags->fixations, "x,y in pixels of the image; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--balance", options.balance,
                   "How relevance is balanced: mean, product or sum of all maps, or coupling, "
                   "salience or information alone")
      ->capture_default_str()
      ->check(CLI::IsMember({"mean", "product", "sum", "coupling", "salience", "information"}));
  command->add_flag("!--no-centre-bias", options.centre_bias,
                    "Do not favour the middle of the picture");
  command
      ->add_option("-o,--output", flags->output,
                   "Write the picture of what was seen (PNG); - for stdout")
      ->check(some_path());
  command->add_option("--json", flags->json, "Write the plan as JSON; - for stdout")
      ->check(some_path());
  command
      ->add_option(
          "--maps", flags->maps,
          "Write information, salience, coupling and relevance as 16-bit PNG into this folder")
      ->check(folder_path());
  command
      ->add_option("--max-pixels", options.max_pixels, "Refuse larger images (default: 178956970)")
      ->check(whole_number(1, uint64_t{1} << 40));
  add_common(*command, flags->common);
  command->footer(
      "Examples:\n"
      "  fovea see photo.jpg -o seen.png\n"
      "  fovea see photo.jpg --budget 68 --plan cortical --fixation 320,240 -o seen.png\n"
      "  fovea see photo.jpg --json - --maps maps | jq .tokens\n"
      "  curl -s https://example.org/photo.jpg | fovea see - --plan glance+look -o seen.png");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
