// SPDX-License-Identifier: Apache-2.0
#include "fovea/model_flags.h"

#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace fovea::app {
namespace {

CLI::Validator number_in(double least, double most) {
  const auto check = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && value >= least && value <= most) return "";
    return fmt::format("'{}' is not a number from {} to {}", text, least, most);
  };
  return {check, fmt::format("{}..{}", least, most)};
}

std::string plan_help() {
  std::string names;
  for (const PlanKind& kind : plan_kinds()) names += (names.empty() ? "" : ", ") + kind.name;
  return "How cells are chosen: " + names +
         " (see fovea see --help), or a plan that `fovea see --json FILE` wrote; with several "
         "pictures one such file for each, in their order";
}

std::string attention_help(const char* whose, bool AttentionChoice::*is_of) {
  std::string names;
  for (const AttentionChoice& choice : attention_choices())
    if (choice.*is_of) names += (names.empty() ? "" : ", ") + choice.name;
  return fmt::format(
      "How attention is computed in {}: {} (see fovea info); several with commas have an equal "
      "part of the layers each; KIND:0.1 says which share of the blocks is seen in full "
      "(default: dense)",
      whose, names);
}

// "ID:VALUE": a token and what is added to its logit.
Result<TokenBias> parse_bias(const std::string& text) {
  TokenBias token;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, token.id);
  const bool has_value = id.ec == std::errc() && id.ptr != end && *id.ptr == ':';
  const auto value = std::from_chars(has_value ? id.ptr + 1 : end, end, token.bias);
  const bool is_read = has_value && value.ec == std::errc() && value.ptr == end;
  if (is_read && token.id >= 0 && token.bias >= kBanBias && token.bias <= -kBanBias) return token;
  return bad_input(
      fmt::format("--logit-bias '{}': give ID:VALUE, the id of a token and a number from -100 "
                  "(never drawn) to 100",
                  text));
}

bool is_plan_kind(const std::string& name) {
  for (const PlanKind& kind : plan_kinds())
    if (kind.name == name) return true;
  return false;
}

// One of the flags that say where to look, which has no say beside a plan file; null where there is
// none.
const char* flag_that_steers(const AskOptions& options) {
  const AskOptions untold;
  if (options.looks != untold.looks) return "--looks";
  if (!options.look.empty()) return "--look";
  if (!options.balance.empty()) return "--balance";
  if (options.sure != untold.sure) return "--sure";
  return options.relook != untold.relook ? "--relook" : nullptr;
}

Result<GivenPlan> read_plan(const std::string& path) {
  auto plan = load_plan(path);
  if (plan) return plan;
  return Error(plan.error().kind,
               fmt::format("--plan {}: {}; give the name of a plan, or a file that "
                           "`fovea see --json FILE` wrote",
                           path, plan.error().message));
}

}  // namespace

void add_load_flags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("-m,--model", flags.model,
                  "A Hugging Face checkpoint folder of Qwen3-VL, or the name of a model that came "
                  "with the program")
      ->capture_default_str();
  command
      .add_option("--weights", flags.weights,
                  "Keep weights as f32, bf16 or int8 (default: as the files have them)")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  add_kernels(command, flags.kernels);
  add_memory(command, flags.memory);
  command.add_option("--max-pixels", flags.max_pixels, "Refuse larger images (default: 178956970)")
      ->check(whole_number(1, uint64_t{1} << 40));
  add_common(command, flags.common);
}

void add_attention_flags(CLI::App& command, AskOptions& options) {
  command
      .add_option("--attention", options.tower_attention,
                  attention_help("the tower", &AttentionChoice::of_tower))
      ->type_name("KIND");
  command
      .add_option("--attention-text", options.text_attention,
                  attention_help("the language model", &AttentionChoice::of_text))
      ->type_name("KIND");
}

void add_forget_flags(CLI::App& command, AskOptions& options) {
  command
      .add_option("--keep", options.keep,
                  "The share of the keys of visual tokens that memory keeps once the question is "
                  "read, summed over layers (default: 1, all)")
      ->type_name("SHARE");
  std::string names;
  for (const ForgetChoice& choice : forget_choices())
    names += (names.empty() ? "" : ", ") + choice.name;
  command
      .add_option("--forget", options.forget,
                  "With --keep, which ones: " + names + " (see fovea info; default: vl-cache)")
      ->type_name("POLICY");
}

