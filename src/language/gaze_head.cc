// SPDX-License-Identifier: Apache-2.0
#include "language/gaze_head.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace fovea {
namespace {

Result<Matrix> take_f32(const TensorSource& source, const std::string& name, int64_t rows,
                        int64_t cols) {
  const Result<Buffer<float>> values = source.values(name);
  if (!values) return values.error();
  FOVEA_CHECK(static_cast<int64_t>(values->size()) == rows * cols);
  Matrix matrix(rows, cols, WeightFormat::kF32);
  matrix.pack_rows({WeightSource::Type::kF32, values->data()}, 0, rows);
  return matrix;
}

// Where the places of a glance lie.
struct Places {
  Grid glance;     // its cells
  Grid on_canvas;  // places that lie at least partly on the canvas
  int grid = 0;    // places a side of a cell

  // Of the keys, the one that belongs to a place.
  int64_t key(int row, int col) const {
    const int64_t token = int64_t{row / grid} * glance.cols + col / grid;
    return token * grid * grid + row % grid * grid + col % grid;
  }
};

Places places_of(const GazeConfig& config, Size canvas, int level) {
  // A place is side_px / grid wide; the division is kept out of it, as it need not be whole.
  const int64_t side_px = int64_t{kCellPx} << level;
  const auto count = [&](int canvas_px) {
    return static_cast<int>((int64_t{canvas_px} * config.grid + side_px - 1) / side_px);
  };
  return {grid_at(canvas, level), {count(canvas.height_px), count(canvas.width_px)}, config.grid};
}

// The largest of those on the canvas, so that some place always keeps a share.
float peak_of(const Buffer<float>& dots, int64_t rows, int64_t all, const Places& places) {
  float peak = -HUGE_VALF;
  for (int64_t i = 0; i < rows; ++i)
    for (int row = 0; row < places.on_canvas.rows; ++row)
      for (int col = 0; col < places.on_canvas.cols; ++col)
        peak = std::max(peak, dots[static_cast<size_t>(i * all + places.key(row, col))]);
  return peak;
}

}  // namespace

Result<GazeHead> GazeHead::build(const ModelConfig& config, const TensorSource& source) {
  FOVEA_CHECK(config.gaze.size > 0);
  GazeHead head;
  head.config_ = config.gaze;
  head.hidden_size_ = config.text.hidden_size;
  head.eps_ = static_cast<float>(config.text.rms_norm_eps);
  auto norm = source.values("gaze.norm.weight");
  if (!norm) return norm.error();
  head.norm_ = std::move(*norm);
  FOVEA_CHECK(static_cast<int64_t>(head.norm_.size()) == head.hidden_size_);
  const int64_t size = config.gaze.size;
  auto query = take_f32(source, "gaze.query.weight", size, head.hidden_size_);
  if (!query) return query.error();
  auto key = take_f32(source, "gaze.key.weight", config.gaze.places() * size, head.hidden_size_);
  if (!key) return key.error();
  head.query_ = std::move(*query);
  head.key_ = std::move(*key);
  return head;
}

size_t GazeHead::bytes() const {
  return norm_.size() * sizeof(float) + query_.bytes() + key_.bytes();
}

Buffer<float> GazeHead::project(Threads& threads, const Matrix& matrix, const float* hidden,
                                int64_t rows) const {
  Buffer<float> result(static_cast<size_t>(rows * matrix.rows()));
  if (rows == 0) return result;
  Buffer<float> normed(static_cast<size_t>(rows * hidden_size_));
  rms_norm(threads, hidden, hidden_size_, rows, 1, hidden_size_, norm_.data(), eps_, normed.data(),
           hidden_size_);
  matmul(threads, normed.data(), rows, {.weights = &matrix, .y = result.data()});
  return result;
}

Buffer<float> GazeHead::queries(Threads& threads, const float* hidden, int64_t rows) const {
  return project(threads, query_, hidden, rows);
}

Buffer<float> GazeHead::keys(Threads& threads, const float* hidden, int64_t rows) const {
  return project(threads, key_, hidden, rows);
}

GazeShares gaze_shares(Threads& threads, const GazeConfig& config, std::span<const float> queries,
                       std::span<const float> keys, Size canvas, int level) {
  const Places places = places_of(config, canvas, level);
  const int64_t all = places.glance.cells() * config.places();
  const auto rows = static_cast<int64_t>(queries.size()) / config.size;
  FOVEA_CHECK(rows > 0 && static_cast<int64_t>(queries.size()) == rows * config.size);
  FOVEA_CHECK(static_cast<int64_t>(keys.size()) == all * config.size);
  // Every query with every key: a product with the keys as weights.
  const Matrix weights =
      Matrix::in_place(all, config.size, {WeightSource::Type::kF32, keys.data()});
  Buffer<float> dots(static_cast<size_t>(rows * all));
  matmul(threads, queries.data(), rows, {.weights = &weights, .y = dots.data()});

  GazeShares shares;
  shares.grid = places.on_canvas;
  const double scale = 1 / std::sqrt(static_cast<double>(config.size));
  const float peak = peak_of(dots, rows, all, places);
  std::vector<double> sums(static_cast<size_t>(shares.grid.cells()));
  threads.for_each(shares.grid.rows, 1, [&](int64_t begin, int64_t end) {
    for (auto row = static_cast<int>(begin); row < static_cast<int>(end); ++row) {
      for (int col = 0; col < shares.grid.cols; ++col) {
        // exp(logit) over the same factor everywhere, which the softmax divides away.
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i)
          sum += std::exp(
              (double{dots[static_cast<size_t>(i * all + places.key(row, col))]} - double{peak}) *
              scale);
        sums[static_cast<size_t>(row) * shares.grid.cols + col] = sum;
      }
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  for (const double sum : sums) shares.share.push_back(static_cast<float>(sum / total));
  return shares;
}

Result<Map> gaze_map(const GazeShares& shares) {
  Map map(shares.grid);
  const auto places = static_cast<double>(shares.share.size());
  for (size_t i = 0; i < shares.share.size(); ++i) {
    const double times_even = shares.share[i] * places;
    if (!std::isfinite(times_even))
      return failed(
          "the gaze head's scores overflow; the weights of fovea.safetensors may be damaged, or "
          "try look off");
    map.score[i] = static_cast<uint16_t>(times_even / (1 + times_even) * 65535 + 0.5);
  }
  return map;
}

}  // namespace fovea
