// SPDX-License-Identifier: Apache-2.0
#include "pyramid/texture_cuda.h"

#if !defined(FOVEA_EMULATE)

#include "base/check.h"
#include "device/cuda/kernel.h"
#include "pyramid/halve_cuda.h"

namespace fovea {
namespace {

constexpr unsigned kThreadsX = 32;
constexpr unsigned kThreadsY = 8;

Size halved(Size size, int level) {
  return {side_at(size.width_px, level), side_at(size.height_px, level)};
}

LaunchShape for_pixels(Size size, int images, cudaStream_t stream) {
  return {.grid = dim3(ceil_div(static_cast<unsigned>(size.width_px), kThreadsX),
                       ceil_div(static_cast<unsigned>(size.height_px), kThreadsY),
                       static_cast<unsigned>(images)),
          .block = dim3(kThreadsX, kThreadsY),
          .stream = stream};
}

// texture[y][x] = level[min(y, last)][min(x, last)]; a thread for each pixel of the array.
__global__ void fill_level(const uint8_t* rgb, int64_t stride_bytes, int64_t image_bytes, Size size,
                           Size padded, cudaSurfaceObject_t writer) {
  const auto x = static_cast<int>(blockIdx.x * kThreadsX + threadIdx.x);
  const auto y = static_cast<int>(blockIdx.y * kThreadsY + threadIdx.y);
  const auto image = static_cast<int>(blockIdx.z);
  if (x >= padded.width_px || y >= padded.height_px) return;
  const uint8_t* from = rgb + image * image_bytes + min(y, size.height_px - 1) * stride_bytes +
                        3 * min(x, size.width_px - 1);
  const uchar4 pixel = make_uchar4(from[0], from[1], from[2], 255);
  surf2DLayeredwrite(pixel, writer, x * static_cast<int>(sizeof pixel), y, image);
}

__device__ unsigned char to_byte(float value) {
  return static_cast<unsigned char>(value * 255.0f + 0.5f);
}

// One fetch at the corner that four pixels of the level before share is their mean. What lies
// beyond the edge of the level is made as its last pixels are.
__global__ void halve_level(cudaTextureObject_t sampler, int level, Size size, Size padded,
                            cudaSurfaceObject_t writer) {
  const auto x = static_cast<int>(blockIdx.x * kThreadsX + threadIdx.x);
  const auto y = static_cast<int>(blockIdx.y * kThreadsY + threadIdx.y);
  const auto image = static_cast<int>(blockIdx.z);
  if (x >= padded.width_px || y >= padded.height_px) return;
  const float corner_x =
      (static_cast<float>(min(x, size.width_px - 1)) + 0.5f) / static_cast<float>(padded.width_px);
  const float corner_y = (static_cast<float>(min(y, size.height_px - 1)) + 0.5f) /
                         static_cast<float>(padded.height_px);
  const auto mean =
      tex2DLayeredLod<float4>(sampler, corner_x, corner_y, image, static_cast<float>(level - 1));
  const uchar4 pixel = make_uchar4(to_byte(mean.x), to_byte(mean.y), to_byte(mean.z), 255);
  surf2DLayeredwrite(pixel, writer, x * static_cast<int>(sizeof pixel), y, image);
}

__global__ void sample_points(cudaTextureObject_t sampler, Size padded, const SamplePoint* points,
                              int count, float* rgb) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const SamplePoint point = points[i];
  const auto value = tex2DLayeredLod<float4>(
      sampler, point.x_px / static_cast<float>(padded.width_px),
      point.y_px / static_cast<float>(padded.height_px), point.image, point.level);
  rgb[3 * i] = 255.0f * value.x;
  rgb[3 * i + 1] = 255.0f * value.y;
  rgb[3 * i + 2] = 255.0f * value.z;
}

}  // namespace