void add_kv_flag(CLI::App& command, AskOptions& options) {
  std::string names;
  for (const KvChoice& choice : kv_choices()) names += (names.empty() ? "" : ", ") + choice.name;
  command
      .add_option("--kv", options.kv,
                  "How keys and values of the language model are stored: " + names +
                      ", or several with commas, each for an equal part of the layers (see fovea "
                      "info; default: f32)")
      ->type_name("FORMAT");
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  AskOptions& options = flags.options;
  add_load_flags(command, flags);
  flags.plans = {options.plan};
  command.add_option("-p,--plan", flags.plans, plan_help())
      ->default_str(options.plan)
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("-b,--budget", options.budget_tokens,
                  "The most tokens (cells) an image may take (default: 96; all for uniform)")
      ->check(whole_number(1, 1 << 30));
  command
      .add_option("--look", options.look,
                  "With glance+look: mixed (fine cells behind the glance), crops (rectangles, each "
                  "an image of its own) or off (default: mixed for models made for it, else crops)")
      ->check(CLI::IsMember({"mixed", "crops", "off"}));
  command
      .add_option("--looks", options.looks,
                  "The most looks, one after the other, within the budget")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  command
      .add_option("--sure", options.sure,
                  "No further look where the first token of the answer is at least so probable")
      ->capture_default_str()
      ->check(number_in(0, 1));
  command
      .add_option("--relook", options.relook,
                  "One look more within the budget, half-way through an answer: before a token of "
                  "which even the most likely one is less probable than this (default: 0, none)")
      ->check(number_in(0, 1));
  command
      .add_option("--balance", options.balance,
                  "What looks follow: mean, product or sum of all maps, or coupling, salience or "
                  "information alone (default: coupling for models with a gaze head, else mean)")
      ->check(CLI::IsMember({"mean", "product", "sum", "coupling", "salience", "information"}));
  command.add_flag("--size-bias", options.size_bias,
                   "In the tower, coarse cells count for as much as they cover");
  add_attention_flags(command, options);
  add_forget_flags(command, options);
  add_kv_flag(command, options);
  command.add_option("-n,--max-tokens", options.max_tokens, "The most tokens of an answer")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 30));
  command.add_option("-t,--temperature", options.temperature, "0: always the most likely token")
      ->capture_default_str()
      ->check(number_in(0, 100));
  command.add_option("--top-k", options.top_k, "Choose among the k most likely tokens; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  command
      .add_option("--top-p", options.top_p, "... among the likeliest that hold this probability")
      ->capture_default_str()
      ->check(number_in(0, 1));
  command.add_option("--min-p", options.min_p, "... of at least this share of the best's")
      ->capture_default_str()
      ->check(number_in(0, 1));
  command
      .add_option("--repetition-penalty", options.repetition_penalty,
                  "Above 1, tokens that were there are less likely")
      ->capture_default_str()
      ->check(number_in(0.01, 100));
  command
      .add_option("--frequency-penalty", options.frequency_penalty,
                  "Taken off a token's logit for each time it is in the answer")
      ->capture_default_str()
      ->check(number_in(-2, 2));
  command
      .add_option("--presence-penalty", options.presence_penalty,
                  "Taken off a token's logit once it is in the answer")
      ->capture_default_str()
      ->check(number_in(-2, 2));
  command
      .add_option("--logit-bias", flags.biases,
                  "ID:VALUE, added to the logit of a token, -100 (never drawn) to 100; may be "
                  "repeated")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--least-tokens", options.least_tokens,
                  "The least tokens of an answer: before them the model cannot end it")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  command.add_option("--stop", options.stop, "End the answer before this text; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--system", options.system, "What the model is told before the question");
  command.add_flag("--allow-special", options.allow_special,
                   "Special tokens such as <|im_end|> that are written in a text are tokens, not "
                   "text");
  command.add_flag("--stats", flags.stats, "Tokens, times and memory on stderr");
}

