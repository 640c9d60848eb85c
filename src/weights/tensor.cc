// SPDX-License-Identifier: Apache-2.0
#include "weights/tensor.h"

#include <algorithm>

#include "base/check.h"

namespace fovea {
namespace {

struct Kind {
  std::string_view name;
  int bits;
};

// In the order of DType.
constexpr std::array<Kind, 20> kKinds = {
    {{"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F64", 64},    {"I64", 64},
     {"I32", 32},    {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32},
     {"U16", 16},    {"U8", 8},      {"BOOL", 8},    {"C64", 64},    {"F8_E4M3", 8},
     {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}}};

}  // namespace

std::optional<DType> dtype_named(std::string_view name) {
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(),
                                         [&](const Kind& kind) { return kind.name == name; });
  if (found == kKinds.end()) return std::nullopt;
  return static_cast<DType>(found - kKinds.begin());
}

std::string_view dtype_name(DType dtype) { return kKinds[static_cast<size_t>(dtype)].name; }
int dtype_bits(DType dtype) { return kKinds[static_cast<size_t>(dtype)].bits; }

Shape::Shape(std::initializer_list<int64_t> sizes) : rank(static_cast<int>(sizes.size())) {
  FOVEA_CHECK(rank <= kMaxRank);
  std::copy(sizes.begin(), sizes.end(), size.begin());
}

int64_t Shape::values() const {
  int64_t product = 1;
  for (int i = 0; i < rank; ++i) product *= size[static_cast<size_t>(i)];
  return product;
}

std::string Shape::text() const {
  std::string text = "[";
  for (int i = 0; i < rank; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(size[static_cast<size_t>(i)]);
  return text + "]";
}

}  // namespace fovea
