// SPDX-License-Identifier: Apache-2.0
// fovea info: version, devices, plan makers, kinds of attention and limits.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "fovea/command.h"
#include "fovea/fovea.h"

namespace fovea::app {
namespace {

void print_json() {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["version"] = version();
  json["devices"] = nlohmann::json::array();
  for (const Device& device : devices())
    json["devices"].push_back({{"name", device.name}, {"description", device.description}});
  json["plans"] = nlohmann::ordered_json::object();
  for (const PlanKind& kind : plan_kinds()) json["plans"][kind.name] = kind.description;
  json["attention"] = nlohmann::ordered_json::object();
  for (const AttentionChoice& choice : attention_choices())
    json["attention"][choice.name] = {
        {"description", choice.description}, {"tower", choice.of_tower}, {"text", choice.of_text}};
  const Limits limit = limits();
  json["limits"] = {{"max_pixels", limit.max_pixels},
                    {"max_side_ratio", limit.max_side_ratio},
                    {"budget_tokens", limit.budget_tokens},
                    {"uniform_pixels", limit.uniform_pixels}};
  fmt::print("{}\n", json.dump());
}

void print_text() {
  fmt::print("fovea {}\n\ndevices\n", version());
  for (const Device& device : devices())
    fmt::print("  {:<10} {}\n", device.name, device.description);
  fmt::print("\nplans\n");
  for (const PlanKind& kind : plan_kinds())
    fmt::print("  {:<13} {}\n", kind.name, kind.description);
  fmt::print("\nattention (--attention: of the tower; --attention-text: of the language model)\n");
  for (const AttentionChoice& choice : attention_choices())
    fmt::print("  {:<13} {}\n", choice.name, choice.description);
  fmt::print("\nforgetting (--forget, with --keep)\n");
  for (const ForgetChoice& choice : forget_choices())
    fmt::print("  {:<13} {}\n", choice.name, choice.description);
  fmt::print("\nkeys and values (--kv)\n");
  for (const KvChoice& choice : kv_choices())
    fmt::print("  {:<13} {}\n", choice.name, choice.description);
  const Limits limit = limits();
  fmt::print("\nlimits\n");
  fmt::print("  image         at most {} px (--max-pixels raises it), sides up to {}:1\n",
             limit.max_pixels, limit.max_side_ratio);
  fmt::print("  uniform plan  shrinks the canvas to {} px\n", limit.uniform_pixels);
  fmt::print("  budget        {} tokens by default\n", limit.budget_tokens);
}

}  // namespace

Run add_info(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "info", "Show version, devices, plan makers, kinds of attention and limits");
  auto common = std::make_shared<Common>();
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object");
  add_common(*command, *common);
  command->footer("Examples:\n  fovea info\n  fovea info --json | jq .devices");
  return [common, json] {
    if (const auto checked = check_cpu(common->device); !checked) return complain(checked.error());
    *json ? print_json() : print_text();
    return kGood;
  };
}

}  // namespace fovea::app
