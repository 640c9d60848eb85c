// SPDX-License-Identifier: Apache-2.0
// One sequence's tokens through the decoder on a GPU, in chunks, with what is read out on the way.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "language/decoder_cuda.h"

namespace fovea {
namespace {

constexpr int64_t kChunkTokens = 4096;
constexpr int kLogitRows = 64;  // of which logits are computed at a time

// The visual tokens of [begin, end) of a run, counted from there.
std::vector<VisualSpan> spans_of(std::span<const VisualSpan> all, int64_t begin, int64_t end) {
  std::vector<VisualSpan> spans;
  for (VisualSpan span : all) {
    const auto at = static_cast<int64_t>(span.at);
    const int64_t from = std::max(at, begin);
    const int64_t to = std::min(at + span.count, end);
    if (from >= to) continue;
    span.first += static_cast<int>(from - at);
    span.count = static_cast<int>(to - from);
    span.at = static_cast<size_t>(from - begin);
    spans.push_back(span);
  }
  return spans;
}

// What of a readout falls into the chunk [begin, end) of a run, counted from there; mass empty
// where nothing does.
AttentionReadout part_of(const AttentionReadout& all, int64_t begin, int64_t end, int64_t keys) {
  AttentionReadout part = all;
  const int64_t from = std::max(static_cast<int64_t>(all.query_begin), begin);
  const int64_t to = std::min(static_cast<int64_t>(all.query_end), end);
  part.key_end = std::min(all.key_end, keys);
  part.mass.clear();
  if (from >= to || part.key_begin >= part.key_end) return part;
  part.query_begin = static_cast<size_t>(from - begin);
  part.query_end = static_cast<size_t>(to - begin);
  part.mass.resize(static_cast<size_t>(part.key_end - part.key_begin));
  return part;
}

}  // namespace

AttentionShape CudaDecoder::asking_shape(const Pass& pass, const AttentionReadout& readout,
                                         int layer) const {
  AttentionShape shape = shape_of(pass, layer);
  shape.max_q_count = static_cast<int>(readout.query_end - readout.query_begin);
  return shape;
}

Status CudaDecoder::start_readout(const DecoderRequest& request, const Pass& pass,
                                  const AttentionReadout& readout) {
  FOVEA_CHECK(pass.sequences == 1);
  AttentionSequence asking;
  asking.q_begin = static_cast<int>(readout.query_begin);
  asking.q_count = static_cast<int>(readout.query_end - readout.query_begin);
  asking.keys = request.memory->keys.data();
  asking.values = request.memory->values.data();
  asking.capacity = request.memory->capacity;
  asking.key_count = request.kept + static_cast<int>(request.ids.size());
  asking.first_query = request.kept + asking.q_begin;
  if (auto made = work_.mass.at_least(readout.mass.size()); !made) return made;
  Stream& stream = device_->stream();
  cudaMemsetAsync(work_.mass.data(), 0, readout.mass.size() * sizeof(float), stream.get());
  AttentionMassRange range;
  range.key_begin = static_cast<int>(readout.key_begin);
  range.key_end = static_cast<int>(readout.key_end);
  range.mass = work_.mass.data();
  range.share = 1.0f / static_cast<float>(readout.layers.size());
  range.add = true;
  const size_t floats =
      attention_mass_floats(asking_shape(pass, readout, 0), range.key_end - range.key_begin);
  if (attention_.part_floats() < floats) {
    graphs_.clear();
    if (auto made = attention_.open(stream.get(), floats); !made) {
      // What others need is gone with it.
      if (auto again = attention_.open(stream.get()); !again) return again;
      return made;
    }
  }
  if (auto done = staging_.upload<AttentionMassRange>(stream, {&range, 1}, work_.ranges); !done)
    return done;
  return staging_.upload<AttentionSequence>(stream, {&asking, 1}, work_.asking);
}

Status CudaDecoder::write_logits(const Pass& pass, const PassOptions& options) {
  const int rows = options.all_logits ? pass.rows : pass.sequences;
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  float* to = options.leave;
  if (to == nullptr) {
    const size_t size = static_cast<size_t>(rows) * vocab;
    if (auto made = work_.logits.zeros_at_least(size); !made) return made;
    to = work_.logits.data();
  }
  cudaStream_t stream = device_->stream().get();
  NormJob norm;
  norm.cols = config_.hidden_size;
  norm.weight = weights_.norm.data();
  norm.eps = static_cast<float>(config_.rms_norm_eps);
  if (options.all_logits) {
    norm.x = work_.hidden.data();
    norm.rows = rows;
    norm.y = work_.narrow.data();
    rms_norm_cuda(stream, norm);
  } else {
    norm.rows = 1;
    for (int i = 0; i < rows; ++i) {
      norm.x = work_.hidden.data() +
               int64_t{pass.last_rows[static_cast<size_t>(i)]} * config_.hidden_size;
      norm.y = work_.narrow.data() + int64_t{i} * config_.hidden_size;
      rms_norm_cuda(stream, norm);
    }
  }
  for (int first = 0; first < rows; first += kLogitRows)
    matmuls_.run(
        stream, weights_.head().times(work_.narrow.data() + int64_t{first} * config_.hidden_size,
                                      std::min(kLogitRows, rows - first), MatmulFinish::kStoreFloat,
                                      to + first * static_cast<int64_t>(vocab)));
  return Done{};
}

Result<bool> CudaDecoder::work(const TokenRun& run, DecoderMemory& memory,
                               const DecodeOptions& options, Buffer<float>* logits) {
  const CudaAccelerator::Turn turn(*device_);
  Stream& stream = device_->stream();
  const auto count = static_cast<int64_t>(run.ids.size());
  const int64_t before = memory.tokens();
  const auto room =
      room_for(memory.on_device, before, std::max(before + count, memory.reserved_tokens));
  if (!room) return room.error();
  const int64_t most = options.chunk_tokens > 0 ? options.chunk_tokens : kChunkTokens;
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  for (int64_t begin = 0; begin < count; begin += most) {
    if (options.keep_going && !options.keep_going()) return false;
    const int64_t end = std::min(begin + most, count);
    const auto first = static_cast<size_t>(begin);
    const auto rows = static_cast<size_t>(end - begin);
    const std::vector<VisualSpan> visual = spans_of(run.visual, begin, end);
    const DecoderRequest request{run.ids.subspan(first, rows), run.positions.subspan(first, rows),
                                 visual, *room, static_cast<int>(before + begin)};
    PassOptions pass;
    pass.layers = options.layers > 0 ? options.layers : config_.num_layers;
    pass.all_logits = options.all_logits;
    pass.logits = logits != nullptr && !options.all_logits && end == count;
    if (options.leave_logits && end == count) {
      if (auto made = (*room)->logits.at_least(vocab); !made) return made.error();
      pass.leave = (*room)->logits.data();
    }
    AttentionReadout part;
    if (options.readout != nullptr) {
      part = part_of(*options.readout, begin, end, before + end);
      if (!part.mass.empty()) pass.readout = &part;
    }
    Status shown = Done{};
    if (options.on_layer || options.hidden != nullptr)
      pass.on_layer = [&](int layer, const float* states) {
        const bool wanted = options.hidden != nullptr && options.hidden->layers == layer + 1;
        if (!shown || (!wanted && !options.on_layer)) return;
        std::vector<float> here(rows * hidden);
        stream.download(here.data(), states, here.size());
        shown = stream.wait();
        if (!shown) return;
        if (wanted)
          std::copy(here.begin(), here.end(), options.hidden->hidden.data() + first * hidden);
        if (options.on_layer)
          options.on_layer(layer, begin, static_cast<int64_t>(rows), here.data());
      };
    if (auto done = CudaDecoder::run({&request, 1}, pass); !done) return done.error();
    if (!shown) return shown.error();
    if (pass.readout != nullptr)
      stream.download(part.mass.data(), work_.mass.data(), part.mass.size());
    if (pass.all_logits)
      stream.download(logits->data() + first * vocab, CudaDecoder::logits(), rows * vocab);
    else if (pass.logits)
      stream.download(logits->data(), CudaDecoder::logits(), vocab);
    if (pass.readout != nullptr || pass.all_logits || pass.logits)
      if (auto done = stream.wait(); !done) return done.error();
    if (pass.readout != nullptr) {
      const auto queries = static_cast<float>(part.query_end - part.query_begin);
      const auto all =
          static_cast<float>(options.readout->query_end - options.readout->query_begin);
      for (size_t i = 0; i < part.mass.size(); ++i)
        options.readout->mass[i] += part.mass[i] * queries / all;
    }
  }
  memory.tokens_on_device = before + count;
  return true;
}

}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_make_decoder(
    const std::shared_ptr<fovea::Accelerator>& device, const fovea::TextConfig& config,
    const fovea::DecoderWeights& weights,
    fovea::Result<std::shared_ptr<fovea::DeviceDecoder>>& result) {
  auto decoder = fovea::CudaDecoder::make(std::static_pointer_cast<fovea::CudaAccelerator>(device),
                                          config, weights);
  if (decoder)
    result = std::shared_ptr<fovea::DeviceDecoder>(std::move(*decoder));
  else
    result = decoder.error();
}
