// SPDX-License-Identifier: Apache-2.0
#include "language/decoder_steps.h"

#include <algorithm>
#include <functional>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/stop_loops.h"
#include "language/decoder_angles.h"
#include "language/decoder_layer.h"
#include "ops/matmul.h"

namespace fovea {
namespace {

// At most kFewRows steps: so many rows of a product do not depend on each other.
class StepBatch {
 public:
  StepBatch(Threads& threads, const TextConfig& config, const DecoderWeights& weights,
            std::span<ForwardRequest* const> steps)
      : threads_(threads),
        config_(config),
        weights_(weights),
        steps_(steps),
        scratch_(steps.front()->memory->scratch) {}

  void run() {
    const std::function<bool()> keep_going = [this] { return any_goes_on(); };
    StopLoops stop(keep_going);
    for (ForwardRequest* step : steps_) start_readout(*step);
    prepare_scratch(config_, rows(), scratch_);
    embed();
    for (int layer = 0; layer < config_.num_layers; ++layer) {
      if (!stop.keep_going()) return;
      run_layer(static_cast<size_t>(layer));
    }
    write();
  }

 private:
  int64_t rows() const { return static_cast<int64_t>(steps_.size()); }

  // From nothing, also where a batch ran out of memory half way.
  static void start_readout(const ForwardRequest& step) {
    AttentionReadout* readout = step.options.readout;
    if (readout != nullptr) std::fill(readout->mass.begin(), readout->mass.end(), 0.0f);
  }

  void embed() {
    std::vector<TokenPosition> positions;
    for (int64_t i = 0; i < rows(); ++i) {
      const TokenRun& run = steps_[static_cast<size_t>(i)]->run;
      const int id = run.ids.front();
      FOVEA_CHECK(id >= 0 && id < config_.vocab_size);
      weights_.embedding.row(id, scratch_.hidden.data() + i * config_.hidden_size);
      positions.push_back(run.positions.front());
    }
    rotary_angles(threads_, config_, positions, scratch_.cos.data(), scratch_.sin.data());
  }

  // The row of a step that was stopped goes along to the end: it costs little beside the others.
  bool any_goes_on() {
    bool any = false;
    for (ForwardRequest* step : steps_) {
      const auto& keep_going = step->options.keep_going;
      if (!step->stopped && keep_going && !keep_going()) step->stopped = true;
      any = any || !step->stopped;
    }
    return any;
  }

  void run_layer(size_t layer) {
    const LayerCall call{threads_, config_, weights_.layers[layer], scratch_, rows()};
    kvs_.clear();
    how_.clear();
    for (ForwardRequest* step : steps_) {
      kvs_.push_back(&step->memory->layers[layer]);
      how_.push_back(attention_of(step->options, static_cast<int>(layer), config_));
    }
    project(call, kvs_);
    for (size_t i = 0; i < steps_.size(); ++i) {
      AttentionReadout* readout = steps_[i]->options.readout;
      if (readout == nullptr) continue;
      for (const int asked : readout->layers)
        if (asked == static_cast<int>(layer))
          read_out_step(call, *kvs_[i], static_cast<int64_t>(i), *readout);
    }
    attend(call, kvs_, how_);
    feed_forward(call);
  }

  void write() {
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    if (steps_.size() == 1)
      return write_logits(threads_, config_, weights_, scratch_, 0, 1,
                          steps_.front()->logits.data());
    if (scratch_.logits.size() < steps_.size() * vocab)
      scratch_.logits = Buffer<float>(steps_.size() * vocab);
    write_logits(threads_, config_, weights_, scratch_, 0, rows(), scratch_.logits.data());
    threads_.for_each(rows(), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        std::copy_n(scratch_.logits.data() + i * vocab, vocab, steps_[i]->logits.data());
    });
  }

  Threads& threads_;
  const TextConfig& config_;
  const DecoderWeights& weights_;
  std::span<ForwardRequest* const> steps_;
  DecoderScratch& scratch_;
  std::vector<KeyValues*> kvs_;  // of the present layer
  std::vector<LayerAttention> how_;
};

// Where memory ran out for several, it may do for each.
void run_alone(Threads& threads, const TextConfig& config, const DecoderWeights& weights,
               std::span<ForwardRequest* const> steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i]->memory->truncate(steps[i]->tokens_before);
    try {
      StepBatch(threads, config, weights, steps.subspan(i, 1)).run();
    } catch (const std::bad_alloc&) {
      steps[i]->status = no_memory_to_decode();
    }
  }
}

}  // namespace

Error no_memory_to_decode() {
  try {
    return because(
        Error::Reason::kMemory,
        failed(
            "out of memory for the tokens of a prompt or answer; try a smaller image or budget"));
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

bool is_step(const ForwardRequest& request) {
  const ForwardOptions& options = request.options;
  return request.run.ids.size() == 1 && request.run.visual.empty() && request.wants_logits &&
         options.hidden == nullptr && options.keys == nullptr && options.layers == 0 &&
         !options.on_layer;
}

void run_steps(Threads& threads, const TextConfig& config, const DecoderWeights& weights,
               std::span<ForwardRequest* const> steps) {
  constexpr auto kMost = static_cast<size_t>(kFewRows);
  while (!steps.empty()) {
    // As even as can be: a batch of few rows reads as many weights as one of many.
    const size_t batches = (steps.size() + kMost - 1) / kMost;
    const size_t count = (steps.size() + batches - 1) / batches;
    try {
      StepBatch(threads, config, weights, steps.first(count)).run();
    } catch (const std::bad_alloc&) {
      run_alone(threads, config, weights, steps.first(count));
    }
    steps = steps.subspan(count);
  }
}

}  // namespace fovea
