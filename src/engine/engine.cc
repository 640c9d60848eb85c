// SPDX-License-Identifier: Apache-2.0
// Engine: a model folder -> a model in memory.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "base/start_async.h"
#include "base/text.h"
#include "engine/front_end.h"
#include "engine/model.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/session.h"
#include "memory/key_values.h"
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
  std::shared_ptr<Accelerator> device;
  std::optional<WeightFormat> format;  // none: as the files have them
  bool in_host_memory = true;          // else the device says by itself what does not fit
};

Result<Target> target_of(const LoadOptions& options) {
  const auto format = format_of(options.weights);
  if (!format) return format.error();
  if (options.kernels != "best" && options.kernels != "portable")
    return bad_input(fmt::format("kernels {}: use best or portable", in_quotes(options.kernels)));
  if (options.memory_bytes < 0)
    return bad_input(fmt::format("memory of {} bytes: give 1 or more", options.memory_bytes));
  if (options.device == "cpu") return Target{open_cpu(), *format};
  if (options.memory_bytes > 0)
    return bad_input(fmt::format("memory of {} bytes: {} makes room by itself; leave it out",
                                 with_commas(options.memory_bytes), in_quotes(options.device)));
  if (format->value_or(WeightFormat::kBf16) != WeightFormat::kBf16)
    return bad_input(
        fmt::format("weights {}: a GPU computes with bf16; leave the format out, or use "
                    "device cpu",
                    in_quotes(options.weights)));
  auto device = open_accelerator(options.device, options.kernels == "portable");
  if (!device) return device.error();
  return Target{std::move(*device), WeightFormat::kBf16, /*in_host_memory=*/false};
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

// A share for keys and values, and of that one for what only later sessions may want: the rest of
// the machine's memory is other programs'.
constexpr int64_t kShareOfFree = 2;
constexpr int64_t kShareOfPool = 4;

void make_pool(const LoadOptions& options, Model& model) {
  const TextConfig& text = model.config().text;
  const VisionConfig& vision = model.config().vision;
  const int64_t capacity =
      options.memory_bytes > 0 ? options.memory_bytes : available_memory_bytes() / kShareOfFree;
  model.pool = std::make_shared<PagePool>(
      PagePool::Settings{.page_bytes = std::max(page_bytes_for(text.num_kv_heads, text.head_dim),
                                                page_bytes_for(vision.num_heads, vision.head_dim)),
                         .capacity_bytes = capacity});
  model.beginnings = std::make_unique<PrefixIndex>(model.pool, capacity / kShareOfPool);
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
  if (target->in_host_memory)
    if (auto fits = check_memory(memory_need(config, kept, 0, 4), available_memory_bytes()); !fits)
      return fits.error();

  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json", error))
    return bad_input(fmt::format("{} has no tokenizer.json", folder));
  auto words = start_async([folder, config] { return load_words(folder, config); }).share();
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
  // A device copied what the loader left in place, so this is the last time that its files matter.
  if (!target->in_host_memory)
    if (auto intact = checkpoint->intact(); !intact) return intact.error();
  auto model = std::make_shared<Model>(std::move(threads), std::move(*checkpoint), kept,
                                       std::move(*tower), std::move(*decoder));
  model->device = target->device;
  auto front_end = front_end_on(model->device, model->tower.on_device(), *model->threads);
  if (!front_end) return front_end.error();
  model->front_end = std::move(*front_end);
  if (target->in_host_memory) make_pool(options, *model);
  model->gaze = std::move(gaze);
  model->in_place = target->in_host_memory && !loader.in_place().empty();
  model->words = std::move(words);
  model->checked = start_async([owner = model.get(), tensors = loader.check_later()] {
                     return check_values(owner->checkpoint, tensors, owner->stop);
                   }).share();
  return std::shared_ptr<const Model>(std::move(model));
}

Model::Model(std::unique_ptr<Threads> its_threads, Checkpoint its_checkpoint,
             WeightFormat its_format, Tower its_tower, Decoder its_decoder)
    : threads(std::move(its_threads)),
      checkpoint(std::move(its_checkpoint)),
      format(its_format),
      tower(std::move(its_tower)),
      decoder(std::move(its_decoder)),
      scheduler(std::make_unique<Scheduler>()) {}

Model::~Model() {
  stop = true;
  if (checked.valid()) checked.wait();  // it is not where loading ended early
}

Status Model::sound() const {
  if (const Status& status = checked.get(); !status) return status;
  return intact();
}

Result<Engine> Engine::load(const std::string& name, const LoadOptions& options) {
  return within_memory([&]() -> Result<Engine> {
    const auto folder = find_model(name);
    if (!folder) return folder.error();
    auto model = load_model(*folder, options);
    if (!model) return model.error();
    return Engine(std::move(*model));
  });
}

ModelInfo Engine::info() const {
  return {.weights = std::string(weight_format_name(model_->format)),
          .parameters = parameter_count(model_->config()),
          .weights_bytes = model_->weights_bytes(),
          .context_tokens = model_->config().text.max_positions};
}

MemoryUsage Engine::memory() const { return model_->pool ? model_->pool->usage() : MemoryUsage(); }

Session Engine::session() const { return session_of(model_); }

Result<Ticket> Engine::submit(Request request, Callbacks callbacks) const {
  return within_memory([&] { return session().submit(std::move(request), std::move(callbacks)); });
}

Result<std::vector<int>> Engine::tokenize(const std::string& text, bool special) const {
  return within_memory([&]() -> Result<std::vector<int>> {
    const Result<Words>& words = model_->words.get();
    if (!words) return words.error();
    return words->tokenizer.encode(text, special);
  });
}

Result<std::string> Engine::detokenize(std::span<const int> ids, bool special) const {
  return within_memory([&]() -> Result<std::string> {
    const Result<Words>& words = model_->words.get();
    if (!words) return words.error();
    return words->tokenizer.decode(ids, !special);
  });
}

Result<TokenTexts> Engine::vocabulary() const {
  return within_memory([&]() -> Result<TokenTexts> {
    const Result<Words>& words = model_->words.get();
    if (!words) return words.error();
    const Tokenizer& tokenizer = words->tokenizer;
    const int size = model_->config().text.vocab_size;
    TokenTexts made;
    made.tokens.resize(static_cast<size_t>(size));
    for (const int id : model_->config().eos_token_ids)
      if (id >= 0 && id < size) made.end_ids.push_back(id);
    for (int id = 0; id < size; ++id)
      if (!tokenizer.is_special(id)) made.tokens[static_cast<size_t>(id)] = tokenizer.bytes(id);
    return made;
  });
}

Result<Answer> Engine::ask(const std::vector<std::string>& images, const std::string& question,
                           const AskOptions& options, const OnText& on_text) const {
  return within_memory([&]() -> Result<Answer> {
    Session asked = session();
    for (const std::string& image : images)
      if (auto added = asked.add(image); !added) return added.error();
    return asked.ask(question, options, on_text);
  });
}

}  // namespace fovea
