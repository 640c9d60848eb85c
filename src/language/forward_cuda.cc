// SPDX-License-Identifier: Apache-2.0
// Requests through the decoder on a GPU: those that ask for logits alone in passes that they share,
// others one after the other, in chunks, with what is read out on the way.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "language/decoder_cuda.h"
#include "vision/tower_cuda.h"

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

// What writes the visual tokens of a run comes first.
Status enqueue_tokens(const TokenRun& run) {
  for (const VisualSpan& span : run.visual)
    if (auto done = static_cast<const TokensOnDevice&>(*span.tokens->on_device).be_enqueued();
        !done)
      return done;
  return Done{};
}

// Where the chunk that begins at `begin` ends. The last query of a readout is a chunk by itself
// where what it alone attends to is wanted.
int64_t chunk_end(const ForwardRequest& request, int64_t begin) {
  const ForwardOptions& options = request.options;
  const int64_t most = options.chunk_tokens > 0 ? options.chunk_tokens : kChunkTokens;
  int64_t end = std::min(begin + most, static_cast<int64_t>(request.run.ids.size()));
  // By prefix the tokens of an image see each other: its keys must be there. It begins a chunk of
  // its own rather than make this one longer than products take best.
  if (options.attention.has(AttentionKind::kPrefix)) {
    const int64_t last = request.tokens_before + end - 1;
    const int64_t whole = prefix_limit(options.images, last) - request.tokens_before;
    int64_t first = begin;
    for (const TokenRange& image : options.images)
      if (last >= image.begin && last < image.end) first = image.begin - request.tokens_before;
    end = whole > end && first > begin ? first : whole;
  }
  if (options.readout == nullptr || !options.readout->wants_last) return end;
  const auto past_last = static_cast<int64_t>(options.readout->query_end);
  for (const int64_t edge : {past_last - 1, past_last})
    if (begin < edge) end = std::min(end, edge);
  return end;
}

// Whether it can go through its layers in one pass with others.
bool shares_pass(const ForwardRequest& request) {
  const ForwardOptions& options = request.options;
  const auto count = static_cast<int64_t>(request.run.ids.size());
  return count <= (options.chunk_tokens > 0 ? options.chunk_tokens : kChunkTokens) &&
         !options.all_logits && !options.on_layer &&
         (options.attention.is_dense() || request.run.visual.empty()) &&
         (options.readout == nullptr || !options.readout->wants_last);
}

// Whether two such can have the same pass.
bool go_together(const ForwardRequest& a, const ForwardRequest& b) {
  const AttentionReadout* first = a.options.readout;
  const AttentionReadout* second = b.options.readout;
  return a.options.layers == b.options.layers &&
         (first == nullptr || second == nullptr || first->layers == second->layers);
}

}  // namespace

AttentionShape CudaDecoder::asking_shape(const Pass& pass, int layer) const {
  AttentionShape shape = shape_of(pass, layer);
  shape.sequences = pass.asking.sequences;
  shape.max_q_count = pass.asking.max_queries;
  return shape;
}

Status CudaDecoder::start_readouts(std::span<const PassRun> requests,
                                   std::span<AttentionReadout* const> readouts, Pass& pass) {
  std::vector<AttentionSequence> asking;
  std::vector<AttentionMassRange> ranges;
  size_t keys = 0;
  int row = 0;
  for (size_t i = 0; i < readouts.size(); row += static_cast<int>(requests[i].ids.size()), ++i) {
    if (readouts[i] == nullptr || readouts[i]->mass.empty()) continue;
    const AttentionReadout& readout = *readouts[i];
    const DecoderKeyValues& memory = *requests[i].memory;
    AttentionSequence sequence;
    sequence.q_begin = row + static_cast<int>(readout.query_begin);
    sequence.q_count = static_cast<int>(readout.query_end - readout.query_begin);
    sequence.keys = memory.keys.data();
    sequence.values = memory.values.data();
    sequence.capacity = memory.capacity;
    sequence.key_count = requests[i].kept + static_cast<int>(requests[i].ids.size());
    sequence.first_query = requests[i].kept + static_cast<int>(readout.query_begin);
    asking.push_back(sequence);
    AttentionMassRange range;
    range.key_begin = static_cast<int>(readout.key_begin);
    range.key_end = static_cast<int>(readout.key_end);
    range.share = 1.0f / static_cast<float>(readout.layers.size());
    range.add = true;
    ranges.push_back(range);
    pass.asking.layers = readout.layers;
    pass.asking.max_queries = std::max(pass.asking.max_queries, sequence.q_count);
    pass.asking.max_range = std::max(pass.asking.max_range, range.key_end - range.key_begin);
    keys += readout.mass.size();
  }
  pass.asking.sequences = static_cast<int>(asking.size());
  if (asking.empty()) return Done{};
  if (auto made = work_.mass.at_least(keys); !made) return made;
  Stream& stream = device_->stream();
  cudaMemsetAsync(work_.mass.data(), 0, keys * sizeof(float), stream.get());
  float* mass = work_.mass.data();
  for (AttentionMassRange& range : ranges) {
    range.mass = mass;
    mass += range.key_end - range.key_begin;
  }
  const size_t floats = attention_mass_floats(asking_shape(pass, 0), pass.asking.max_range);
  if (attention_.part_floats() < floats) {
    graphs_.clear();
    if (auto made = attention_.open(stream.get(), floats); !made) {
      // What others need is gone with it.
      if (auto again = attention_.open(stream.get()); !again) return again;
      return made;
    }
  }
  if (auto done = staging_.upload<AttentionMassRange>(stream, ranges, work_.ranges); !done)
    return done;
  return staging_.upload<AttentionSequence>(stream, asking, work_.asking);
}

