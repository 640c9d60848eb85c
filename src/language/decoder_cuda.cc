// SPDX-License-Identifier: Apache-2.0
#include "language/decoder_cuda.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "ops/attention/attention_step_cuda.h"
#include "vision/tower_cuda.h"

namespace fovea {
namespace {

int q_size(const TextConfig& config) { return config.num_heads * config.head_dim; }
int kv_size(const TextConfig& config) { return config.num_kv_heads * config.head_dim; }

// What the kernels can take.
Status check_sizes(const TextConfig& config) {
  const auto refuse = [](const char* name, int value, const char* rule) {
    return bad_input(std::string("a GPU cannot run this model: text_config.") + name + " is " +
                     std::to_string(value) + ", which is not " + rule + "; use device cpu");
  };
  for (const auto& [name, value] : {std::pair("hidden_size", config.hidden_size),
                                    std::pair("intermediate_size", config.intermediate_size),
                                    std::pair("head_dim", config.head_dim)})
    if (value % 8 != 0) return refuse(name, value, "a multiple of 8");
  if (config.head_dim > 128) return refuse("head_dim", config.head_dim, "at most 128");
  if (config.hidden_size > kMaxNormCols)
    return refuse("hidden_size", config.hidden_size, "at most 8192");
  return Done{};
}

// Rows of a pass up to which a graph pays more than attention by warpgroups does.
constexpr int kMostGraphRowsOfLong = 768;
// Where graphs are to serve while a sequence grows. A prompt does not: its kernels are told sooner
// that keys are few.
int rounded_keys(int keys, int queries) {
  const int least = queries > 1 ? 128 : 256;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(keys, least))));
}

}  // namespace

Result<std::shared_ptr<CudaDecoder>> CudaDecoder::make(
    const std::shared_ptr<CudaAccelerator>& device, const TextConfig& config,
    const DecoderWeights& weights) {
  if (auto sizes = check_sizes(config); !sizes) return sizes.error();
  const CudaAccelerator::Lock lock(*device);
  std::shared_ptr<CudaDecoder> decoder(new CudaDecoder(device, config));
  Stream& stream = device->stream();
  WeightUploads uploads(stream);  // while kernels are chosen
  if (auto done = decoder->weights_.upload(uploads, config, weights); !done) return done.error();
  constexpr int64_t kMostRows = 4096;
  if (auto done =
          decoder->matmuls_.open(device->kernels(), kMostRows * 2 * config.intermediate_size);
      !done)
    return done.error();
  if (auto done = decoder->attention_.open(stream.get()); !done) return done.error();
  if (auto done = decoder->warm_up(kEmulated ? 0 : 512); !done) return done.error();
  if (auto done = uploads.finish(); !done) return done.error();
  return decoder;
}

Status CudaDecoder::warm_up(int rows) {
  if (rows == 0 || device_->kernels() == KernelChoice::kPortable) return Done{};
  if (auto grown = grow(rows); !grown) return grown;
  const DeviceDecoderLayer& layer = weights_.layers.front();
  cudaMemsetAsync(work_.narrow.data(), 0, work_.narrow.bytes(), device_->stream().get());
  cudaMemsetAsync(work_.hidden.data(), 0, work_.hidden.bytes(), device_->stream().get());
  for (int count = 16; count <= rows; count += count < 256 ? 16 : 64) {
    project(layer.input_norm, layer.qkv, count, MatmulFinish::kStore, work_.wide.data());
    matmuls_.run(device_->stream().get(), layer.o.times(work_.narrow.data(), count,
                                                        MatmulFinish::kAdd, work_.hidden.data()));
    project(layer.attention_norm, layer.gate_up, count, MatmulFinish::kSiluMultiply,
            work_.wide.data());
    matmuls_.run(
        device_->stream().get(),
        layer.down.times(work_.wide.data(), count, MatmulFinish::kAdd, work_.hidden.data()));
  }
  return device_->stream().wait();
}

