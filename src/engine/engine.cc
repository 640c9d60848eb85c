// SPDX-License-Identifier: Apache-2.0
// Engine: a model folder -> a model in memory.
#include <fmt/format.h>

#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engine/front_end.h"
#include "engine/model.h"
#include "engine/session.h"
#include "weights/loader.h"
#include "weights/memory_need.h"
#include "weights/model_folder.h"
#include "weights/model_tensors.h"
#include "weights/tensor_source.h"

namespace fovea {
namespace {

Result<std::optional<WeightFormat>> format_of(const std::string& name) {
  if (name.empty()) return std::optional<WeightFormat>();
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kInt8})
    if (name == weight_format_name(format)) return std::optional(format);
  return bad_input(fmt::format("weights {}: use f32, bf16 or int8", in_quotes(name)));
}

// What a model is to be loaded for: the device, and the format its weights are kept in.
struct Target {
  std::shared_ptr<Accelerator> device;  // null: the CPU
  std::optional<WeightFormat> format;   // none: as the files have them
};

Result<Target> target_of(const LoadOptions& options) {
  const auto format = format_of(options.weights);
  if (!format) return format.error();
  if (options.kernels != "best" && options.kernels != "portable")
    return bad_input(fmt::format("kernels {}: use best or portable", in_quotes(options.kernels)));
  if (options.device == "cpu") return Target{nullptr, *format};
  if (format->value_or(WeightFormat::kBf16) != WeightFormat::kBf16)
    return bad_input(
        fmt::format("weights {}: a GPU computes with bf16; leave --weights out, or use "
                    "--device cpu",
                    in_quotes(options.weights)));
  auto device = open_accelerator(options.device, options.kernels == "portable");
  if (!device) return device.error();
  return Target{std::move(*device), WeightFormat::kBf16};
}

Result<Words> load_words(const std::string& folder, const ModelConfig& config) {
  const auto files = ModelFolder::open(folder);
  if (!files) return files.error();
  // No link may lead out of the folder (ModelFolder).
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "chat_template.json", "chat_template.jinja"})
    if (files->has(name))
      if (const auto path = files->resolve(name); !path) return path.error();
  auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer) return tokenizer.error();
  if (auto belongs = check_tokenizer(*tokenizer, config); !belongs)
    return bad_input(fmt::format("{}: {}", folder, belongs.error().message));
  auto chat = ChatFormat::load(folder);
  if (!chat) return chat.error();
  return Words{std::move(*tokenizer), std::move(*chat)};
}

}  // namespace

Result<std::shared_ptr<const Model>> load_model(const std::string& folder,
                                                const LoadOptions& options) {
  const auto target = target_of(options);
  if (!target) return target.error();
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return checkpoint.error();
  ModelConfig config = checkpoint->config();
  // What the files hold decides, as settings may say otherwise.
  config.tie_word_embeddings = checkpoint->head_is_tied();
  const std::optional<WeightFormat> format = target->format;
  const WeightFormat kept = format.value_or(stored_format(*checkpoint));
  // A device says by itself what does not fit.
  if (target->device == nullptr)
    if (auto fits = check_memory(memory_need(config, kept, 0, 4), available_memory_bytes()); !fits)
      return fits.error();

  if (!std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json"))
    return bad_input(fmt::format("{} has no tokenizer.json", folder));
  auto words = std::async(std::launch::async, load_words, folder, config).share();
  auto threads = std::make_unique<Threads>(options.threads > 0 ? options.threads : usable_cores());
  Loader loader(*threads, *checkpoint, options.on_progress);
  auto tower =
      Tower::build(config.vision, vision_source(*checkpoint, loader, format), target->device);
  if (!tower) return tower.error();
  auto decoder = Decoder::build(config, text_source(*checkpoint, loader, format), target->device);
  if (!decoder) return decoder.error();
  std::optional<GazeHead> gaze;
  if (config.gaze.size > 0) {
    auto head = GazeHead::build(config, text_source(*checkpoint, loader, format));
    if (!head) return head.error();
    gaze.emplace(std::move(*head));
  }
  auto model = std::make_shared<Model>(std::move(threads), std::move(*checkpoint), kept,
                                       std::move(*tower), std::move(*decoder));
  model->device = target->device;
  if (model->device) {
    auto front_end = front_end_on(model->device, model->tower.on_device());
    if (!front_end) return front_end.error();
    model->front_end = std::move(*front_end);
  }
  model->gaze = std::move(gaze);
  model->in_place = !loader.in_place().empty();
  model->words = std::move(words);
  model->checked =
      std::async(std::launch::async, [owner = model.get(), tensors = loader.check_later()] {
        return check_values(owner->checkpoint, tensors, owner->stop);
      }).share();
  return std::shared_ptr<const Model>(std::move(model));
}

Model::~Model() {
  stop = true;
  checked.wait();
}

Status Model::sound() const {
  if (const Status& status = checked.get(); !status) return status;
  return in_place ? checkpoint.intact() : Status(Done{});
}

Result<Engine> Engine::load(const std::string& name, const LoadOptions& options) {
  const auto folder = find_model(name);
  if (!folder) return folder.error();
  auto model = load_model(*folder, options);
  if (!model) return model.error();
  return Engine(std::move(*model));
}

ModelInfo Engine::info() const {
  return {.weights = std::string(weight_format_name(model_->format)),
          .parameters = parameter_count(model_->config()),
          .weights_bytes = model_->weights_bytes(),
          .context_tokens = model_->config().text.max_positions};
}

Session Engine::session() const { return session_of(model_); }

Result<Answer> Engine::ask(const std::vector<std::string>& images, const std::string& question,
                           const AskOptions& options, const OnText& on_text) const {
  Session asked = session();
  for (const std::string& image : images)
    if (auto added = asked.add(image); !added) return added.error();
  return asked.ask(question, options, on_text);
}

}  // namespace fovea
