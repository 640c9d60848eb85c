// SPDX-License-Identifier: Apache-2.0
#include "language/decoder.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "language/decoder_angles.h"
#include "language/decoder_layer.h"
#include "language/decoder_weights.h"
#include "language/device_decoder.h"
#include "ops/activation.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace fovea {
namespace {

constexpr int64_t kChunkTokens = 512;

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
}

void grow(Buffer<float>& buffer, int64_t count) {
  if (buffer.size() < static_cast<size_t>(count))
    buffer = Buffer<float>(static_cast<size_t>(count));
}

void prepare_scratch(const TextConfig& config, int64_t rows, DecoderScratch& scratch) {
  const int64_t q_size = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  grow(scratch.hidden, rows * config.hidden_size);
  grow(scratch.input, rows * std::max<int64_t>(config.hidden_size, q_size));
  grow(scratch.inner, rows * std::max<int64_t>(q_size + 2 * kv_size, 2 * config.intermediate_size));
  grow(scratch.cos, rows * (config.head_dim / 2));
  grow(scratch.sin, rows * (config.head_dim / 2));
}

void prepare_layers(const TextConfig& config, int64_t new_tokens, DecoderMemory& memory) {
  for (int i = static_cast<int>(memory.layers.size()); i < config.num_layers; ++i)
    memory.layers.emplace_back(config.num_kv_heads, config.head_dim);
  const int64_t capacity = memory.layers.front().capacity();
  const int64_t needed = std::max(memory.tokens() + new_tokens, memory.reserved_tokens);
  // Growing by half keeps the copies of a long answer few.
  if (needed > capacity) memory.reserve(std::max(needed, capacity + capacity / 2));
}

void start_hidden(const TextConfig& config, const TokenRun& run, int layers,
                  HiddenReadout& readout) {
  FOVEA_CHECK(readout.layers >= 1 && readout.layers <= layers);
  readout.hidden = Buffer<float>(run.ids.size() * static_cast<size_t>(config.hidden_size));
}

// What the calls for the chunks of one run share.
struct Run {
  Threads& threads;
  const TextConfig& config;
  const DecoderWeights& weights;
  const TokenRun& tokens;
  const DecodeOptions& options;
  DecoderMemory& memory;
  int layers = 0;  // that are computed
  bool wants_logits = false;

  // Tokens [begin, end) of the run.
  struct Chunk {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t rows() const { return end - begin; }
  };

  float* row(int64_t index) const {
    return memory.scratch.hidden.data() + index * config.hidden_size;
  }
  // Calls body(row of the chunk, visual tokens, first of them, count) where they stand.
  template <class Body>
  void for_each_visual(const Chunk& chunk, const Body& body) const {
    for (const VisualSpan& span : tokens.visual) {
      const auto at = static_cast<int64_t>(span.at);
      const int64_t from = std::max(at, chunk.begin);
      const int64_t to = std::min(at + span.count, chunk.end);
      if (from < to) body(from - chunk.begin, *span.tokens, span.first + from - at, to - from);
    }
  }

  void embed(const Chunk& chunk) const;
  void add_deepstack(const Chunk& chunk, size_t layer, int64_t first_row) const;
  LayerCall call_for(const Chunk& chunk, int layer) const;
  bool run_layers(const Chunk& chunk) const;
  void write_logits(int64_t first_row, int64_t rows, float* logits) const;
};

void Run::embed(const Chunk& chunk) const {
  const int64_t width = config.hidden_size;
  std::vector<bool> visual(static_cast<size_t>(chunk.rows()));
  for_each_visual(chunk, [&](int64_t at, const VisualTokens& from, int64_t first, int64_t count) {
    std::memcpy(row(at), from.features.data() + first * width,
                static_cast<size_t>(count * width) * sizeof(float));
    std::fill_n(visual.begin() + at, count, true);
  });
  threads.for_each(chunk.rows(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (visual[static_cast<size_t>(i)]) continue;
      const int id = tokens.ids[static_cast<size_t>(chunk.begin + i)];
      FOVEA_CHECK(id >= 0 && id < config.vocab_size);
      weights.embedding.row(id, row(i));
    }
  });
}

