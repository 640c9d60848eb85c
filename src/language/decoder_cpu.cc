// SPDX-License-Identifier: Apache-2.0
// The decoder on the CPU: runs one after the other, in chunks; steps of several sequences together.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/stop_loops.h"
#include "language/decoder_angles.h"
#include "language/decoder_layer.h"
#include "language/decoder_steps.h"
#include "language/device_decoder.h"
#include "ops/activation.h"

namespace fovea {
namespace {

// Takes the pages of a run in the layers that are computed, before anything is changed.
void prepare_layers(const TextConfig& config, int64_t new_tokens, int layers,
                    DecoderMemory& memory) {
  memory.open(config);
  for (int i = 0; i < layers; ++i) {
    KeyValues& kv = memory.layers[static_cast<size_t>(i)];
    kv.reserve(kv.size() + new_tokens);
  }
}

// What the calls for the chunks of one run share.
struct Run {
  Threads& threads;
  const TextConfig& config;
  const DecoderWeights& weights;
  const TokenRun& tokens;
  const ForwardOptions& options;
  DecoderMemory& memory;
  StopLoops& stop;
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
  void write_logits(int64_t first_row, int64_t rows, float* logits) const {
    fovea::write_logits(threads, config, weights, memory.scratch, first_row, rows, logits);
  }
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
  const auto include = [&](size_t query_begin, size_t query_end) {
    const auto begin = std::max(static_cast<int64_t>(query_begin), chunk.begin);
    if (begin < std::min(static_cast<int64_t>(query_end), chunk.end))
      call.first_query = std::min(call.first_query, begin - chunk.begin);
  };
  const AttentionReadout* readout = options.readout;
  if (readout != nullptr && std::count(readout->layers.begin(), readout->layers.end(), layer) > 0)
    include(readout->query_begin, readout->query_end);
  if (options.keys != nullptr) include(options.keys->query_begin, options.keys->query_end);
  return call;
}

bool Run::run_layers(const Chunk& chunk) const {
  for (int i = 0; i < layers; ++i) {
    if (!stop.keep_going()) return false;
    KeyValues& kv = memory.layers[static_cast<size_t>(i)];
    const LayerCall call = call_for(chunk, i);
    project(call, kv);
    if (options.readout != nullptr)
      for (const int layer : options.readout->layers)
        if (layer == i) read_out(call, kv, chunk.begin, *options.readout);
    if (options.keys != nullptr)
      read_keys(call, kv, chunk.begin, i, memory.missing(static_cast<size_t>(i)), *options.keys);
    if (call.first_output == call.rows) continue;
    attend(call, kv, attention_of(options, i, config));
    feed_forward(call);
    add_deepstack(chunk, static_cast<size_t>(i), call.first_output);
    if (options.on_layer && !stop.stopped()) options.on_layer(i, chunk.begin, chunk.rows(), row(0));
    if (options.hidden != nullptr && options.hidden->layers == i + 1)
      std::memcpy(options.hidden->hidden.data() + chunk.begin * config.hidden_size, row(0),
                  static_cast<size_t>(chunk.rows() * config.hidden_size) * sizeof(float));
  }
  return !stop.stopped();
}

// The chunks of a run: of `most` tokens, and as many more as keep an image together where its
// tokens see each other.
std::vector<Run::Chunk> chunks_of(const ForwardRequest& request, int64_t most) {
  const auto count = static_cast<int64_t>(request.run.ids.size());
  const bool whole_images = request.options.attention.has(AttentionKind::kPrefix);
  std::vector<Run::Chunk> chunks;
  for (int64_t begin = 0; begin < count; begin = chunks.back().end) {
    int64_t end = std::min(begin + most, count);
    if (whole_images)
      end = prefix_limit(request.options.images, request.tokens_before + end - 1) -
            request.tokens_before;
    chunks.push_back({begin, end});
  }
  FOVEA_CHECK(chunks.back().end == count);
  return chunks;
}

class CpuDecoder : public DeviceDecoder {
 public:
  CpuDecoder(const TextConfig& config, DecoderWeights weights)
      : config_(config), weights_(std::move(weights)) {}

  void work(Threads& threads, std::span<ForwardRequest> requests) override;
  DeviceAnswers* answers() override { return nullptr; }
  size_t bytes() const override { return weights_.bytes(); }
  bool has_kind(AttentionKind /*kind*/) const override { return true; }
  bool reads_keys() const override { return true; }

 private:
  bool work_run(Threads& threads, ForwardRequest& request) const;

  const TextConfig config_;
  const DecoderWeights weights_;
};

void CpuDecoder::work(Threads& threads, std::span<ForwardRequest> requests) {
  std::vector<ForwardRequest*> steps;
  for (ForwardRequest& request : requests) {
    if (!request.done()) continue;
    try {
      const int layers = request.options.layers;
      prepare_layers(config_, static_cast<int64_t>(request.run.ids.size()),
                     layers > 0 ? layers : config_.num_layers, *request.memory);
      if (is_step(request))
        steps.push_back(&request);
      else
        request.stopped = !work_run(threads, request);
    } catch (const std::bad_alloc&) {
      request.status = no_memory_to_decode();
    }
  }
  run_steps(threads, config_, weights_, steps);
}

// False where keep_going ended it.
bool CpuDecoder::work_run(Threads& threads, ForwardRequest& request) const {
  const TokenRun& run = request.run;
  const ForwardOptions& options = request.options;
  DecoderMemory& memory = *request.memory;
  Buffer<float>* logits = request.wants_logits ? &request.logits : nullptr;
  const auto count = static_cast<int64_t>(run.ids.size());
  const int layers = options.layers > 0 ? options.layers : config_.num_layers;
  StopLoops stop(options.keep_going);
  const int64_t most = options.chunk_tokens > 0 ? options.chunk_tokens : kDecoderChunk;
  const std::vector<Run::Chunk> chunks = chunks_of(request, most);
  int64_t rows = 0;
  for (const Run::Chunk& chunk : chunks) rows = std::max(rows, chunk.rows());
  prepare_scratch(config_, rows, memory.scratch);
  const Run all{threads, config_, weights_, run, options, memory, stop, layers, logits != nullptr};
  for (const Run::Chunk& chunk : chunks) {
    DecoderScratch& scratch = memory.scratch;
    all.embed(chunk);
    rotary_angles(
        threads, config_,
        run.positions.subspan(static_cast<size_t>(chunk.begin), static_cast<size_t>(chunk.rows())),
        scratch.cos.data(), scratch.sin.data());
    if (all.run_layers(chunk)) {
      if (options.all_logits)
        all.write_logits(0, chunk.rows(), logits->data() + chunk.begin * config_.vocab_size);
      else if (logits != nullptr && chunk.end == count)
        all.write_logits(chunk.rows() - 1, 1, logits->data());
    }
    if (stop.stopped()) return false;
  }
  return true;
}

}  // namespace

void make_cpu_decoder(const std::shared_ptr<Accelerator>& /*device*/, const TextConfig& config,
                      DecoderWeights& weights, Result<std::shared_ptr<DeviceDecoder>>& result) {
  result = std::shared_ptr<DeviceDecoder>(std::make_shared<CpuDecoder>(config, std::move(weights)));
}

}  // namespace fovea