Status read_model_flags(ModelFlags& flags, size_t images) {
  AskOptions& options = flags.options;
  options.seed = flags.common.seed;
  for (const std::string& text : flags.biases) {
    const auto token = parse_bias(text);
    if (!token) return token.error();
    options.logit_bias.push_back(*token);
  }
  if (flags.plans.size() == 1 && is_plan_kind(flags.plans[0])) {
    options.plan = flags.plans[0];
    return Done{};
  }
  if (const char* flag = flag_that_steers(options); flag != nullptr)
    return bad_input(fmt::format("--plan {}: a plan file says where to look; leave {} out",
                                 flags.plans[0], flag));
  bool all_uniform = true;
  for (const std::string& path : flags.plans) {
    if (is_plan_kind(path))
      return bad_input(fmt::format(
          "--plan {} goes with no other --plan: give one maker, or a file for each picture", path));
    auto plan = read_plan(path);
    if (!plan) return plan.error();
    all_uniform = all_uniform && plan->maker == "uniform";
    options.plans.push_back(std::move(*plan));
  }
  if (options.plans.size() != images)
    return bad_input(
        fmt::format("{} plan file{} for {} picture{}; give --plan once for each, in their order",
                    options.plans.size(), options.plans.size() == 1 ? "" : "s", images,
                    images == 1 ? "" : "s"));
  options.plan = all_uniform ? "uniform" : "glance+look";  // for the canvas
  return Done{};
}

Result<Engine> load_model(const ModelFlags& flags, double& load_ms) {
  const auto start = std::chrono::steady_clock::now();
  const bool show = isatty(STDERR_FILENO) != 0 && !flags.common.quiet;
  if (show && flags.model == "tiny")
    tell(
        "tiny knows the scenes of `fovea cards` alone; for other pictures give --model a "
        "Qwen3-VL folder\n");
  LoadOptions options;
  options.device = flags.common.device;
  options.kernels = flags.kernels;
  options.weights = flags.weights;
  options.threads = flags.common.threads;
  options.memory_bytes = flags.memory;
  int64_t shown = -1;
  if (show)
    options.on_progress = [&](int64_t done, int64_t total) {
      const int64_t percent = total > 0 ? done * 100 / total : 100;
      if (percent == shown) return;
      shown = percent;
      tell("\rloading {} {:3} %", one_line(flags.model), percent);
    };
  auto engine = Engine::load(flags.model, options);
  if (shown >= 0) tell("\r\x1b[K");
  load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

Status add_fixation(AskOptions& options, const std::string& text, size_t images) {
  size_t image = 1;
  std::string point_text = text;
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    const char* end = text.data() + colon;
    const auto [stopped, error] = std::from_chars(text.data(), end, image);
    if (error != std::errc() || stopped != end || image < 1 || image > images)
      return bad_input(fmt::format(
          "--fixation '{}': before the colon goes the number of an image, 1 to {}", text, images));
    point_text = text.substr(colon + 1);
  }
  if (images == 0) return bad_input("--fixation needs an image");
  if (!options.plans.empty())
    return bad_input(fmt::format(
        "--fixation '{}': a plan file says where to look; leave one of the two out", text));
  const auto point = parse_point(point_text);
  if (!point) return point.error();
  options.fixations.resize(std::max(options.fixations.size(), image));
  options.fixations[image - 1].push_back(*point);
  return Done{};
}

Waiting::Waiting(const Common& common) : show_(isatty(STDERR_FILENO) != 0 && !common.quiet) {}

void Waiting::tick() {
  if (!show_) return;
  const auto passed = std::chrono::steady_clock::now() - start_;
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(passed).count();
  if (seconds == shown_s_) return;
  shown_s_ = seconds;
  tell("\rlooking and reading, {} s", seconds);
}

void Waiting::clear() {
  if (shown_s_ > 0) tell("\r\x1b[K");
  show_ = false;
  shown_s_ = 0;
}

namespace {

// Read by every thread that works, hence an atomic.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int /*signal*/) { interrupted = true; }

}  // namespace

StopOnInterrupt::StopOnInterrupt() {
  interrupted = false;
  struct sigaction once {};
  once.sa_handler = on_interrupt;
  once.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);  // a second one ends the program
  sigaction(SIGINT, &once, nullptr);
}
StopOnInterrupt::~StopOnInterrupt() { signal(SIGINT, SIG_DFL); }
bool StopOnInterrupt::asked() { return interrupted; }

}  // namespace fovea::app