void CudaDecoder::download_readouts(std::span<AttentionReadout* const> readouts) {
  const float* from = work_.mass.data();
  for (AttentionReadout* readout : readouts) {
    if (readout == nullptr || readout->mass.empty()) continue;
    device_->stream().download(readout->mass.data(), from, readout->mass.size());
    from += readout->mass.size();
  }
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

void CudaDecoder::work(std::span<ForwardRequest> requests) {
  const CudaAccelerator::Lock lock(*device_);
  struct Group {
    std::vector<ForwardRequest*> requests;
    int64_t tokens = 0;
  };
  std::vector<Group> groups;
  for (ForwardRequest& request : requests) {
    if (!request.done()) continue;
    if (requests.size() > 1 && shares_pass(request)) {
      const auto count = static_cast<int64_t>(request.run.ids.size());
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& one) {
        return one.tokens + count <= kChunkTokens &&
               std::all_of(
                   one.requests.begin(), one.requests.end(),
                   [&](const ForwardRequest* other) { return go_together(*other, request); });
      });
      if (group == groups.end()) group = groups.insert(groups.end(), Group{});
      group->requests.push_back(&request);
      group->tokens += count;
      continue;
    }
    work_alone(request);
  }
  for (const Group& group : groups) work_together(group.requests);
}

// Its rows of a pass; null memory where it was stopped.
Result<PassRun> CudaDecoder::start_together(ForwardRequest& request) {
  const ForwardOptions& options = request.options;
  DecoderMemory& memory = *request.memory;
  request.stopped = options.keep_going && !options.keep_going();
  PassRun run{request.run.ids, request.run.positions, request.run.visual, nullptr,
              static_cast<int>(memory.tokens())};
  if (request.stopped) return run;
  if (auto done = enqueue_tokens(request.run); !done) return done.error();
  const auto count = static_cast<int64_t>(run.ids.size());
  const auto room =
      room_for(memory.on_device, run.kept, std::max(run.kept + count, memory.reserved_tokens));
  if (!room) return room.error();
  run.memory = *room;
  if (options.leave_logits)
    if (auto made = run.memory->logits.at_least(static_cast<size_t>(config_.vocab_size)); !made)
      return made.error();
  return run;
}

void CudaDecoder::work_together(std::span<ForwardRequest* const> requests) {
  std::vector<ForwardRequest*> started;
  std::vector<PassRun> runs;
  for (ForwardRequest* request : requests) {
    const auto run = start_together(*request);
    if (!run) request->status = run.error();
    if (!request->done()) continue;
    started.push_back(request);
    runs.push_back(*run);
  }
  if (runs.empty()) return;
  const Status done = run_together(started, runs);
  for (size_t i = 0; i < started.size(); ++i)
    if (done)
      started[i]->memory->tokens_on_device =
          runs[i].kept + static_cast<int64_t>(runs[i].ids.size());
    else if (started.size() == 1)
      started[i]->status = done;
    else
      work_alone(*started[i]);  // there may be memory for each, where there is none for all
}

