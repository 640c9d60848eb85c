// SPDX-License-Identifier: Apache-2.0
#include "language/decoder.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "language/decoder_steps.h"
#include "language/decoder_weights.h"
#include "language/device_decoder.h"

namespace fovea {
namespace {

void check_run(const TextConfig& config, const TokenRun& run, const DecoderMemory& memory) {
  FOVEA_CHECK(!run.ids.empty() && run.positions.size() == run.ids.size());
  for (const VisualSpan& span : run.visual) {
    FOVEA_CHECK(span.tokens != nullptr && span.tokens->width == config.hidden_size);
    FOVEA_CHECK(span.first >= 0 && span.count >= 0 &&
                span.count <= span.tokens->count - span.first);
    FOVEA_CHECK(span.at <= run.ids.size() &&
                static_cast<size_t>(span.count) <= run.ids.size() - span.at);
  }
  FOVEA_CHECK(memory.layers.empty() ||
              memory.layers.size() == static_cast<size_t>(config.num_layers));
}

void start_readout(const TextConfig& config, const TokenRun& run, int64_t keys,
                   AttentionReadout& readout) {
  FOVEA_CHECK(!readout.layers.empty());
  for (const int layer : readout.layers) FOVEA_CHECK(layer >= 0 && layer < config.num_layers);
  FOVEA_CHECK(readout.query_begin < readout.query_end && readout.query_end <= run.ids.size());
  FOVEA_CHECK(readout.key_begin >= 0 && readout.key_begin <= readout.key_end &&
              readout.key_end <= keys);
  readout.mass.assign(static_cast<size_t>(readout.key_end - readout.key_begin), 0.0f);
  readout.last_mass.assign(readout.wants_last ? readout.mass.size() : 0, 0.0f);
}

void start_keys(const TextConfig& config, const TokenRun& run, const DecoderMemory& memory,
                KeyReadout& readout) {
  FOVEA_CHECK(readout.query_begin < readout.query_end && readout.query_end <= run.ids.size());
  FOVEA_CHECK(readout.key_begin >= memory.forgotten_tokens && readout.key_begin < readout.key_end &&
              readout.key_end <= memory.tokens() + static_cast<int64_t>(readout.query_begin));
  const auto keys = static_cast<size_t>(readout.key_end - readout.key_begin);
  readout.layers.assign(static_cast<size_t>(config.num_layers), {std::vector<float>(keys), 0});
  readout.query_parts.assign(readout.query_end - readout.query_begin, 1.0f);
}

void start_hidden(const TextConfig& config, const TokenRun& run, int layers,
                  HiddenReadout& readout) {
  FOVEA_CHECK(readout.layers >= 1 && readout.layers <= layers);
  readout.hidden = Buffer<float>(run.ids.size() * static_cast<size_t>(config.hidden_size));
}

}  // namespace

Result<Decoder> Decoder::build(const ModelConfig& config, const TensorSource& source,
                               const std::shared_ptr<Accelerator>& device) {
  Result<DecoderWeights> weights = take_decoder_weights(config, source);
  if (!weights) return weights.error();
  const MakeDecoder make = device->maker<MakeDecoder>(kMakeDecoderSymbol, make_cpu_decoder);
  Result<std::shared_ptr<DeviceDecoder>> made = failed("");
  make(device, config.text, *weights, made);
  if (!made) return made.error();
  return Decoder(config.text, std::move(*made));
}

size_t Decoder::bytes() const { return device_->bytes(); }
bool Decoder::has_kinds(const AttentionSchedule& attention) const {
  const auto parts = attention.parts();
  return std::all_of(parts.begin(), parts.end(),
                     [&](const SparseSettings& part) { return device_->has_kind(part.kind); });
}
bool Decoder::answers() const { return device_->answers() != nullptr; }

Result<Buffer<float>> Decoder::forward(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                                       const ForwardOptions& options) const {
  ForwardRequest request{run, &memory, options, /*wants_logits=*/true};
  work(threads, {&request, 1});
  if (!request.status) return request.status.error();
  return request.stopped ? Buffer<float>() : std::move(request.logits);
}

Result<bool> Decoder::read(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                           const ForwardOptions& options) const {
  ForwardRequest request{run, &memory, options};
  work(threads, {&request, 1});
  if (!request.status) return request.status.error();
  return !request.stopped;
}

void Decoder::work(Threads& threads, std::span<ForwardRequest> requests) const {
  for (ForwardRequest& request : requests) {
    request.tokens_before = request.memory->tokens();
    request.status = Done{};
    request.stopped = false;
    try {
      start(request);
    } catch (const std::bad_alloc&) {
      request.status = no_memory_to_decode();
    }
  }
  device_->work(threads, requests);
  for (ForwardRequest& request : requests)
    if (!request.done() || request.options.layers > 0)
      request.memory->truncate(request.tokens_before);
}

// Checks a request and makes room for what it asks for.
void Decoder::start(ForwardRequest& request) const {
  const TokenRun& run = request.run;
  const ForwardOptions& options = request.options;
  const DecoderMemory& memory = *request.memory;
  check_run(config_, run, memory);
  FOVEA_CHECK(options.chunk_tokens >= 0 && (!options.all_logits || request.wants_logits));
  FOVEA_CHECK(options.layers >= 0 && options.layers <= config_.num_layers);
  FOVEA_CHECK(has_kinds(options.attention));
  FOVEA_CHECK(options.layers == 0 || !(request.wants_logits || options.leave_logits));
  FOVEA_CHECK(!options.leave_logits || (answers() && !request.wants_logits));
  const int64_t keys = memory.tokens() + static_cast<int64_t>(run.ids.size());
  const int layers = options.layers > 0 ? options.layers : config_.num_layers;
  if (options.readout != nullptr) start_readout(config_, run, keys, *options.readout);
  FOVEA_CHECK(options.keys == nullptr || (device_->reads_keys() && options.layers == 0));
  if (options.keys != nullptr) start_keys(config_, run, memory, *options.keys);
  if (options.hidden != nullptr) start_hidden(config_, run, layers, *options.hidden);
  const size_t rows = !request.wants_logits ? 0 : options.all_logits ? run.ids.size() : 1;
  const size_t values = rows * static_cast<size_t>(config_.vocab_size);
  if (request.logits.size() != values) request.logits = Buffer<float>(values);
}

void Decoder::draw(std::span<DeviceAnswer* const> answers) const {
  FOVEA_CHECK(this->answers());
  device_->answers()->draw(answers);
}

Result<std::unique_ptr<DeviceAnswer>> Decoder::answer(DecoderMemory& memory,
                                                      const AnswerStart& start) const {
  FOVEA_CHECK(answers() && device_can_draw(start.sampling));
  if (auto checked = check_sampling(start.sampling); !checked) return checked.error();
  return device_->answers()->answer(memory, start);
}

Result<double> Decoder::confidence(const DecoderMemory& memory) const {
  FOVEA_CHECK(answers());
  return device_->answers()->confidence(memory);
}

size_t DecoderScratch::bytes() const {
  return (hidden.size() + input.size() + inner.size() + cos.size() + sin.size() + logits.size()) *
         sizeof(float);
}

size_t DecoderMemory::bytes() const {
  size_t bytes = on_device ? on_device->bytes() : 0;
  for (const KeyValues& layer : layers) bytes += layer.bytes();
  return bytes;
}

void DecoderMemory::open(const TextConfig& config) {
  if (!pages) pages = unbounded_pages(config.num_kv_heads, config.head_dim);
  if (!layers.empty()) return;
  std::vector<KeyValues> all;  // or none, where memory runs out on the way
  all.reserve(static_cast<size_t>(config.num_layers));
  for (int i = 0; i < config.num_layers; ++i)
    all.emplace_back(pages, config.num_kv_heads, config.head_dim, formats.of(i, config.num_layers));
  layers = std::move(all);
}

void DecoderMemory::store_as(const KeyFormats& other) {
  if (other == formats) return;
  truncate(0);
  layers.clear();
  formats = other;
}

void DecoderMemory::reserve(int64_t tokens) { reserved_tokens = std::max(reserved_tokens, tokens); }

void DecoderMemory::truncate(int64_t tokens) {
  if (tokens < forgotten_tokens) {
    tokens = forgotten_tokens = 0;
    missing_rows.clear();
  }
  for (size_t i = 0; i < layers.size(); ++i) layers[i].truncate(tokens - missing(i));
  tokens_on_device = std::min(tokens_on_device, tokens);
}

void DecoderMemory::keep(int64_t first, std::span<const KeptRows> kept) {
  FOVEA_CHECK(kept.size() == layers.size() && first >= forgotten_tokens);
  const auto tokens = static_cast<int64_t>(kept.front().row_of.size());
  try {
    std::vector<int64_t> more(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      layers[i].keep(first - missing(i), kept[i]);
      more[i] = missing(i) + tokens - kept[i].rows;
    }
    missing_rows = std::move(more);
    forgotten_tokens = first + tokens;
  } catch (const std::bad_alloc&) {
    for (KeyValues& layer : layers) layer.truncate(0);
    forgotten_tokens = 0;
    missing_rows.clear();
    throw;
  }
}

}  // namespace fovea
