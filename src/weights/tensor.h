// SPDX-License-Identifier: Apache-2.0
// A tensor of a checkpoint, where it lies in the mapped file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// Every element type that safetensors names. Models are read from the first three.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kC64,
  kF8E4m3,
  kF8E5m2,
  kF8E8m0,
  kF6E2m3,
  kF6E3m2,
  kF4
};

std::optional<DType> dtype_named(std::string_view name);  // "BF16"
std::string_view dtype_name(DType dtype);
int dtype_bits(DType dtype);

inline constexpr int kMaxRank = 8;

struct Shape {
  int rank = 0;
  std::array<int64_t, kMaxRank> size{};

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes);
  int64_t operator[](int i) const { return size[static_cast<size_t>(i)]; }
  int64_t values() const;    // 1 for rank 0; the product must fit, as it does for a checked tensor
  std::string text() const;  // "[1024, 3, 2, 16, 16]"
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct TensorView {
  std::string_view name;  // as the file has it; lives as long as the file
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;  // [shape], row-major; aligned to an element, no more
  size_t bytes = 0;

  int64_t values() const { return shape.values(); }
  std::span<const std::byte> as_bytes() const {
    return {static_cast<const std::byte*>(data), bytes};
  }
};

}  // namespace fovea
