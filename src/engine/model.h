// SPDX-License-Identifier: Apache-2.0
// A loaded model: what sessions share and never change.
#pragma once

#include <memory>
#include <string>

#include "base/threads.h"
#include "fovea/fovea.h"
#include "language/chat.h"
#include "language/decoder.h"
#include "language/tokenizer.h"
#include "ops/matrix.h"
#include "vision/vision.h"
#include "weights/checkpoint.h"

namespace fovea {

struct Model {
  std::unique_ptr<Threads> threads;
  Checkpoint checkpoint;  // weights that are used in place lie in its files
  WeightFormat format = WeightFormat::kF32;
  Tower tower;
  Decoder decoder;
  Tokenizer tokenizer;
  ChatFormat chat;

  const ModelConfig& config() const { return checkpoint.config(); }
  int64_t weights_bytes() const {
    return static_cast<int64_t>(tower.bytes()) + static_cast<int64_t>(decoder.bytes());
  }
};

// What Engine::load does.
Result<std::shared_ptr<const Model>> load_model(const std::string& folder,
                                                const LoadOptions& options);

Session session_of(std::shared_ptr<const Model> model);

}  // namespace fovea
