// SPDX-License-Identifier: Apache-2.0
#include "weights/loader.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/check.h"
#include "weights/finite.h"

namespace fovea {
namespace {

// A piece and what is packed from it stay in a core's second-level cache.
constexpr int64_t kPieceBytes = 512 * 1024;
// Pages are dropped so many bytes at a time: each time every core must forget them, and reading a
// piece maps pages around it too, which a neighbour would have dropped already.
constexpr int64_t kDropBytes = int64_t{32} << 20;
// Up to here looking at all values takes a few milliseconds.
constexpr int64_t kCheckAtOnceBytes = int64_t{64} << 20;

void lower_to(std::atomic<int64_t>& least, int64_t value) {
  int64_t seen = least.load();
  while (value < seen && !least.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

Status Loader::take(const TensorView& tensor, const std::function<void(int64_t, int64_t)>& pack,
                    const Take& how) {
  FOVEA_CHECK(tensor.shape.rank >= 1 && tensor.values() > 0 && how.rows_multiple >= 1);
  const MappedFile& file = tensors_.file_of(tensor);
  const int64_t rows = tensor.shape[0];
  const int64_t row_values = tensor.values() / rows;
  const int64_t row_bytes = static_cast<int64_t>(tensor.bytes) / rows;
  const int64_t wanted = std::max<int64_t>(1, kPieceBytes / row_bytes);
  const int64_t piece_rows = std::max(wanted / how.rows_multiple, int64_t{1}) * how.rows_multiple;

  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> bad = kNone;  // the least index of a value that is not finite
  const auto bytes_of = [&](int64_t begin, int64_t end) {
    return tensor.as_bytes().subspan(static_cast<size_t>(begin * row_bytes),
                                     static_cast<size_t>((end - begin) * row_bytes));
  };
  const auto take_piece = [&](int64_t begin, int64_t end) {
    const auto bytes = bytes_of(begin, end);
    file.advise(bytes, MappedFile::Advice::kPopulate);
    const int64_t found = first_not_finite(tensor.dtype, bytes.data(), (end - begin) * row_values);
    if (found >= 0) lower_to(bad, begin * row_values + found);
    if (pack) pack(begin, end);
  };
  const int64_t drop_rows =
      std::max<int64_t>(1, kDropBytes / (piece_rows * row_bytes)) * piece_rows;
  for (int64_t first = 0; first < rows; first += drop_rows) {
    const int64_t last = std::min(rows, first + drop_rows);
    threads_.for_each(last - first, piece_rows,
                      [&](int64_t begin, int64_t end) { take_piece(first + begin, first + end); });
    if (how.drop_source) file.advise(bytes_of(first, last), MappedFile::Advice::kDontNeed);
  }
  if (Status status = file.intact(); !status) return status;
  if (bad != kNone) return not_finite(tensor, bad);
  count(tensor);
  return Done{};
}

void Loader::count(const TensorView& tensor) {
  done_bytes_ += static_cast<int64_t>(tensor.bytes);
  if (progress_) progress_(done_bytes_, source_bytes_);
}

Status Loader::take_in_place(const TensorView& tensor) {
  in_place_.push_back(tensor);
  if (source_bytes_ <= kCheckAtOnceBytes) return take(tensor, nullptr, {.drop_source = false});
  count(tensor);
  return Done{};
}

std::vector<TensorView> Loader::check_later() const {
  if (source_bytes_ <= kCheckAtOnceBytes) return {};
  return in_place_;
}

Status check_values(const Checkpoint& checkpoint, std::span<const TensorView> tensors,
                    const std::atomic<bool>& stop) {
  for (const TensorView& tensor : tensors) {
    const int64_t value_bytes = static_cast<int64_t>(tensor.bytes) / tensor.values();
    const int64_t piece = kPieceBytes / value_bytes;
    for (int64_t first = 0; first < tensor.values() && !stop; first += piece) {
      const auto* data = static_cast<const std::byte*>(tensor.data) + first * value_bytes;
      const int64_t count = std::min(piece, tensor.values() - first);
      const int64_t found = first_not_finite(tensor.dtype, data, count);
      if (found >= 0) return not_finite(tensor, first + found);
    }
  }
  return tensors.empty() ? Status(Done{}) : checkpoint.intact();
}

}  // namespace fovea
