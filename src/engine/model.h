// SPDX-License-Identifier: Apache-2.0
// A loaded model: what sessions share and never change.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "base/stopwatch.h"
#include "base/threads.h"
#include "device/accelerator.h"
#include "engine/device_front_end.h"
#include "fovea/fovea.h"
#include "language/chat.h"
#include "language/decoder.h"
#include "language/gaze_head.h"
#include "language/tokenizer.h"
#include "memory/page_pool.h"
#include "memory/prefix_index.h"
#include "ops/matrix.h"
#include "vision/vision.h"
#include "weights/checkpoint.h"

namespace fovea {

// What text is read and written with.
struct Words {
  Tokenizer tokenizer;
  ChatFormat chat;
};

class Scheduler;

struct Model {
  std::unique_ptr<Threads> threads;
  std::shared_ptr<Accelerator> device;
  Checkpoint checkpoint;  // weights that are used in place lie in its files
  WeightFormat format = WeightFormat::kF32;
  Tower tower;
  Decoder decoder;
  std::shared_ptr<DeviceFrontEnd> front_end;
  std::optional<GazeHead> gaze;  // of models that have one
  bool in_place = false;         // some weights are used where they lie in the files
  // All keys and values, and which of them other sessions can use. Null where the device makes room
  // for its own.
  std::shared_ptr<PagePool> pool;
  std::unique_ptr<PrefixIndex> beginnings;

  // All requests go through it.
  std::unique_ptr<Scheduler> scheduler;

  // Work that goes on after loading, while the tower has its own: reading the vocabulary, and
  // looking at weights that were not looked at yet. Pictures need neither; no answer leaves before
  // both are done.
  std::shared_future<Result<Words>> words;
  std::shared_future<Status> checked;
  std::atomic<bool> stop = false;

  Model(std::unique_ptr<Threads> its_threads, Checkpoint its_checkpoint, WeightFormat its_format,
        Tower its_tower, Decoder its_decoder);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return checkpoint.config(); }
  int64_t weights_bytes() const {
    return static_cast<int64_t>(tower.bytes() + decoder.bytes() + (gaze ? gaze->bytes() : 0));
  }
  // For the stages of a request.
  Stopwatch stopwatch() const { return Stopwatch(device->on_stage); }
  // Whether what was computed so far was computed with the weights that were loaded: files that are
  // used in place are unchanged. Asked after computing, before a result leaves; 2 us a file.
  Status intact() const { return in_place ? checkpoint.intact() : Status(Done{}); }
  // Whether the weights are what they should be: finite, and intact.
  Status sound() const;
};

// What Engine::load does.
Result<std::shared_ptr<const Model>> load_model(const std::string& folder,
                                                const LoadOptions& options);

Session session_of(std::shared_ptr<const Model> model);

}  // namespace fovea
