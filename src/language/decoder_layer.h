// SPDX-License-Identifier: Apache-2.0
// The steps of one decoder layer, on the rows (tokens) of one chunk.
#pragma once

#include <cstdint>
#include <span>

#include "language/decoder.h"
#include "language/decoder_weights.h"
#include "memory/key_values.h"
#include "ops/attention/attention.h"

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

// Room for so many rows.
void prepare_scratch(const TextConfig& config, int64_t rows, DecoderScratch& scratch);

// x = norm(hidden); q = rope(norm(Wq x)), k = rope(norm(Wk x)), v = Wv x. Keys and values are
// appended to `kv`; the queries, [rows][heads * head_dim], lie at scratch.inner.
void project(const LayerCall& call, KeyValues& kv);

// Adds what the chunk's queries among [query_begin, query_end) attend to. The chunk begins at
// `first_token` of the run, and its keys are the last of `kv`.
void read_out(const LayerCall& call, const KeyValues& kv, int64_t first_token,
              AttentionReadout& readout);

// The same for what forgetting chooses by; `missing` keys of the layer are forgotten.
void read_keys(const LayerCall& call, const KeyValues& kv, int64_t first_token, int layer,
               int64_t missing, KeyReadout& readout);

// How the rows of a sequence attend in a layer (ForwardOptions).
struct LayerAttention {
  SparseSettings settings;
  std::span<const TokenRange> images;
};
LayerAttention attention_of(const ForwardOptions& options, int layer, const TextConfig& config);

// hidden += Wo attention(q, kv).
void attend(const LayerCall& call, const KeyValues& kv, const LayerAttention& how);

// The same for decode steps: row i is the newest token of a sequence of its own, whose keys and
// values are kvs[i], and which attends as how[i] says; of one row at a time where it is read out.
void project(const LayerCall& call, std::span<KeyValues* const> kvs);
void read_out_step(const LayerCall& call, const KeyValues& kv, int64_t row,
                   AttentionReadout& readout);
void attend(const LayerCall& call, std::span<KeyValues* const> kvs,
            std::span<const LayerAttention> how);

// x = norm(hidden); hidden += Wdown (silu(Wgate x) * Wup x).
void feed_forward(const LayerCall& call);

// logits[rows][vocab_size] = Whead norm(hidden), of the rows from `first` on.
void write_logits(Threads& threads, const TextConfig& config, const DecoderWeights& weights,
                  DecoderScratch& scratch, int64_t first, int64_t rows, float* logits);

}  // namespace fovea
