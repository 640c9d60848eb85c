// SPDX-License-Identifier: Apache-2.0
#include "eval/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "eval/arms.h"
#include "eval/cards_questions.h"
#include "eval/random.h"
#include "fovea/model_flags.h"
#include "fovea/new_file.h"
#include "kept/model_fingerprint.h"
#include "kept/settle_attention.h"

namespace fovea::eval {
namespace {

std::string arms_help() {
  std::string help = "Ways of choosing cells, with commas between:";
  for (const ArmKind& kind : arm_kinds())
    help += fmt::format("\n  {}: {}", kind.name, kind.description);
  return help;
}

std::vector<std::string> arm_names() {
  std::vector<std::string> names;
  for (const ArmKind& kind : arm_kinds()) names.emplace_back(kind.name);
  return names;
}

// "10..13" or "12".
Result<std::pair<int, int>> parse_range(const std::string& text) {
  const size_t dots = text.find("..");
  const std::string first = text.substr(0, dots);
  const std::string last = dots == std::string::npos ? first : text.substr(dots + 2);
  const auto number = [](const std::string& digits, int& value) {
    const char* end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && stopped == end;
  };
  std::pair<int, int> range;
  if (!number(first, range.first) || !number(last, range.second))
    return bad_input(fmt::format("--payload '{}': give heights in pixels, such as 10..13", text));
  return range;
}

Result<QuestionSet> read_cards(const EvalFlags& flags, Threads& threads, Honesty honesty) {
  CardsOptions options;
  options.questions = flags.cards;
  options.seed = flags.common.seed;
  options.honesty = honesty;
  options.scene.size = {flags.size_px, flags.size_px};
  options.scene.cards_min = options.scene.cards_max = flags.card_count;
  const auto payload = parse_range(flags.payload);
  if (!payload) return payload.error();
  std::tie(options.scene.payload_min_px, options.scene.payload_max_px) = *payload;
  for (const std::string& name : flags.families) {
    const auto family = family_of(name);
    std::string known;
    for (const Family one : kAllFamilies) known += " " + std::string(family_name(one));
    if (!family)
      return bad_input(fmt::format("--families '{}': no such family; there are{}", name, known));
    if (std::find(options.families.begin(), options.families.end(), *family) ==
        options.families.end())
      options.families.push_back(*family);
  }
  if (options.families.empty()) options.families.assign(kAllFamilies.begin(), kAllFamilies.end());
  return cards_questions(threads, options);
}

Result<QuestionSet> read_data(const EvalFlags& flags, Honesty honesty) {
  auto set = read_questions({flags.data, flags.images, flags.common.seed, honesty});
  if (!set || flags.families.empty()) return set;
  for (const std::string& family : flags.families)
    if (std::find(set->families.begin(), set->families.end(), family) == set->families.end())
      return bad_input(fmt::format("--families '{}': {} has no such family; its first is '{}'",
                                   family, flags.data, set->families.front()));
  const auto wanted = [&](const std::string& family) {
    return std::find(flags.families.begin(), flags.families.end(), family) != flags.families.end();
  };
  std::erase_if(set->questions, [&](const Question& question) { return !wanted(question.family); });
  std::erase_if(set->families, [&](const std::string& family) { return !wanted(family); });
  return set;
}

}  // namespace

void add_eval_flags(CLI::App& command, EvalFlags& flags) {
  using app::whole_number;
  const auto list = [](CLI::Option* option) {
    return option->delimiter(',')->allow_extra_args(false);
  };
  command
      .add_option("-m,--model", flags.model, "A checkpoint folder of Qwen3-VL, or a model's name")
      ->capture_default_str();
  command.add_option("--weights", flags.weights, "Keep weights as f32, bf16 or int8")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  command.add_option("--data", flags.data,
                     "A folder or file of questions: LLaVA's JSON and JSONL, or V*'s JSON");
  command.add_option("--images", flags.images, "Where the images of --data are looked for");
  command
      .add_option("--cards", flags.cards, "Ask this many questions about fresh scenes of CardField")
      ->check(whole_number(1, 10'000'000));
  list(command.add_option("--families", flags.families, "Only these families of questions"));
  list(command.add_option("--arms", flags.arms, arms_help()))
      ->capture_default_str()
      ->check(CLI::IsMember(arm_names()));
  list(command.add_option("--budgets", flags.budgets, "The most tokens (cells) of a plan"))
      ->capture_default_str()
      ->check(whole_number(1, 1 << 30));
  command
      .add_option("--looks", flags.ask.looks,
                  "The most looks; they share the budget, and end where the model is sure")
      ->capture_default_str()
      ->check(whole_number(1, 64));
  command
      .add_option("--sure", flags.ask.sure,
                  "With --looks, no further look where the first token is at least so probable")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option("--look", flags.ask.look,
                  "mixed, crops or off (default: mixed for models made for it, else crops)")
      ->check(CLI::IsMember({"mixed", "crops", "off"}));
  app::add_attention_flags(command, flags.ask);
  app::add_forget_flags(command, flags.ask);
  app::add_kv_flag(command, flags.ask);
  command.add_option("--size", flags.size_px, "Side of a scene of --cards, in pixels")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  command.add_option("--card-count", flags.card_count, "Cards of a scene")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  command.add_option("--payload", flags.payload, "Heights of what stands on the cards, in pixels")
      ->capture_default_str();
  command
      .add_option("--honesty", flags.honesty,
                  "payload: paint over what must be read; noise: noise for pictures; accuracy "
                  "must fall to chance")
      ->capture_default_str()
      ->check(CLI::IsMember({"off", "payload", "noise"}));
  flags.ask.max_tokens = 16;
  command.add_option("-n,--max-tokens", flags.ask.max_tokens, "The most tokens of an answer")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 30));
  command.add_flag("--allow-special", flags.ask.allow_special,
                   "Special tokens such as <|im_end|> in a question are tokens, not text");
  command.add_option("--json", flags.json, "Write the rows as JSON; - for stdout, and no table")
      ->check(app::some_path());
  command
      .add_option("--plot", flags.plot,
                  "Draw accuracy over tokens (PNG); - for stdout, and no table")
      ->check(app::some_path());
  command
      .add_option("--plot-over", flags.plot_over,
                  "What --plot draws accuracy over: tokens, or bytes of keys and values")
      ->capture_default_str()
      ->check(CLI::IsMember({"tokens", "bytes"}));
  command
      .add_option("--resume", flags.resume,
                  "Keep every answer in this JSONL file, and go on where it ends")
      ->check(app::some_path());
  app::add_kernels(command, flags.kernels);
  app::add_memory(command, flags.memory);
  add_common(command, flags.common);
}