Status CudaDecoder::run_together(std::span<ForwardRequest* const> requests,
                                 std::span<const PassRun> runs) {
  PassOptions options;
  const int layers = requests.front()->options.layers;
  options.layers = layers > 0 ? layers : config_.num_layers;
  std::vector<AttentionReadout> parts(requests.size());
  std::vector<AttentionReadout*> readouts(requests.size());
  bool hidden = false;
  for (size_t i = 0; i < requests.size(); ++i) {
    const ForwardOptions& asked = requests[i]->options;
    options.logits = options.logits || requests[i]->wants_logits || asked.leave_logits;
    hidden = hidden || asked.hidden != nullptr;
    if (asked.readout == nullptr) continue;
    const auto count = static_cast<int64_t>(runs[i].ids.size());
    parts[i] = part_of(*asked.readout, 0, count, runs[i].kept + count);
    readouts[i] = &parts[i];
  }
  options.readouts = readouts;
  Stream& stream = device_->stream();
  if (hidden)
    options.on_layer = [&](int layer, const float* states) {
      const auto width = static_cast<size_t>(config_.hidden_size);
      for (size_t i = 0; i < requests.size(); ++i) {
        HiddenReadout* wanted = requests[i]->options.hidden;
        const size_t values = runs[i].ids.size() * width;
        if (wanted != nullptr && wanted->layers == layer + 1)
          stream.download(wanted->hidden.data(), states, values);
        states += values;
      }
    };
  if (auto done = run(runs, options); !done) return done;
  download_readouts(readouts);
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  for (size_t i = 0; i < requests.size(); ++i) {
    const float* from = logits() + i * vocab;
    if (requests[i]->wants_logits) stream.download(requests[i]->logits.data(), from, vocab);
    if (requests[i]->options.leave_logits) stream.copy(runs[i].memory->logits.data(), from, vocab);
  }
  // A failure is noticed while it can still be told whose it is.
  if (auto done = stream.wait(); !done) return done;
  for (size_t i = 0; i < requests.size(); ++i)
    if (readouts[i] != nullptr)
      std::copy(parts[i].mass.begin(), parts[i].mass.end(),
                requests[i]->options.readout->mass.begin());
  return Done{};
}

void CudaDecoder::work_alone(ForwardRequest& request) {
  const Result<bool> done = run_alone(request);
  if (!done)
    request.status = done.error();
  else
    request.stopped = !*done;
}

Result<bool> CudaDecoder::run_alone(ForwardRequest& asked) {
  const TokenRun& run = asked.run;
  const ForwardOptions& options = asked.options;
  DecoderMemory& memory = *asked.memory;
  Buffer<float>* logits = asked.wants_logits ? &asked.logits : nullptr;
  if (auto done = enqueue_tokens(run); !done) return done.error();
  Stream& stream = device_->stream();
  const auto count = static_cast<int64_t>(run.ids.size());
  const int64_t before = memory.tokens();
  const auto room =
      room_for(memory.on_device, before, std::max(before + count, memory.reserved_tokens));
  if (!room) return room.error();
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  for (int64_t begin = 0; begin < count; begin = chunk_end(asked, begin)) {
    if (options.keep_going && !options.keep_going()) return false;
    const int64_t end = chunk_end(asked, begin);
    const auto first = static_cast<size_t>(begin);
    const auto rows = static_cast<size_t>(end - begin);
    const std::vector<VisualSpan> visual = spans_of(run.visual, begin, end);
    PassRun request{run.ids.subspan(first, rows), run.positions.subspan(first, rows), visual, *room,
                    static_cast<int>(before + begin)};
    if (!options.attention.is_dense() && !visual.empty()) {  // a text sees the same either way
      request.attention = &options.attention;
      request.images = options.images;
    }
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
    }
    AttentionReadout* const readout = part.mass.empty() ? nullptr : &part;
    pass.readouts = {&readout, 1};
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
    download_readouts(pass.readouts);
    if (pass.all_logits)
      stream.download(logits->data() + first * vocab, CudaDecoder::logits(), rows * vocab);
    else if (pass.logits)
      stream.download(logits->data(), CudaDecoder::logits(), vocab);
    if (readout != nullptr || pass.all_logits || pass.logits)
      if (auto done = stream.wait(); !done) return done.error();
    if (readout != nullptr) {
      const auto queries = static_cast<float>(part.query_end - part.query_begin);
      const auto all =
          static_cast<float>(options.readout->query_end - options.readout->query_begin);
      for (size_t i = 0; i < part.mass.size(); ++i)
        options.readout->mass[i] += part.mass[i] * queries / all;
      if (options.readout->wants_last && end == static_cast<int64_t>(options.readout->query_end))
        std::copy(part.mass.begin(), part.mass.end(), options.readout->last_mass.begin());
    }
  }
  memory.tokens_on_device = before + count;
  return true;
}

}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_make_decoder(
    const std::shared_ptr<fovea::Accelerator>& device, const fovea::TextConfig& config,
    fovea::DecoderWeights& weights, fovea::Result<std::shared_ptr<fovea::DeviceDecoder>>& result) {
  auto decoder = fovea::CudaDecoder::make(std::static_pointer_cast<fovea::CudaAccelerator>(device),
                                          config, weights);
  if (decoder)
    result = std::shared_ptr<fovea::DeviceDecoder>(std::move(*decoder));
  else
    result = decoder.error();
}
