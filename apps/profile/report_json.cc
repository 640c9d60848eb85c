// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "base/json.h"

#include "profile/report.h"

namespace fovea::app {
namespace {

using Json = nlohmann::ordered_json;

Json work_json(const Work& work) {
  return {{"read_bytes", work.read_bytes},
          {"written_bytes", work.written_bytes},
          {"upload_bytes", work.upload_bytes},
          {"flop", work.flop}};
}

Json ceilings_json(const DeviceCeilings& ceilings) {
  Json json{{"copy_gb_per_s", ceilings.copy_bytes_per_ms / 1e6},
            {"read_gb_per_s", ceilings.read_bytes_per_ms / 1e6},
            {"tflop_per_s", ceilings.product_flop_per_ms / 1e9}};
  if (ceilings.upload_bytes_per_ms > 0)
    json["upload_gb_per_s"] = ceilings.upload_bytes_per_ms / 1e6;
  return json;
}

Json run_json(const RequestRun& run) {
  return {{"first_token_ms", run.first_token_ms}, {"whole_ms", run.whole_ms}};
}

Json stage_json(const Profile& profile, size_t index) {
  const double ms = profile.by_stage.ms[index];
  const double limit = profile.limit_of(static_cast<Stage>(index));
  Json json{{"stage", kStageNames[index]}, {"ms", ms}};
  json.update(work_json(profile.work[index]));
  json["limit_ms"] = limit;
  json["share_of_limit"] = ms > 0 ? limit / ms : 0;
  json["dense"] = work_json(profile.dense_work[index]);
  return json;
}

Json counters_json(const Counters& counters) {
  return {{"kernels", counters.kernels},
          {"ms", counters.ns * 1e-6},
          {"dram_bytes", counters.dram_bytes},
          {"l2_hit_rate", counters.l2_hit_rate()},
          {"coalescing", counters.coalescing()}};
}

Json verdicts_json(const Counters& foveated, const Counters& dense) {
  Json json = Json::array();
  for (const Verdict& verdict : judge(foveated, dense))
    json.push_back({{"name", verdict.name},
                    {"value", verdict.value},
                    {verdict.at_most ? "below" : "above", verdict.target},
                    {"pass", verdict.pass()}});
  return json;
}

Json counted_json(const std::string& name, const Counters& foveated, const Counters& dense) {
  return {{"stage", name},
          {"foveated", counters_json(foveated)},
          {"dense", counters_json(dense)},
          {"verdicts", verdicts_json(foveated, dense)}};
}

Json all_counters_json(const Profile& profile) {
  if (!profile.counters || !profile.dense_counters) return {{"note", profile.counters_note}};
  Json json{{"stages", Json::array()}};
  for (size_t i = 0; i < kStageCount; ++i)
    if (profile.counters->stages[i].kernels > 0)
      json["stages"].push_back(counted_json(std::string(kStageNames[i]),
                                            profile.counters->stages[i],
                                            profile.dense_counters->stages[i]));
  json["whole"] = counted_json("whole", profile.counters->total, profile.dense_counters->total);
  return json;
}

}  // namespace

std::string profile_json(const Profile& profile) {
  const Answer& answer = profile.by_stage.answer;
  const Look& look = answer.trace.looks.front();
  Json json = Json::object();
  json["device"] = profile.device;
  json["model"] = profile.model;
  json["weights"] = profile.weights;
  json["ceilings"] = {{"host", ceilings_json(profile.ceilings.host)},
                      {"device", ceilings_json(profile.ceilings.device)}};
  json["image"] = {look.image.width_px, look.image.height_px};
  json["canvas"] = {look.canvas.width_px, look.canvas.height_px};
  json["plan"] = look.plan.maker;
  json["cells"] = profile.request.cells;
  json["cells_dense"] = profile.dense_request.cells;
  json["prompt_tokens"] = profile.request.prompt_tokens;
  json["answer_tokens"] = profile.request.answer_tokens;
  json["text"] = answer.text;
  json["runs"] = profile.runs;
  json["warm_up"] = run_json(profile.warm_up);
  json["warm"] = run_json(profile.whole);
  json["by_stage"] = run_json(profile.by_stage);
  json["stages"] = Json::array();
  for (size_t i = 0; i < kStageCount; ++i) json["stages"].push_back(stage_json(profile, i));
  json["token_ms"] = Json::array();
  for (size_t i = 1; i < answer.tokens.size(); ++i) json["token_ms"].push_back(answer.tokens[i].ms);
  json["token"] = work_json(profile.token_work);
  json["token"]["limit_ms"] = limit_ms(profile.token_work, profile.ceilings.device);
  json["whole"] = work_json(sum_of(profile.work));
  json["whole"]["dense"] = work_json(sum_of(profile.dense_work));
  json["counters"] = all_counters_json(profile);
  return json_text(json) + "\n";
}

}  // namespace fovea::app