void Run::add_deepstack(const Chunk& chunk, size_t layer, int64_t first_row) const {
  const int64_t width = config.hidden_size;
  for_each_visual(chunk, [&](int64_t at, const VisualTokens& from, int64_t first, int64_t count) {
    const int64_t skipped = std::min(std::max<int64_t>(first_row - at, 0), count);
    if (layer >= from.deepstack.size()) return;
    add(threads, row(at + skipped), from.deepstack[layer].data() + (first + skipped) * width,
        (count - skipped) * width);
  });
}

// The last layer's output is needed only where logits are, or where it is read; its queries also
// where their attention is.
LayerCall Run::call_for(const Chunk& chunk, int layer) const {
  LayerCall call{threads, config, weights.layers[static_cast<size_t>(layer)], memory.scratch,
                 chunk.rows()};
  const bool is_read = options.hidden != nullptr && options.hidden->layers == layer + 1;
  if (layer + 1 < layers || is_read || options.on_layer || options.all_logits) return call;
  const bool has_last = wants_logits && chunk.end == static_cast<int64_t>(tokens.ids.size());
  call.first_output = has_last ? chunk.rows() - 1 : chunk.rows();
  call.first_query = call.first_output;
  const AttentionReadout* readout = options.readout;
  if (readout == nullptr || std::count(readout->layers.begin(), readout->layers.end(), layer) == 0)
    return call;
  const auto begin = std::max(static_cast<int64_t>(readout->query_begin), chunk.begin);
  if (begin < std::min(static_cast<int64_t>(readout->query_end), chunk.end))
    call.first_query = std::min(call.first_query, begin - chunk.begin);
  return call;
}

bool Run::run_layers(const Chunk& chunk) const {
  for (int i = 0; i < layers; ++i) {
    if (options.keep_going && !options.keep_going()) return false;
    KeyValues& kv = memory.layers[static_cast<size_t>(i)];
    const LayerCall call = call_for(chunk, i);
    project(call, kv);
    if (options.readout != nullptr)
      for (const int layer : options.readout->layers)
        if (layer == i) read_out(call, kv, chunk.begin, *options.readout);
    if (call.first_output == call.rows) continue;
    attend(call, kv);
    feed_forward(call);
    add_deepstack(chunk, static_cast<size_t>(i), call.first_output);
    if (options.on_layer) options.on_layer(i, chunk.begin, chunk.rows(), row(0));
    if (options.hidden != nullptr && options.hidden->layers == i + 1)
      std::memcpy(options.hidden->hidden.data() + chunk.begin * config.hidden_size, row(0),
                  static_cast<size_t>(chunk.rows() * config.hidden_size) * sizeof(float));
  }
  return true;
}

void Run::write_logits(int64_t first_row, int64_t rows, float* logits) const {
  const int64_t width = config.hidden_size;
  float* normed = memory.scratch.input.data();
  rms_norm(threads, row(first_row), width, rows, 1, width, weights.norm.data(),
           static_cast<float>(config.rms_norm_eps), normed, width);
  matmul(threads, normed, rows, {.weights = &weights.head(), .y = logits});
}

}  // namespace

Result<Decoder> Decoder::build(const ModelConfig& config, const TensorSource& source,
                               const std::shared_ptr<Accelerator>& device) {
  Result<DecoderWeights> weights = take_decoder_weights(config, source);
  if (!weights) return weights.error();
  if (device == nullptr)
    return Decoder(config.text, std::make_shared<const DecoderWeights>(*std::move(weights)));
  const auto make = reinterpret_cast<MakeDecoder>(device->function(kMakeDecoderSymbol));
  FOVEA_CHECK(make != nullptr);
  Result<std::shared_ptr<DeviceDecoder>> made = failed("");
  make(device, config.text, *weights, made);
  if (!made) return made.error();
  Decoder decoder(config.text, nullptr);
  decoder.accelerator_ = device;
  decoder.device_ = std::move(*made);
  return decoder;
}

size_t Decoder::bytes() const { return device_ ? device_->bytes() : weights_->bytes(); }

