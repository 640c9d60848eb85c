// SPDX-License-Identifier: Apache-2.0
#include "relevance/relevance.h"

#include "bench/bench.h"
#include "relevance/balance.h"
#include "relevance/detail.h"
#include "relevance/information.h"
#include "relevance/salience.h"
#include "relevance/test_images.h"

namespace fovea {
namespace {

// As many edges as photographs have: the sweeps of the figure take as long.
Image busy_image(Size size) { return scene_image(size, 1, 300); }

void add_row(Bench& bench, const std::string& name, bool verified,
             const std::function<void()>& body) {
  BenchRow row;
  row.name = "relevance/" + name;
  row.unit = "ms";
  if (verified) row.value = Bench::median_ms(body);
  bench.add(verified, std::move(row));
}

bool same_balance(Threads& threads, const Relevance& parts) {
  Relevance plain = parts;
  balance_reference({}, plain);
  Relevance fast = parts;
  balance(threads, {}, fast);
  for (size_t i = 0; i < plain.relevance.score.size(); ++i)
    // The formulas are rounded in another order; a half may fall the other way.
    if (std::abs(plain.relevance.score[i] - fast.relevance.score[i]) > 1) return false;
  return true;
}

void bench_photo(Bench& bench) {
  Threads& threads = bench.threads;
  const Pyramid pyramid = build_pyramid(threads, busy_image({800, 608}));  // the canvas of 800x600
  const bool same =
      measure_salience(threads, pyramid).score == measure_salience_reference(pyramid).score;
  add_row(bench, "800x600/salience", same, [&] { measure_salience(threads, pyramid); });
}

void bench_square(Bench& bench) {
  Threads& threads = bench.threads;
  const Pyramid pyramid = build_pyramid(threads, busy_image({1024, 1024}));
  const LevelView level = pyramid.level(0);
  const std::string size = "1024x1024/";

  const bool same_information =
      measure_information(threads, level).score == measure_information_reference(level).score;
  add_row(bench, size + "information", same_information,
          [&] { measure_information(threads, level); });

  const bool same_salience =
      measure_salience(threads, pyramid).score == measure_salience_reference(pyramid).score;
  add_row(bench, size + "salience", same_salience, [&] { measure_salience(threads, pyramid); });

  const bool same_detail =
      measure_detail(threads, pyramid).lost == measure_detail_reference(pyramid).lost;
  add_row(bench, size + "detail", same_detail, [&] { measure_detail(threads, pyramid); });

  Relevance parts = measure_relevance(threads, pyramid, nullptr);
  const bool right_balance = same_balance(threads, parts);
  add_row(bench, size + "balance", right_balance, [&] { balance(threads, {}, parts); });

  add_row(bench, size + "all", same_information && same_salience && same_detail && right_balance,
          [&] {
            measure_relevance(threads, pyramid, nullptr);
            measure_detail(threads, pyramid);
          });
}

const BenchRegistration kPhoto("front-end", "relevance/800x600", bench_photo);
const BenchRegistration kSquare("front-end", "relevance/1024x1024", bench_square);

}  // namespace
}  // namespace fovea
