// SPDX-License-Identifier: Apache-2.0
// fovea profile: where the time of one request goes, and what of it could be saved.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "engine/model.h"
#include "engine/see_parts.h"
#include "fovea/model_flags.h"
#include "media/decode.h"
#include "profile/measure.h"
#include "profile/ncu.h"
#include "profile/report.h"
#include "profile/request.h"
#include "pyramid/canvas.h"

namespace fovea::app {
namespace {

constexpr int kTokens = 16;        // of an answer, unless said otherwise
constexpr int kCountedTokens = 4;  // under a profiler of kernels, which is slow; all are alike

struct ProfileFlags : ModelFlags {
  std::string image;
  std::string question;
  bool json = false;
  bool counters = true;
  int runs = 1;
  std::string inside_ncu;  // "foveated" or "dense": what to run there
};

Result<std::shared_ptr<const Model>> load(const ProfileFlags& flags) {
  const auto folder = find_model(flags.model);
  if (!folder) return folder.error();
  return fovea::load_model(*folder, {.device = flags.common.device,
                                     .kernels = flags.kernels,
                                     .weights = flags.weights,
                                     .threads = flags.common.threads,
                                     .memory_bytes = flags.memory,
                                     .on_progress = nullptr});
}

Result<Requests> open_requests(const ProfileFlags& flags) {
  auto bytes = read_image_file(flags.image, image_limits_of({.max_pixels = flags.max_pixels}));
  if (!bytes) return bytes.error();
  auto model = load(flags);
  if (!model) return model.error();
  return Requests(std::move(*model), std::move(*bytes), flags.question, flags.options,
                  flags.max_pixels);
}

// The child of count_both().
int run_inside_ncu(ProfileFlags& flags) {
  flags.options.max_tokens = std::min(flags.options.max_tokens, kCountedTokens);
  if (flags.inside_ncu == "dense") {
    flags.options.plan = "uniform";
    flags.options.budget_tokens = -1;
    flags.options.plans.clear();
  }
  const auto requests = open_requests(flags);
  if (!requests) return complain(requests.error());
  if (!requests->model().device->works_ahead())
    return complain(bad_input("kernels run on a device"));
  if (const auto warm = requests->warm_up(); !warm) return complain(warm.error());
  const Status ran = requests->run_recorded();
  return ran ? kGood : complain(ran.error());
}

// What this process was called with, without its name.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

// Counts the kernels of the request and of its dense path, or says why not.
void count_both(const ProfileFlags& flags, Profile& profile) {
  if (!flags.counters || flags.common.device.rfind("cuda", 0) != 0) return;
  const std::string ncu = find_ncu();
  if (ncu.empty() || flags.image == "-") {
    profile.counters_note = ncu.empty() ? "no counters: Nsight Compute (ncu) is neither on PATH "
                                          "nor in /usr/local/cuda/bin"
                                        : "no counters: a picture on stdin cannot be read again";
    return;
  }
  for (const char* path : {"foveated", "dense"}) {
    note(flags.common,
         fmt::format("counting the kernels of the {} path with {}: some minutes", path, ncu));
    std::vector<std::string> arguments = own_arguments();
    arguments.insert(arguments.end(), {"--inside-ncu", path});
    auto counted = count_under_ncu(ncu, arguments);
    if (!counted) {
      profile.counters_note = "no counters: " + counted.error().message;
      return;
    }
    (path == std::string("dense") ? profile.dense_counters : profile.counters) = *counted;
  }
}

Result<Size> dense_canvas(const Model& model, Size image) {
  const ProcessorConfig& processor = model.checkpoint.processor();
  return canvas_size(image, {processor.min_pixels, processor.max_pixels});
}

Status count_work(const Requests& requests, Profile& profile) {
  const Model& model = requests.model();
  const ModelConfig& config = model.config();
  const Storage storage = storage_on(model.device->works_ahead(), model.format);
  profile.request = shape_of(profile.by_stage.answer, config, requests.file_bytes());
  const auto canvas = dense_canvas(model, profile.request.image);
  if (!canvas) return canvas.error();
  profile.dense_request = dense_of(profile.request, *canvas, config);
  profile.work = count_request(config, storage, profile.request);
  profile.dense_work = count_request(config, storage, profile.dense_request);
  profile.token_work = count_token(config.text, storage, profile.request.prompt_tokens,
                                   std::max<int64_t>(1, profile.request.answer_tokens - 1));
  return Done{};
}

Result<Profile> measure(const ProfileFlags& flags, const Requests& requests) {
  const Model& model = requests.model();
  Profile profile;
  profile.device = model.device->description();
  profile.model = flags.model;
  profile.weights = std::string(weight_format_name(model.format));
  profile.runs = flags.runs;
  note(flags.common, "warming up");
  auto warm_up = requests.warm_up();
  if (!warm_up) return warm_up.error();
  profile.warm_up = std::move(*warm_up);
  std::vector<RequestRun> wholes;
  std::vector<RequestRun> staged;
  for (int i = 0; i < flags.runs; ++i) {
    note(flags.common, fmt::format("run {} of {}", i + 1, flags.runs));
    auto whole = requests.run();
    if (!whole) return whole.error();
    wholes.push_back(std::move(*whole));
    if (!model.device->works_ahead()) continue;  // the CPU's stages are its own as they are
    auto by_stage = requests.run_by_stage();
    if (!by_stage) return by_stage.error();
    staged.push_back(std::move(*by_stage));
  }
  profile.whole = median_run(std::move(wholes));
  profile.by_stage = staged.empty() ? profile.whole : median_run(std::move(staged));
  note(flags.common, "measuring what the machine could do at best");
  auto ceilings = measure_ceilings(model);
  if (!ceilings) return ceilings.error();
  profile.ceilings = *ceilings;
  if (auto counted = count_work(requests, profile); !counted) return counted.error();
  return profile;
}

int run(ProfileFlags& flags) {
  if (const auto read = read_model_flags(flags, 1); !read) return complain(read.error());
  if (!flags.inside_ncu.empty()) return run_inside_ncu(flags);
  const auto requests = open_requests(flags);
  if (!requests) return complain(requests.error());
  auto profile = measure(flags, *requests);
  if (!profile) return complain(profile.error());
  if (!flags.json) {
    print_measured(*profile);
    if (const Status written = check_stdout(); !written) return complain(written.error());
  }
  count_both(flags, *profile);
  if (flags.json) {
    const Status written = save_text("-", profile_json(*profile));
    return written ? kGood : complain(written.error());
  }
  print_counted(*profile);
  return kGood;
}

}  // namespace

Run add_profile(CLI::App& program) {
  auto flags = std::make_shared<ProfileFlags>();
  flags->options.max_tokens = kTokens;
  CLI::App* command = program.add_subcommand(
      "profile", "Show where the time of one request goes, and what its limits are");
  command->add_option("image", flags->image, "A picture (JPEG, PNG or WebP; - reads stdin)")
      ->required();
  command->add_option("question", flags->question, "What is asked about it")->required();
  add_model_flags(*command, *flags);
  command->add_option("--runs", flags->runs, "Show the median of this many runs, after a warm-up")
      ->capture_default_str()
      ->check(whole_number(1, 10'000));
  command->add_flag("--ignore-end", flags->options.ignore_end,
                    "Go on to --max-tokens past the model's own end of its answer");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("!--no-counters", flags->counters,
                    "On a GPU: do not run once more under Nsight Compute (ncu), where it is found");
  command->add_option("--inside-ncu", flags->inside_ncu)
      ->group("")
      ->check(CLI::IsMember({"foveated", "dense"}));
  command->footer(
      "Each stage: its time, the bytes it must move and the arithmetic it must do by count, what "
      "these\nwould take at the machine's measured ceilings, and the same count for the dense path "
      "(every cell\nof level 0). docs/profile.md says how.\n"
      "Examples:\n"
      "  fovea profile photo.jpg \"What is on the table?\" -m DIR --budget 68\n"
      "  fovea profile photo.jpg \"Read the sign\" -m DIR --device cuda --runs 5 --json");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
