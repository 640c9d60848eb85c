// SPDX-License-Identifier: Apache-2.0
// The steps of one decoder layer, on the rows (tokens) of one chunk.
#pragma once

#include <cstdint>

#include "language/decoder.h"
#include "language/decoder_weights.h"
#include "ops/attention.h"
#include "ops/key_values.h"

namespace fovea {

struct LayerCall {
  Threads& threads;
  const TextConfig& config;
  const DecoderLayer& layer;
  DecoderScratch& scratch;
  int64_t rows = 0;
  // Keys and values are needed of all rows. Queries and outputs only from these rows on, where it
  // is the last layer; first_query <= first_output <= rows.
  int64_t first_query = 0;
  int64_t first_output = 0;
};

// x = norm(hidden); q = rope(norm(Wq x)), k = rope(norm(Wk x)), v = Wv x. Keys and values are
// appended to `kv`; the queries, [rows][heads * head_dim], lie at scratch.inner.
void project(const LayerCall& call, KeyValues& kv);

// Adds what the chunk's queries among [query_begin, query_end) attend to. The chunk begins at
// `first_token` of the run, and its keys are the last of `kv`.
void read_out(const LayerCall& call, const KeyValues& kv, int64_t first_token,
              AttentionReadout& readout);

// hidden += Wo attention(q, kv).
void attend(const LayerCall& call, const KeyValues& kv);

// x = norm(hidden); hidden += Wdown (silu(Wgate x) * Wup x).
void feed_forward(const LayerCall& call);

}  // namespace fovea
