// SPDX-License-Identifier: Apache-2.0
#include "weights/tensor_source.h"

namespace fovea {
namespace {

// Checkpoints hold no other types (Checkpoint).
WeightSource::Type source_type(DType dtype) {
  return dtype == DType::kF32   ? WeightSource::Type::kF32
         : dtype == DType::kF16 ? WeightSource::Type::kF16
                                : WeightSource::Type::kBf16;
}

WeightFormat natural_format(DType dtype) {
  return dtype == DType::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
}

enum class Memory { kInPlace, kOwn };  // where it can be, or of the matrix

Result<Matrix> take_matrix(Loader& loader, const TensorView& tensor,
                           std::optional<WeightFormat> wanted, Memory memory) {
  const int64_t rows = tensor.shape[0];
  const int64_t cols = tensor.values() / rows;
  const WeightSource source{source_type(tensor.dtype), tensor.data};
  const WeightFormat format = wanted.value_or(natural_format(tensor.dtype));
  if (memory == Memory::kInPlace && tensor.dtype != DType::kF16 &&
      format == natural_format(tensor.dtype)) {
    if (auto taken = loader.take_in_place(tensor); !taken) return taken.error();
    return Matrix::in_place(rows, cols, source);
  }
  Matrix matrix(rows, cols, format);
  const auto pack = [&](int64_t begin, int64_t end) { matrix.pack_rows(source, begin, end); };
  if (auto taken = loader.take(tensor, pack, {.rows_multiple = Matrix::kRowGroup}); !taken)
    return taken.error();
  return matrix;
}

Result<Buffer<float>> take_values(Loader& loader, const TensorView& tensor) {
  const int64_t rows = tensor.shape[0];
  const int64_t cols = tensor.values() / rows;
  Buffer<float> values(static_cast<size_t>(tensor.values()));
  const WeightSource source{source_type(tensor.dtype), tensor.data};
  const auto copy = [&](int64_t begin, int64_t end) {
    read_weights(source, begin * cols, end * cols, values.data() + begin * cols);
  };
  if (auto taken = loader.take(tensor, copy); !taken) return taken.error();
  return values;
}

template <class Find>
TensorSource source_of(Find find, Loader& loader, std::optional<WeightFormat> format,
                       Memory memory = Memory::kInPlace) {
  return {[find, &loader, format, memory](std::string_view name) {
            return take_matrix(loader, find(name), format, memory);
          },
          [find, &loader](std::string_view name) { return take_values(loader, find(name)); }};
}

}  // namespace

TensorSource vision_source(const Checkpoint& checkpoint, Loader& loader,
                           std::optional<WeightFormat> format) {
  return source_of(
      [&checkpoint](std::string_view name) {
        return checkpoint.has_extra(name) ? checkpoint.extra(name) : checkpoint.vision(name);
      },
      loader, format);
}

TensorSource text_source(const Checkpoint& checkpoint, Loader& loader,
                         std::optional<WeightFormat> format) {
  return source_of(
      [&checkpoint](std::string_view name) {
        if (name == "lm_head.weight") return checkpoint.head();
        return checkpoint.has_extra(name) ? checkpoint.extra(name) : checkpoint.text(name);
      },
      loader, format);
}

TensorSource resampler_source(const ResamplerCheckpoint& checkpoint, Loader& loader,
                              std::optional<WeightFormat> format) {
  return source_of([&checkpoint](std::string_view name) { return checkpoint.tensor(name); }, loader,
                   format, Memory::kOwn);
}

WeightFormat stored_format(const Checkpoint& checkpoint) {
  return natural_format(checkpoint.text("embed_tokens.weight").dtype);
}

}  // namespace fovea