Status CudaDecoder::grow(int rows) {
  if (rows <= work_.rows) return Done{};
  graphs_.clear();
  work_.rows = 0;
  const auto count = static_cast<size_t>(rows);
  const auto half = static_cast<size_t>(config_.head_dim / 2);
  const auto narrow = static_cast<size_t>(std::max(config_.hidden_size, q_size(config_)));
  const auto wide = static_cast<size_t>(
      std::max(q_size(config_) + 2 * kv_size(config_), config_.intermediate_size));
  Status made = work_.ids.at_least(count);
  if (made) made = work_.positions.at_least(count);
  if (made) made = work_.cos.at_least(count * half);
  if (made) made = work_.sin.at_least(count * half);
  if (made) made = work_.hidden.at_least(count * static_cast<size_t>(config_.hidden_size));
  if (made) made = work_.narrow.at_least(count * narrow);
  if (made) made = work_.wide.zeros_at_least(count * wide);
  if (made) made = work_.row_places.at_least(count);
  if (!made) return made;
  work_.rows = rows;
  return Done{};
}

Result<DecoderKeyValues*> CudaDecoder::room_for(std::shared_ptr<OnDevice>& memory, int64_t kept,
                                                int64_t tokens) {
  auto* present = static_cast<DecoderKeyValues*>(memory.get());
  if (present != nullptr && present->capacity >= tokens) return present;
  auto grown = std::make_shared<DecoderKeyValues>();
  // Growing by half keeps the copies of a long answer few.
  const int64_t had = present == nullptr ? 0 : present->capacity;
  grown->capacity = static_cast<int>(std::max(tokens, had + had / 2));
  const auto heads =
      static_cast<size_t>(config_.num_layers) * static_cast<size_t>(config_.num_kv_heads);
  const size_t row = static_cast<size_t>(config_.head_dim) * sizeof(bf16);
  const size_t size =
      heads * static_cast<size_t>(grown->capacity) * static_cast<size_t>(config_.head_dim);
  if (auto made = grown->keys.allocate(size); !made) return made.error();
  if (auto made = grown->values.allocate(size); !made) return made.error();
  // attention_step_cuda asks for a key before it is known whether it has been written.
  cudaMemsetAsync(grown->keys.data(), 0, grown->keys.bytes(), device_->stream().get());
  cudaMemsetAsync(grown->values.data(), 0, grown->values.bytes(), device_->stream().get());
  if (kept > 0) {
    const size_t to_pitch = static_cast<size_t>(grown->capacity) * row;
    const size_t from_pitch = static_cast<size_t>(present->capacity) * row;
    cudaStream_t stream = device_->stream().get();
    cudaMemcpy2DAsync(grown->keys.data(), to_pitch, present->keys.data(), from_pitch,
                      static_cast<size_t>(kept) * row, heads, cudaMemcpyDeviceToDevice, stream);
    cudaMemcpy2DAsync(grown->values.data(), to_pitch, present->values.data(), from_pitch,
                      static_cast<size_t>(kept) * row, heads, cudaMemcpyDeviceToDevice, stream);
  }
  memory = grown;
  return grown.get();
}

// Puts the visual tokens of a pass side by side and says in `ids` which row is which of them.
Status CudaDecoder::gather_features(std::span<const PassRun> requests, std::vector<int>& ids,
                                    Pass& pass) {
  size_t first = 0;
  for (const PassRun& request : requests) {
    ids.insert(ids.end(), request.ids.begin(), request.ids.end());
    for (const VisualSpan& span : request.visual) {
      for (int i = 0; i < span.count; ++i)
        ids[first + span.at + static_cast<size_t>(i)] = ~(pass.visual + i);
      pass.visual += span.count;
      const auto& tokens = static_cast<const TokensOnDevice&>(*span.tokens->on_device);
      pass.taps = std::min(tokens.taps, pass.layers);
    }
    first += request.ids.size();
  }
  // Ids under an image do not matter; all others are rows of the embedding.
  FOVEA_CHECK(std::count_if(ids.begin(), ids.end(), [](int id) { return id < 0; }) == pass.visual);
  for (const int id : ids) FOVEA_CHECK(id < config_.vocab_size);
  if (pass.visual == 0) return Done{};
  const auto width = static_cast<size_t>(config_.hidden_size);
  const size_t needed =
      static_cast<size_t>(1 + pass.taps) * static_cast<size_t>(pass.visual) * width;
  if (work_.features.size() < needed) graphs_.clear();
  if (auto made = work_.features.at_least(needed); !made) return made;
  size_t at = 0;
  for (const PassRun& request : requests)
    for (const VisualSpan& span : request.visual) {
      const auto& tokens = static_cast<const TokensOnDevice&>(*span.tokens->on_device);
      for (size_t part = 0; part < static_cast<size_t>(1 + pass.taps); ++part)
        device_->stream().copy(
            work_.features.data() + (part * static_cast<size_t>(pass.visual) + at) * width,
            tokens.values.data() +
                (part * static_cast<size_t>(span.tokens->count) + static_cast<size_t>(span.first)) *
                    width,
            static_cast<size_t>(span.count) * width);
      at += static_cast<size_t>(span.count);
    }
  return Done{};
}

