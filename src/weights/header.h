// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: names, types, shapes and places of its tensors, all checked.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "weights/tensor.h"

namespace fovea {

// Room for kMaxTensors of 160 bytes each. (The format itself allows 100 MB; no model needs it, and
// reading it must not cost more memory than a bad file may.)
inline constexpr int64_t kMaxHeaderBytes = int64_t{32} << 20;
inline constexpr size_t kMaxTensors = 200'000;

struct HeaderTensor {
  std::string_view name;  // lies in the header's text or in FileHeader::unescaped
  DType dtype = DType::kF32;
  Shape shape;
  int64_t begin = 0;  // bytes from the end of the header
  int64_t end = 0;
};

struct FileHeader {
  std::vector<HeaderTensor> tensors;  // sorted by name
  std::deque<std::string> unescaped;  // names that had escapes

  const HeaderTensor* find(std::string_view name) const;
};

// `text` is the header without its length, `data_bytes` what follows it in the file. The result is
// valid as a whole: every name once, every type known, every tensor as long as its shape says, and
// the tensors cover the data without gap or overlap. The error says which tensor breaks what.
Result<FileHeader> parse_header(std::string_view text, int64_t data_bytes);

}  // namespace fovea
