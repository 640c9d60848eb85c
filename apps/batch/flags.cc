// SPDX-License-Identifier: Apache-2.0
#include "batch/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "base/threads.h"
#include "batch/pictures.h"
#include "fovea/stdin_text.h"
#include "kept/model_fingerprint.h"
#include "kept/settle_attention.h"

namespace fovea::batch {
namespace {

using Json = nlohmann::ordered_json;

// The engine has no more at work (Scheduler::kMostActive): others would hold their pixels and wait.
constexpr int kMostAtOnce = 64;
// On a CPU a decode step reads the weights once for all answers, so that each of 8 pays an eighth
// of it, and one more saves little; it would hold a picture, keys and values. A GPU wants more to
// do: docs/results.md has the rates of 32, 48 and 64.
constexpr int kAtOnceCpu = 8;
constexpr int kAtOnceGpu = 64;

Status read_question(BatchFlags& flags) {
  if (flags.question == "-") {
    auto text = app::stdin_text(app::kMostQuestionBytes);
    if (!text) return text.error();
    while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
    flags.question = std::move(*text);
  }
  if (flags.question.find_first_not_of(" \t\r\n") == std::string::npos)
    return bad_input("--question is empty; give it as text, or on stdin with -");
  return Done{};
}

// A plan's file is of one picture.
Status check_plan(const BatchFlags& flags) {
  for (const PlanKind& kind : plan_kinds())
    if (flags.plans.size() == 1 && flags.plans.front() == kind.name) return Done{};
  return bad_input(fmt::format(
      "--plan {}: give the name of one plan maker, for all pictures (see fovea see --help)",
      flags.plans.front()));
}

Json biases_json(const AskOptions& ask) {
  Json biases = Json::array();
  for (const TokenBias& token : ask.logit_bias) biases.push_back({token.id, token.bias});
  return biases;
}

std::string or_default(const std::string& text) { return text.empty() ? "default" : text; }

}  // namespace

void add_batch_flags(CLI::App& command, BatchFlags& flags) {
  app::add_words(command, "pictures", flags.words,
                 "Pictures (JPEG, PNG or WebP), and folders of pictures, with all folders in them")
      ->required();
  command
      .add_option("--question", flags.question, "What is asked about each picture (- reads stdin)")
      ->required();
  command
      .add_option("-o,--output", flags.output,
                  "Write a JSON line for each picture to this file, and go on where it ends; - for "
                  "stdout")
      ->required()
      ->check(app::some_path());
  command
      .add_option("--at-once", flags.at_once,
                  fmt::format("Pictures that are worked on side by side (default: {}; {} on a GPU)",
                              kAtOnceCpu, kAtOnceGpu))
      ->check(app::whole_number(1, kMostAtOnce));
  app::add_model_flags(command, flags);
}

Result<Job> job_of(BatchFlags& flags) {
  if (auto settled = app::settle_outputs({{"-o", &flags.output}}); !settled) return settled.error();
  if (auto checked = check_plan(flags); !checked) return checked.error();
  if (auto read = app::read_model_flags(flags, 1); !read) return read.error();
  if (auto settled = kept::settle_attention(flags.options); !settled) return settled.error();
  if (auto read = read_question(flags); !read) return read.error();
  auto pictures = find_pictures(flags.words);
  if (!pictures) return pictures.error();
  Job job;
  job.pictures = std::move(*pictures);
  job.question = flags.question;
  job.ask = flags.options;
  job.max_pixels = flags.max_pixels;
  const bool is_cpu = flags.common.device == "cpu";
  job.at_once = flags.at_once > 0 ? flags.at_once : is_cpu ? kAtOnceCpu : kAtOnceGpu;
  const int threads = flags.common.threads > 0 ? flags.common.threads : usable_cores();
  job.decoders = std::min(threads, job.at_once);
  return job;
}

Result<std::string> settings_json(const BatchFlags& flags, const Job& job) {
  const auto folder = find_model(flags.model);
  if (!folder) return folder.error();
  const auto model = kept::model_fingerprint(*folder);
  if (!model) return model.error();
  const AskOptions& ask = job.ask;
  Json json = Json::object();
  json["model"] = kept::model_name(*folder);
  json["model_fingerprint"] = fmt::format("{:016x}", *model);
  json["weights"] = flags.weights.empty() ? "as stored" : flags.weights;
  // What kind: each computes in its own way.
  json["device"] = flags.common.device.substr(0, flags.common.device.find(':'));
  json["question"] = job.question;
  json["system"] = ask.system;
  json["allow_special"] = ask.allow_special;
  json["plan"] = ask.plan;
  json["budget"] = ask.budget_tokens < 0 ? Json("default") : Json(ask.budget_tokens);
  json["look"] = or_default(ask.look);
  json["looks"] = ask.looks;
  json["sure"] = ask.sure;
  json["balance"] = or_default(ask.balance);
  json["size_bias"] = ask.size_bias;
  json["attention"] = ask.tower_attention.empty() ? "dense" : ask.tower_attention;
  json["attention_text"] = ask.text_attention.empty() ? "dense" : ask.text_attention;
  // Not there where all is kept: earlier runs had no other.
  if (ask.keep != 1) {
    json["keep"] = ask.keep;
    json["forget"] = ask.forget.empty() ? "vl-cache" : ask.forget;
  }
  if (!ask.kv.empty()) json["kv"] = ask.kv;
  if (ask.relook > 0) json["relook"] = ask.relook;
  if (flags.kernels != "best") json["kernels"] = flags.kernels;
  json["max_tokens"] = ask.max_tokens;
  json["least_tokens"] = ask.least_tokens;
  json["stop"] = ask.stop;
  json["temperature"] = ask.temperature;
  json["top_k"] = ask.top_k;
  json["top_p"] = ask.top_p;
  json["min_p"] = ask.min_p;
  json["repetition_penalty"] = ask.repetition_penalty;
  json["frequency_penalty"] = ask.frequency_penalty;
  json["presence_penalty"] = ask.presence_penalty;
  json["logit_bias"] = biases_json(ask);
  json["seed"] = ask.seed;
  json["max_pixels"] = job.max_pixels > 0 ? Json(job.max_pixels) : Json("default");
  return json_text(json);
}

}  // namespace fovea::batch