// Tells the device what the rows are, where their keys and values go, and what each sequence sees.
Status CudaDecoder::place_rows(std::span<const PassRun> requests, Pass& pass) {
  std::vector<int> ids;
  std::vector<TokenPosition> positions;
  std::vector<RowPlace> places;
  std::vector<AttentionSequence> sequences;
  pass.sequences = static_cast<int>(requests.size());
  for (const PassRun& request : requests) {
    const auto count = static_cast<int>(request.ids.size());
    DecoderKeyValues& memory = *request.memory;
    AttentionSequence sequence;
    sequence.q_begin = pass.rows;
    sequence.q_count = count;
    sequence.keys = memory.keys.data();
    sequence.values = memory.values.data();
    sequence.capacity = memory.capacity;
    sequence.key_count = request.kept + count;
    sequence.first_query = request.kept;
    sequences.push_back(sequence);
    for (int i = 0; i < count; ++i)
      places.push_back(
          {memory.keys.data(), memory.values.data(), memory.capacity, request.kept + i});
    positions.insert(positions.end(), request.positions.begin(), request.positions.end());
    pass.rows += count;
    pass.last_rows.push_back(pass.rows - 1);
    pass.max_count = std::max(pass.max_count, count);
    pass.max_keys = std::max(pass.max_keys, rounded_keys(sequence.key_count, count));
  }
  if (requests.size() == 1 && requests.front().attention != nullptr)
    if (auto done = place_prefix(requests.front(), sequences.front(), pass); !done) return done;
  if (auto done = gather_features(requests, ids, pass); !done) return done;
  if (work_.sequences.size() < sequences.size()) graphs_.clear();
  Stream& stream = device_->stream();
  Status done = staging_.upload<int>(stream, ids, work_.ids);
  if (done) done = staging_.upload<TokenPosition>(stream, positions, work_.positions);
  if (done) done = staging_.upload<RowPlace>(stream, places, work_.row_places);
  if (done) done = staging_.upload<AttentionSequence>(stream, sequences, work_.sequences);
  pass.ids = work_.ids.data();
  pass.positions = work_.positions.data();
  pass.places = work_.row_places.data();
  pass.sequences_at = work_.sequences.data();
  pass.known = std::move(sequences);
  return done;
}

// A text sees what is before each of its tokens, an image all that is before its end: queries that
// stand behind all keys see them all.
Status CudaDecoder::place_prefix(const PassRun& request, const AttentionSequence& whole,
                                 Pass& pass) {
  std::vector<AttentionSequence> parts;
  const int64_t first = request.kept;
  const int64_t end = first + static_cast<int64_t>(request.ids.size());
  for (int64_t begin = first; begin < end;) {
    const int64_t limit = prefix_limit(request.images, begin);
    const bool is_text = limit == begin + 1;
    int64_t next = is_text ? limit : std::min(limit, end);
    while (is_text && next < end && prefix_limit(request.images, next) == next + 1) ++next;
    FOVEA_CHECK(is_text || limit <= end);
    AttentionSequence& part = parts.emplace_back(whole);
    part.q_begin = whole.q_begin + static_cast<int>(begin - first);
    part.q_count = static_cast<int>(next - begin);
    part.key_count = static_cast<int>(next);
    part.first_query = static_cast<int>(is_text ? begin : next);
    pass.prefix.max_count = std::max(pass.prefix.max_count, part.q_count);
    begin = next;
  }
  pass.prefix.attention = request.attention;
  pass.prefix.sequences = static_cast<int>(parts.size());
  return staging_.upload<AttentionSequence>(device_->stream(), parts, work_.parts);
}