Buffer<float> Decoder::decode(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                              const DecodeOptions& options) const {
  FOVEA_CHECK(options.layers == 0 && !options.leave_logits);
  const size_t rows = options.all_logits ? run.ids.size() : 1;
  Buffer<float> logits(rows * static_cast<size_t>(config_.vocab_size));
  if (!work(threads, run, memory, options, &logits)) return {};
  return logits;
}

bool Decoder::read(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                   const DecodeOptions& options) const {
  FOVEA_CHECK(!options.all_logits && options.layers >= 0 && options.layers <= config_.num_layers);
  FOVEA_CHECK(!options.leave_logits || (answers() && options.layers == 0));
  const int64_t before = memory.tokens();
  const bool done = work(threads, run, memory, options, nullptr);
  if (options.layers > 0) memory.truncate(before);
  return done;
}

bool Decoder::work(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                   const DecodeOptions& options, Buffer<float>* logits) const {
  FOVEA_CHECK(options.chunk_tokens >= 0);
  check_run(config_, run, memory);
  const auto count = static_cast<int64_t>(run.ids.size());
  const int64_t before = memory.tokens();
  const int layers = options.layers > 0 ? options.layers : config_.num_layers;
  if (options.readout != nullptr) start_readout(config_, run, before + count, *options.readout);
  if (options.hidden != nullptr) start_hidden(config_, run, layers, *options.hidden);
  if (device_) return work_on_device(run, memory, options, logits);
  prepare_layers(config_, count, memory);
  const int64_t most = options.chunk_tokens > 0 ? options.chunk_tokens : kChunkTokens;
  prepare_scratch(config_, std::min(most, count), memory.scratch);
  const Run all{threads, config_, *weights_, run, options, memory, layers, logits != nullptr};
  for (int64_t begin = 0; begin < count; begin += most) {
    const Run::Chunk chunk{begin, std::min(begin + most, count)};
    DecoderScratch& scratch = memory.scratch;
    all.embed(chunk);
    turn_angles(
        threads, config_,
        run.positions.subspan(static_cast<size_t>(begin), static_cast<size_t>(chunk.rows())),
        scratch.cos.data(), scratch.sin.data());
    if (!all.run_layers(chunk)) {
      memory.truncate(before);
      return false;
    }
    if (options.all_logits)
      all.write_logits(0, chunk.rows(), logits->data() + begin * config_.vocab_size);
    else if (logits != nullptr && chunk.end == count)
      all.write_logits(chunk.rows() - 1, 1, logits->data());
  }
  return true;
}

Result<std::unique_ptr<DeviceAnswer>> Decoder::answer(const DecoderMemory& memory,
                                                      const AnswerStart& start) const {
  FOVEA_CHECK(answers() && start.sampling.most_likely == 0);
  if (auto checked = check_sampling(start.sampling); !checked) return checked.error();
  return device_->answer(memory, start);
}

Result<double> Decoder::confidence(const DecoderMemory& memory) const {
  FOVEA_CHECK(answers());
  return device_->confidence(memory);
}

bool Decoder::work_on_device(const TokenRun& run, DecoderMemory& memory,
                             const DecodeOptions& options, Buffer<float>* logits) const {
  const int64_t before = memory.tokens();
  const Result<bool> done = device_->work(run, memory, options, logits);
  if (!done) accelerator_->fail(done.error());
  if (done && *done) return true;
  memory.truncate(before);
  return false;
}

size_t DecoderScratch::bytes() const {
  return (hidden.size() + input.size() + inner.size() + cos.size() + sin.size()) * sizeof(float);
}

size_t DecoderMemory::bytes() const {
  size_t bytes = on_device ? on_device->bytes() : 0;
  for (const KeyValues& layer : layers) bytes += layer.bytes();
  return bytes;
}

void DecoderMemory::reserve(int64_t tokens) {
  reserved_tokens = std::max(reserved_tokens, tokens);
  for (KeyValues& layer : layers) layer.reserve(tokens);
}

void DecoderMemory::truncate(int64_t tokens) {
  for (KeyValues& layer : layers) layer.truncate(tokens);
  tokens_on_device = std::min(tokens_on_device, tokens);
}

}  // namespace fovea
