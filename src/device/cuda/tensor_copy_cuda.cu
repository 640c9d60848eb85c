// SPDX-License-Identifier: Apache-2.0
#if !defined(FOVEA_EMULATE)

#include "device/cuda/tensor_copy.h"

#include "device/cuda/stream.h"

namespace fovea {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function: the library is not linked with the driver.
Encode find_encode() {
  constexpr unsigned kSince = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince,
                                       cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess)
    return nullptr;
  return reinterpret_cast<Encode>(function);
}

}  // namespace

Result<TensorMap> tensor_map(const TensorBox& from) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return failed("the driver knows no tensor maps");
  const auto bytes = static_cast<cuuint64_t>(from.value_bytes);
  const cuuint64_t row_bytes = from.box[0] * bytes;
  const cuuint64_t size[] = {from.size[0], from.size[1], from.size[2]};
  const cuuint64_t stride[] = {from.stride[0] * bytes, from.stride[1] * bytes};
  const cuuint32_t box[] = {from.box[0], from.box[1], from.box[2]};
  const cuuint32_t each[] = {1, 1, 1};
  TensorMap map{};
  const CUresult made =
      encode(&map, bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
             const_cast<void*>(from.data), size, stride, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
             row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
             : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                               : CU_TENSOR_MAP_SWIZZLE_32B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS)
    return failed("the driver made no tensor map: error " + std::to_string(made));
  return map;
}

}  // namespace fovea

#endif