Status check_eval_flags(EvalFlags& flags) {
  if (auto settled = kept::settle_attention(flags.ask); !settled) return settled;
  if (auto settled = app::settle_outputs(
          {{"--json", &flags.json}, {"--plot", &flags.plot}, {"--resume", &flags.resume}});
      !settled)
    return settled;
  if (flags.data.empty() == (flags.cards == 0))
    return bad_input("give --data DIR|FILE or --cards N, one of them");
  if (flags.json == "-" && flags.plot == "-")
    return bad_input("of --json - and --plot - one alone can have stdout");
  if (flags.resume == "-") return bad_input("--resume -: what is read again must be a file");
  for (const std::string& path : {flags.json, flags.plot})
    if (!path.empty())
      if (auto checked = check_writable(path); !checked) return checked;
  return Done{};
}

Result<QuestionSet> questions_of(const EvalFlags& flags, Threads& threads) {
  const Honesty honesty = flags.honesty == "payload" ? Honesty::kPayload
                          : flags.honesty == "noise" ? Honesty::kNoise
                                                     : Honesty::kOff;
  return flags.data.empty() ? read_cards(flags, threads, honesty) : read_data(flags, honesty);
}

Result<std::string> settings_json(const EvalFlags& flags, const std::string& model_folder,
                                  const QuestionSet& set) {
  const auto model = kept::model_fingerprint(model_folder);
  if (!model) return model.error();
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["model"] = kept::model_name(model_folder);
  json["model_fingerprint"] = fmt::format("{:016x}", *model);
  json["weights"] = flags.weights.empty() ? "as stored" : flags.weights;
  json["data"] = flags.data.empty() ? "cards" : flags.data;
  json["questions"] = set.questions.size();
  json["families"] = set.families;
  json["seed"] = flags.common.seed;
  if (flags.data.empty()) {
    json["size"] = flags.size_px;
    json["card_count"] = flags.card_count;
    json["payload"] = flags.payload;
  }
  json["honesty"] = flags.honesty;
  json["looks"] = flags.ask.looks;
  json["look"] = flags.ask.look.empty() ? "default" : flags.ask.look;
  // Not there where it is the default: earlier runs had no other.
  if (flags.ask.sure != AskOptions{}.sure) json["sure"] = flags.ask.sure;
  // Not there where it is dense: earlier runs had no other.
  if (!flags.ask.tower_attention.empty()) json["attention"] = flags.ask.tower_attention;
  if (!flags.ask.text_attention.empty()) json["attention_text"] = flags.ask.text_attention;
  if (flags.ask.keep != 1) {
    json["keep"] = flags.ask.keep;
    json["forget"] = flags.ask.forget.empty() ? "vl-cache" : flags.ask.forget;
  }
  if (!flags.ask.kv.empty()) json["kv"] = flags.ask.kv;
  // Which GPU of a machine makes no difference; its kernels round otherwise than the CPU's.
  const std::string device = flags.common.device.substr(0, flags.common.device.find(':'));
  if (device != "cpu") json["device"] = device;
  if (flags.kernels != "best") json["kernels"] = flags.kernels;
  json["max_tokens"] = flags.ask.max_tokens;
  if (flags.ask.allow_special) json["allow_special"] = true;
  // Last: where something above differs too, that is what a person is told.
  json["questions_fingerprint"] = fmt::format("{:016x}", fingerprint(set));
  return json_text(json);
}

}  // namespace fovea::eval
