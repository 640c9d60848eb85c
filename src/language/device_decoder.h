// SPDX-License-Identifier: Apache-2.0
// The decoder on a device: what a run-time library makes for Decoder.
#pragma once

#include <memory>

#include "device/accelerator.h"
#include "language/decoder.h"
#include "language/decoder_weights.h"

namespace fovea {

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
  virtual size_t bytes() const = 0;  // of its weights
};

// What each run-time library exports for it.
inline constexpr const char* kMakeDecoderSymbol = "fovea_make_decoder";
using MakeDecoder = void (*)(const std::shared_ptr<Accelerator>& device, const TextConfig& config,
                             const DecoderWeights& weights,
                             Result<std::shared_ptr<DeviceDecoder>>& result);

}  // namespace fovea
