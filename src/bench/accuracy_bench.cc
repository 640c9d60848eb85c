// SPDX-License-Identifier: Apache-2.0
// How far bf16 and int8 move the logits of a model: `fovea bench accuracy --model DIR`. The cosine
// with the logits of f32, after every token of a prompt with a picture; each format's own tower.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bench/bench.h"
#include "engine/model.h"
#include "language/positions.h"
#include "patches/patches.h"
#include "pyramid/pyramid.h"

namespace fovea {
namespace {

constexpr int kSideCells = 5;
constexpr int kTextTokens = 71;

// Of a picture of blobs, then random text: [tokens][vocab_size].
Result<Buffer<float>> logits_of(const Bench& bench, const std::string& weights) {
  LoadOptions load;
  load.weights = weights;
  load.threads = bench.threads.size();
  const auto loaded = load_model(bench.model, load);
  if (!loaded) return loaded.error();
  const Model& model = **loaded;

  Image image({kSideCells * kCellPx, kSideCells * kCellPx});
  for (size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<uint8_t>(127 + 120 * std::sin(0.02 * static_cast<double>(i % 977)));
  const Pyramid pyramid = build_pyramid(*model.threads, std::move(image));
  Plan plan;
  for (int i = 0; i < kSideCells * kSideCells; ++i)
    plan.cells.push_back({0, i / kSideCells, i % kSideCells});
  const Patches patches = sample_patches(*model.threads, pyramid, plan);
  TowerMemory tower_memory;
  const auto visual =
      model.tower.encode(*model.threads, patches, pyramid.canvas(), tower_memory, {.keep = false});
  if (!visual) return visual.error();

  std::mt19937 random(3);
  std::vector<int> ids(static_cast<size_t>(plan.tokens() + kTextTokens));
  for (int& id : ids)
    id = static_cast<int>(random() % static_cast<uint32_t>(model.config().text.vocab_size));
  const ImageSpan image_span{4, plan.cells, {kSideCells, kSideCells}};
  const auto positions = prompt_positions(ids.size(), {&image_span, 1});
  const VisualSpan span{4, &*visual, 0, visual->count};
  DecoderMemory memory;
  ForwardOptions options;
  options.all_logits = true;
  return *model.decoder.forward(*model.threads, {ids, positions.tokens, {&span, 1}}, memory,
                                options);
}

std::vector<double> cosines(const Buffer<float>& a, const Buffer<float>& b, size_t tokens) {
  std::vector<double> result;
  const size_t width = a.size() / tokens;
  for (size_t token = 0; token < tokens; ++token) {
    double dot = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = token * width; i < (token + 1) * width; ++i) {
      dot += double{a[i]} * b[i];
      aa += double{a[i]} * a[i];
      bb += double{b[i]} * b[i];
    }
    result.push_back(dot / std::sqrt(aa * bb));
  }
  return result;
}

void bench_accuracy(Bench& bench) {
  const auto exact = logits_of(bench, "f32");
  if (!exact) {
    bench.error = exact.error();
    return;
  }
  constexpr size_t kTokens = kSideCells * kSideCells + kTextTokens;
  for (const std::string weights : {"bf16", "int8"}) {
    const auto logits = logits_of(bench, weights);
    if (!logits) {
      bench.error = logits.error();
      return;
    }
    const auto similar = cosines(*exact, *logits, kTokens);
    double sum = 0;
    for (const double cosine : similar) sum += cosine;
    const bool finite = std::isfinite(sum);
    bench.add(finite, {"cosine/" + weights + "/mean", sum / kTokens, "", {}, ""});
    bench.add(finite, {"cosine/" + weights + "/worst",
                       *std::min_element(similar.begin(), similar.end()),
                       "",
                       {},
                       ""});
  }
}

const BenchRegistration kRegistered("accuracy", "accuracy", bench_accuracy);

}  // namespace
}  // namespace fovea