Status PyramidTexture::make(Size canvas, int images, int levels) {
  FOVEA_CHECK(canvas.width_px >= kCellPx && canvas.width_px % kCellPx == 0);
  FOVEA_CHECK(canvas.height_px >= kCellPx && canvas.height_px % kCellPx == 0);
  FOVEA_CHECK(images >= 1 && levels >= 0 && levels <= kMaxLevels);
  release();
  const int count = levels == 0 ? level_count(canvas) : levels;
  const int step = 1 << (count - 1);
  canvas_ = canvas;
  padded_ = {ceil_div(canvas.width_px, step) * step, ceil_div(canvas.height_px, step) * step};
  images_ = images;
  const cudaChannelFormatDesc rgba =
      cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
  const cudaExtent extent =
      make_cudaExtent(static_cast<size_t>(padded_.width_px), static_cast<size_t>(padded_.height_px),
                      static_cast<size_t>(images));
  const cudaError_t error =
      cudaMallocMipmappedArray(&array_, &rgba, extent, static_cast<unsigned>(count),
                               cudaArrayLayered | cudaArraySurfaceLoadStore);
  if (error != cudaSuccess) {
    cudaGetLastError();
    array_ = nullptr;
    return cuda_error("a texture of " + std::to_string(images) + " x " +
                          std::to_string(padded_.width_px) + "x" +
                          std::to_string(padded_.height_px) + " px",
                      error);
  }
  levels_ = count;
  for (int level = 0; level < count; ++level)
    if (Status made = make_level(level); !made) return made;
  return make_sampler();
}

Status PyramidTexture::make_level(int level) {
  cudaResourceDesc what{};
  what.resType = cudaResourceTypeArray;
  cudaError_t error =
      cudaGetMipmappedArrayLevel(&what.res.array.array, array_, static_cast<unsigned>(level));
  if (error == cudaSuccess) error = cudaCreateSurfaceObject(&writers_[level], &what);
  if (error == cudaSuccess) return Done{};
  cudaGetLastError();
  return cuda_error("level " + std::to_string(level) + " of a texture", error);
}

Status PyramidTexture::make_sampler() {
  cudaResourceDesc what{};
  what.resType = cudaResourceTypeMipmappedArray;
  what.res.mipmap.mipmap = array_;
  // Between pixels by weights of 8 bits, and at the edge the last ones.
  cudaTextureDesc how{};
  how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  how.readMode = cudaReadModeNormalizedFloat;
  how.normalizedCoords = 1;
  how.mipmapFilterMode = cudaFilterModeLinear;
  how.maxMipmapLevelClamp = static_cast<float>(levels_ - 1);
  const cudaError_t error = cudaCreateTextureObject(&sampler_, &what, &how, nullptr);
  if (error == cudaSuccess) return Done{};
  cudaGetLastError();
  return cuda_error("a texture", error);
}

void PyramidTexture::release() {
  if (sampler_ != 0) cudaDestroyTextureObject(sampler_);
  sampler_ = 0;
  for (int level = 0; level < kMaxLevels; ++level) {
    if (writers_[level] != 0) cudaDestroySurfaceObject(writers_[level]);
    writers_[level] = 0;
  }
  if (array_ != nullptr) cudaFreeMipmappedArray(array_);
  array_ = nullptr;
  levels_ = 0;
}

void PyramidTexture::fill(cudaStream_t stream, const DevicePyramids& pyramids, int levels) const {
  FOVEA_CHECK(pyramids.canvas == canvas_ && pyramids.images == images_);
  FOVEA_CHECK(levels <= levels_ && levels <= pyramids.levels);
  for (int level = 0; level < levels; ++level) {
    const Size padded = halved(padded_, level);
    launch(fill_level, for_pixels(padded, images_, stream), pyramids.rgb[level],
           pyramids.stride_bytes[level], pyramids.image_bytes[level], halved(canvas_, level),
           padded, writers_[level]);
  }
}

void PyramidTexture::build(cudaStream_t stream) const {
  for (int level = 1; level < levels_; ++level) {
    const Size padded = halved(padded_, level);
    launch(halve_level, for_pixels(padded, images_, stream), sampler_, level,
           halved(canvas_, level), padded, writers_[level]);
  }
}

void PyramidTexture::sample(cudaStream_t stream, const SamplePoint* points, int count,
                            float* rgb) const {
  if (count == 0) return;
  constexpr unsigned kThreads = 256;
  launch(sample_points,
         {.grid = ceil_div(static_cast<unsigned>(count), kThreads),
          .block = kThreads,
          .stream = stream},
         sampler_, padded_, points, count, rgb);
}

}  // namespace fovea

#endif
