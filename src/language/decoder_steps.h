// SPDX-License-Identifier: Apache-2.0
// Decode steps on a CPU: one token of each of several sequences, all rows in one product.
#pragma once

#include <span>

#include "fovea/result.h"
#include "language/decoder.h"
#include "language/decoder_weights.h"

namespace fovea {

// Whether the request is a step, and nothing but its logits is asked for.
bool is_step(const ForwardRequest& request);

// What a request comes to that finds no memory to work in.
Error no_memory_to_decode();

// Works on steps whose memories have room for one token more. The bits of each are those it has
// alone. Batches work in the scratch of their first one's memory; what finds none has failed.
void run_steps(Threads& threads, const TextConfig& config, const DecoderWeights& weights,
               std::span<ForwardRequest* const> steps);

}  // namespace fovea
