// SPDX-License-Identifier: Apache-2.0
// The decoder of a device: the CPU's is decoder_cpu.cc; a run-time library makes another.
#pragma once

#include <memory>
#include <span>

#include "device/accelerator.h"
#include "language/decoder.h"
#include "language/decoder_weights.h"
#include "language/sampler.h"

namespace fovea {

// What an answer begins with.
struct AnswerStart {
  SamplingOptions sampling;      // such that device_can_draw()
  std::span<const int> context;  // the prompt, for the repetition penalty
  float position = 0;            // of the answer's first token
  int64_t most_tokens = 1;       // no more are asked for
};

// The tokens of an answer, drawn and read on the device, which is one token ahead of the host.
class DeviceAnswer {
 public:
  DeviceAnswer() = default;
  DeviceAnswer(const DeviceAnswer&) = delete;
  DeviceAnswer& operator=(const DeviceAnswer&) = delete;
  virtual ~DeviceAnswer() = default;

  // The next one. All tokens before it have been read into the memory that the answer began with.
  virtual Result<SampledToken> next() = 0;
};

// Answers that a device draws by itself, from logits that stayed there.
class DeviceAnswers {
 public:
  DeviceAnswers() = default;
  DeviceAnswers(const DeviceAnswers&) = delete;
  DeviceAnswers& operator=(const DeviceAnswers&) = delete;
  virtual ~DeviceAnswers() = default;

  // The memory must outlive the answer.
  virtual Result<std::unique_ptr<DeviceAnswer>> answer(DecoderMemory& memory,
                                                       const AnswerStart& start) = 0;
  // Has the device draw a token of each of these answers in one pass, up to kMostAnswers of them:
  // what next() then gives each. What goes wrong with one, its next() says.
  static constexpr int kMostAnswers = 64;
  virtual void draw(std::span<DeviceAnswer* const> answers) = 0;
  virtual Result<double> confidence(const DecoderMemory& memory) = 0;
};

class DeviceDecoder {
 public:
  DeviceDecoder() = default;
  DeviceDecoder(const DeviceDecoder&) = delete;
  DeviceDecoder& operator=(const DeviceDecoder&) = delete;
  virtual ~DeviceDecoder() = default;

  // What Decoder::work does, for requests that it has checked and made room for logits; those that
  // are not done() are passed over. Visual tokens must be this device's. Of requests
  // whose tokens share a pass, those fail that fail alone. On the CPU the threads do it.
  virtual void work(Threads& threads, std::span<ForwardRequest> requests) = 0;
  // Null: the host draws all tokens.
  virtual DeviceAnswers* answers() = 0;
  virtual size_t bytes() const = 0;  // of its weights
  // Whether its tokens can attend to each other by this kind, and whether it reads out what each
  // query gives (KeyReadout).
  virtual bool has_kind(AttentionKind kind) const { return kind == AttentionKind::kDense; }
  virtual bool reads_keys() const { return false; }
};

// What each run-time library exports for it. The weights may be taken.
inline constexpr const char* kMakeDecoderSymbol = "fovea_make_decoder";
using MakeDecoder = void (*)(const std::shared_ptr<Accelerator>& device, const TextConfig& config,
                             DecoderWeights& weights,
                             Result<std::shared_ptr<DeviceDecoder>>& result);

// The CPU's.
void make_cpu_decoder(const std::shared_ptr<Accelerator>& device, const TextConfig& config,
                      DecoderWeights& weights, Result<std::shared_ptr<DeviceDecoder>>& result);

}  // namespace fovea