AngleJob CudaDecoder::angles_of(const Pass& pass) {
  AngleJob angles;
  angles.positions = pass.positions;
  angles.count = pass.rows;
  angles.frequencies = weights_.frequencies.data();
  angles.half = config_.head_dim / 2;
  angles.row_end = 3 * config_.mrope_section[1];
  angles.col_end = 3 * config_.mrope_section[2];
  angles.cos = work_.cos.data();
  angles.sin = work_.sin.data();
  return angles;
}

void CudaDecoder::embed(const Pass& pass) {
  cudaStream_t stream = device_->stream().get();
  const RunRows rows{pass.ids, pass.rows, config_.hidden_size, work_.hidden.data()};
  embed_rows_cuda(stream, rows, weights_.embedding.weight.data(),
                  {.shorts = work_.features.data()});
  rotary_angles_cuda(stream, angles_of(pass));
}

// y = finish(W norm(hidden)), the norm within the product where rows are few.
void CudaDecoder::project(const DeviceMemory<float>& norm, const DeviceLinear& linear, int rows,
                          MatmulFinish finish, void* y) {
  cudaStream_t stream = device_->stream().get();
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  MatmulJob job = linear.times(work_.narrow.data(), rows, finish, y);
  if (matmuls_.takes_norm(job)) {
    job.x = nullptr;
    job.norm_x = work_.hidden.data();
    job.norm_weight = norm.data();
    job.norm_eps = eps;
  } else {
    NormJob first;
    first.x = work_.hidden.data();
    first.rows = rows;
    first.cols = config_.hidden_size;
    first.weight = norm.data();
    first.eps = eps;
    first.y = work_.narrow.data();
    rms_norm_cuda(stream, first);
  }
  matmuls_.run(stream, job);
}

AttentionShape CudaDecoder::shape_of(const Pass& pass, int layer) const {
  AttentionShape shape;
  shape.sequences = pass.sequences;
  shape.max_q_count = pass.max_count;
  shape.max_key_count = pass.max_keys;
  shape.heads = config_.num_heads;
  shape.kv_heads = config_.num_kv_heads;
  shape.head_dim = config_.head_dim;
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)));
  shape.causal = true;
  shape.layer = layer;
  return shape;
}

// q = rope(norm(Wq x)), k = rope(norm(Wk x)), v = Wv x; narrow = attention(q, all k, all v)
void CudaDecoder::attend(const Pass& pass, int index) {
  cudaStream_t stream = device_->stream().get();
  const DeviceDecoderLayer& layer = weights_.layers[static_cast<size_t>(index)];
  RotaryJob rotary;
  rotary.qkv = work_.wide.data();
  rotary.rows = pass.rows;
  rotary.heads = config_.num_heads;
  rotary.kv_heads = config_.num_kv_heads;
  rotary.head_dim = config_.head_dim;
  rotary.q_norm = layer.q_norm.data();
  rotary.k_norm = layer.k_norm.data();
  rotary.eps = static_cast<float>(config_.rms_norm_eps);
  rotary.cos = work_.cos.data();
  rotary.sin = work_.sin.data();
  rotary.q = work_.wide.data();
  rotary.q_stride = q_size(config_) + 2 * kv_size(config_);
  rotary.places = pass.places;
  rotary.layer = index;
  AttentionShape shape = shape_of(pass, index);
  const std::vector<int>& asked = pass.asking.layers;
  if (pass.max_count == 1 && pass.rows == pass.sequences && asked.empty() &&
      attention_step_takes(rotary)) {
    StepShape step{.rotary = rotary,
                   .scale = shape.scale,
                   .max_keys = pass.max_keys,
                   .out = work_.narrow.data()};
    if (device_->kernels() == KernelChoice::kPortable) step.split.cluster = 0;
    attention_step_cuda(stream, step, attention_);
    return;
  }
  rotate_heads_cuda(stream, rotary);
  if (std::find(asked.begin(), asked.end(), index) != asked.end())
    attention_mass_cuda(stream, asking_shape(pass, index), work_.asking.data(), work_.ranges.data(),
                        pass.asking.max_range, work_.wide.data(), rotary.q_stride, attention_);
  if (pass.prefix.attention != nullptr &&
      pass.prefix.attention->of(index, config_.num_layers).kind == AttentionKind::kPrefix) {
    shape.sequences = pass.prefix.sequences;
    shape.max_q_count = pass.prefix.max_count;
    attention_cuda(stream, shape, work_.parts.data(), work_.wide.data(), rotary.q_stride,
                   work_.narrow.data(), q_size(config_), attention_, device_->kernels());
    return;
  }
  attention_known_cuda(stream, shape, pass.known, pass.sequences_at, work_.wide.data(),
                       rotary.q_stride, work_.narrow.data(), q_size(config_), attention_,
                       device_->kernels());
}

