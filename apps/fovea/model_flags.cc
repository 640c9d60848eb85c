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
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

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
         " (see fovea see --help), or a plan that `fovea see --json FILE` wrote";
}

bool is_plan_kind(const std::string& name) {
  for (const PlanKind& kind : plan_kinds())
    if (kind.name == name) return true;
  return false;
}

// The plan of a file as `fovea see --json` writes it; of the cells the order does not matter.
Result<Plan> read_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto wrong = [&](const char* what) {
    return bad_input(
        fmt::format("--plan {}: {}; give the name of a plan, or a file that "
                    "`fovea see --json FILE` wrote",
                    path, what));
  };
  if (!file) return wrong("no such plan, and no such file");
  if (!json.is_object() || !json.contains("cells") || !json["cells"].is_array())
    return wrong("no JSON object with cells");
  Plan plan;
  if (json.contains("plan") && json["plan"].is_string()) plan.maker = json["plan"];
  for (const auto& cell : json["cells"]) {
    if (!cell.is_array() || cell.size() != 3) return wrong("a cell is not [level,row,col]");
    for (const auto& value : cell)
      if (!value.is_number_integer() || value < -1 || value > 1 << 24)
        return wrong("a cell is not [level,row,col]");
    plan.cells.push_back({cell[0], cell[1], cell[2]});
  }
  return plan;
}

}  // namespace

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  AskOptions& options = flags.options;
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
  flags.plan = options.plan;
  command.add_option("-p,--plan", flags.plan, plan_help())->capture_default_str();
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
                  "At most so many looks one after the other, within the budget")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  command
      .add_option("--sure", options.sure,
                  "No further look where the first token of the answer is at least so probable")
      ->capture_default_str()
      ->check(number_in(0, 1));
  command
      .add_option("--balance", options.balance,
                  "What looks follow: mean, product or sum of all maps, or coupling, salience or "
                  "information alone (default: coupling for models with a gaze head, else mean)")
      ->check(CLI::IsMember({"mean", "product", "sum", "coupling", "salience", "information"}));
  command.add_flag("--size-bias", options.size_bias,
                   "In the tower, coarse cells count for as much as they cover");
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
  command.add_option("--stop", options.stop, "End the answer before this text; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--system", options.system, "What the model is told before the question");
  command.add_flag("--stats", flags.stats, "Tokens, times and memory on stderr");
  command.add_option("--max-pixels", flags.max_pixels, "Refuse larger images (default: 178956970)")
      ->check(whole_number(1, uint64_t{1} << 40));
  add_common(command, flags.common);
}

Status read_model_flags(ModelFlags& flags) {
  flags.options.seed = flags.common.seed;
  if (is_plan_kind(flags.plan)) {
    flags.options.plan = flags.plan;
    return Done{};
  }
  auto plan = read_plan(flags.plan);
  if (!plan) return plan.error();
  flags.options.plan = plan->maker == "uniform" ? "uniform" : "glance+look";  // for the canvas
  flags.options.plans = {std::move(*plan)};
  return Done{};
}

Result<Engine> load_model(const ModelFlags& flags, double& load_ms) {
  const auto start = std::chrono::steady_clock::now();
  const bool show = isatty(STDERR_FILENO) != 0 && !flags.common.quiet;
  if (show && flags.model == "tiny")
    fmt::print(stderr,
               "tiny knows the scenes of `fovea cards` alone; for other pictures give --model a "
               "Qwen3-VL folder\n");
  LoadOptions options;
  options.device = flags.common.device;
  options.kernels = flags.kernels;
  options.weights = flags.weights;
  options.threads = flags.common.threads;
  int64_t shown = -1;
  if (show)
    options.on_progress = [&](int64_t done, int64_t total) {
      const int64_t percent = total > 0 ? done * 100 / total : 100;
      if (percent == shown) return;
      shown = percent;
      fmt::print(stderr, "\rloading {} {:3} %", flags.model, percent);
      std::fflush(stderr);
    };
  auto engine = Engine::load(flags.model, options);
  if (shown >= 0) fmt::print(stderr, "\r\x1b[K");
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
  fmt::print(stderr, "\rlooking and reading, {} s", seconds);
  std::fflush(stderr);
}

void Waiting::clear() {
  if (shown_s_ > 0) fmt::print(stderr, "\r\x1b[K");
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
