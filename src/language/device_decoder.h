// SPDX-License-Identifier: Apache-2.0
// The decoder on a device: what a run-time library makes for Decoder.
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
  SamplingOptions sampling;      // without most_likely: the device reports none
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

  // The next one. All tokens before it have been read into `memory`, the one the answer began with.
  virtual Result<SampledToken> next(DecoderMemory& memory) = 0;
};

class DeviceDecoder {
 public:
  DeviceDecoder() = default;
  DeviceDecoder(const DeviceDecoder&) = delete;
  DeviceDecoder& operator=(const DeviceDecoder&) = delete;
  virtual ~DeviceDecoder() = default;

  // Adds a run to the memory, as Decoder::decode and read do; `logits` is null where none are
  // asked for. Visual tokens must be this device's. DecodeOptions::keep_going is asked between
  // chunks; false where it ended the work.
  virtual Result<bool> work(const TokenRun& run, DecoderMemory& memory,
                            const DecodeOptions& options, Buffer<float>* logits) = 0;
  virtual Result<std::unique_ptr<DeviceAnswer>> answer(const DecoderMemory& memory,
                                                       const AnswerStart& start) = 0;
  virtual Result<double> confidence(const DecoderMemory& memory) = 0;
  virtual size_t bytes() const = 0;  // of its weights
};

// What each run-time library exports for it.
inline constexpr const char* kMakeDecoderSymbol = "fovea_make_decoder";
using MakeDecoder = void (*)(const std::shared_ptr<Accelerator>& device, const TextConfig& config,
                             const DecoderWeights& weights,
                             Result<std::shared_ptr<DeviceDecoder>>& result);

}  // namespace fovea