void CudaDecoder::run_layer(const Pass& pass, int index) {
  cudaStream_t stream = device_->stream().get();
  const DeviceDecoderLayer& layer = weights_.layers[static_cast<size_t>(index)];
  float* hidden = work_.hidden.data();
  project(layer.input_norm, layer.qkv, pass.rows, MatmulFinish::kStore, work_.wide.data());
  attend(pass, index);
  matmuls_.run(stream, layer.o.times(work_.narrow.data(), pass.rows, MatmulFinish::kAdd, hidden));
  project(layer.attention_norm, layer.gate_up, pass.rows, MatmulFinish::kSiluMultiply,
          work_.wide.data());
  matmuls_.run(stream, layer.down.times(work_.wide.data(), pass.rows, MatmulFinish::kAdd, hidden));
  if (index < pass.taps)
    add_features_cuda(
        stream, {pass.ids, pass.rows, config_.hidden_size, hidden},
        {.shorts = work_.features.data() + int64_t{index + 1} * pass.visual * config_.hidden_size});
}

void CudaDecoder::run_layers(const Pass& pass, const PassOptions& options) {
  for (int i = 0; i < pass.layers; ++i) {
    run_layer(pass, i);
    if (options.on_layer) options.on_layer(i, work_.hidden.data());
  }
}

// A graph cannot hold attention that is told of its sequences when it is launched, which for 1,056
// tokens takes 17 us a layer in place of 37.
int CudaDecoder::most_graph_rows(const Pass& pass) {
  return attention_known_is_long(shape_of(pass, 0), pass.known,
                                 q_size(config_) + 2 * kv_size(config_), attention_,
                                 device_->kernels())
             ? kMostGraphRowsOfLong
             : kMostGraphRows;
}

Status CudaDecoder::run(std::span<const PassRun> requests, const PassOptions& options) {
  Pass pass;
  pass.layers = options.layers;
  int rows = 0;
  for (const PassRun& request : requests) rows += static_cast<int>(request.ids.size());
  if (auto grown = grow(rows); !grown) return grown;
  if (auto placed = place_rows(requests, pass); !placed) return placed;
  if (auto done = start_readouts(requests, options.readouts, pass); !done) return done;
  const GraphKey key{pass.rows,   pass.sequences, pass.max_count, pass.max_keys,
                     pass.visual, pass.taps,      pass.layers};
  if (options.on_layer || pass.prefix.attention != nullptr || pass.asking.sequences > 0 ||
      pass.rows > most_graph_rows(pass)) {
    embed(pass);
    run_layers(pass, options);
  } else {
    pass.known.clear();  // those of the next pass of these sizes are others
    graphs_.run(device_->stream(), key, [&] {
      embed(pass);
      run_layers(pass, options);
    });
  }
  const bool wanted = options.logits || options.all_logits || options.leave != nullptr;
  return wanted ? write_logits(pass, options) : Status(Done{});
}

}  // namespace fovea
