// SPDX-License-Identifier: Apache-2.0
#include "pictures.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <utility>

#include "errors.h"
#include "lock.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

using Pixels = nb::ndarray<nb::ro>;

std::string shape_text(const Pixels& pixels) {
  std::string text;
  for (size_t i = 0; i < pixels.ndim(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(pixels.shape(i));
  return "[" + text + "]";
}

// "float32", as numpy and torch call it.
std::string type_text(nb::dlpack::dtype type) {
  constexpr std::pair<nb::dlpack::dtype_code, const char*> kNames[] = {
      {nb::dlpack::dtype_code::Int, "int"},     {nb::dlpack::dtype_code::UInt, "uint"},
      {nb::dlpack::dtype_code::Float, "float"}, {nb::dlpack::dtype_code::Bfloat, "bfloat"},
      {nb::dlpack::dtype_code::Bool, "bool"},   {nb::dlpack::dtype_code::Complex, "complex"}};
  for (const auto& [code, name] : kNames)
    if (type.code == static_cast<uint8_t>(code)) return name + std::to_string(type.bits);
  return "another type";
}

void check_pixels(const Pixels& pixels) {
  if (pixels.device_type() != nb::device::cpu::value &&
      pixels.device_type() != nb::device::cuda_host::value)
    raise(bad_input("a picture's array lies on a device; copy it to the CPU, as in tensor.cpu()"));
  if (pixels.dtype() != nb::dtype<uint8_t>())
    raise(bad_input("a picture's array has the type " + type_text(pixels.dtype()) +
                    ", not uint8; values of 0..1 become (array * 255).round().astype(\"uint8\")"));
  if (pixels.ndim() != 3 || pixels.shape(2) != 3)
    raise(bad_input("a picture's array has the shape " + shape_text(pixels) +
                    ", not [height, width, 3]; a file's bytes are given as bytes"));
  constexpr size_t kMostSide = 1 << 30;
  if (pixels.shape(0) > kMostSide || pixels.shape(1) > kMostSide)
    raise(bad_input("a picture's array has the shape " + shape_text(pixels) +
                    ", which is too large"));
}

// Any strides, negative ones too.
Image copy_pixels(const Pixels& pixels) {
  const Size size{static_cast<int>(pixels.shape(1)), static_cast<int>(pixels.shape(0))};
  const auto* const from = static_cast<const uint8_t*>(pixels.data());
  const int64_t down = pixels.stride(0);
  const int64_t right = pixels.stride(1);
  const int64_t deep = pixels.stride(2);
  const int width = size.width_px;
  if (deep == 1 && right == 3 && down == int64_t{3} * width) {  // most are; written once
    Image image;
    image.size = size;
    image.rgb.assign(from, from + size.pixels() * 3);
    return image;
  }
  Image image(size);
  for (int y = 0; y < image.size.height_px; ++y) {
    const uint8_t* source = from + y * down;
    uint8_t* target = image.row(y);
    if (right == 3 && deep == 1) {
      std::memcpy(target, source, static_cast<size_t>(width) * 3);
      continue;
    }
    for (int x = 0; x < width; ++x, source += right, target += 3)
      for (int channel = 0; channel < 3; ++channel) target[channel] = source[channel * deep];
  }
  return image;
}

bool is_pil_image(nb::handle object) {
  // Whoever has such an image has loaded the module.
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object pil = modules.attr("get")("PIL.Image");
  return !pil.is_none() && nb::isinstance(object, pil.attr("Image"));
}

Image pil_pixels(nb::handle object) {
  const nb::object rgb = object.attr("convert")("RGB");
  const auto [width, height] =
      std::pair(nb::cast<int>(rgb.attr("width")), nb::cast<int>(rgb.attr("height")));
  Image image(Size{width, height});
  const nb::bytes bytes = nb::cast<nb::bytes>(rgb.attr("tobytes")());
  if (bytes.size() != image.rgb.size()) raise(bad_input("a PIL image gave too few bytes"));
  if (!image.rgb.empty()) std::memcpy(image.rgb.data(), bytes.data(), image.rgb.size());
  return image;
}

// bytes, bytearray, and a memoryview of either.
PictureBytes file_bytes(nb::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_CONTIG_RO) != 0) throw nb::python_error();
  const auto* const bytes = static_cast<const uint8_t*>(view.buf);
  PictureBytes copy(bytes, bytes + view.len);
  PyBuffer_Release(&view);
  return copy;
}

bool is_bytes(nb::handle object) {
  if (PyBytes_Check(object.ptr()) || PyByteArray_Check(object.ptr())) return true;
  return PyMemoryView_Check(object.ptr()) && nb::cast<int>(object.attr("ndim")) == 1 &&
         nb::cast<int>(object.attr("itemsize")) == 1;
}

// A tensor of a device, copied by whoever made it: torch's cpu() waits for the stream that its
// caller works on. All else stays as it is.
nb::object on_the_cpu(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack_device__") || !nb::hasattr(object, "cpu"))
    return nb::borrow(object);
  const auto [type, number] = nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
  const bool readable = type == nb::device::cpu::value || type == nb::device::cuda_host::value;
  return readable ? nb::borrow(object) : object.attr("cpu")();
}

}  // namespace

Picture picture_of(nb::handle object) {
  refuse_at_end();
  if (PyUnicode_Check(object.ptr()) || nb::hasattr(object, "__fspath__")) {
    const nb::object path = nb::module_::import_("os").attr("fsencode")(object);
    const auto bytes = nb::cast<nb::bytes>(path);
    return PicturePath{std::string(static_cast<const char*>(bytes.data()), bytes.size())};
  }
  if (is_bytes(object)) return file_bytes(object);
  if (is_pil_image(object)) return pil_pixels(object);
  const nb::object array = on_the_cpu(object);
  Pixels pixels;
  if (nb::try_cast(array, pixels)) {
    check_pixels(pixels);
    const Released released;
    return copy_pixels(pixels);
  }
  raise_type(
      "a picture is a path, the bytes of a file, a PIL image, or a uint8 array of the shape "
      "[height, width, 3], not " +
      nb::cast<std::string>(object.type().attr("__name__")));
}

Result<Image> load(Picture picture, int64_t max_pixels) {
  if (auto* path = std::get_if<PicturePath>(&picture)) return load_image(path->path, max_pixels);
  if (auto* bytes = std::get_if<PictureBytes>(&picture)) return load_image(*bytes, max_pixels);
  return std::move(std::get<Image>(picture));
}

Status add_to(Session& session, Picture picture, int64_t max_pixels) {
  if (auto* path = std::get_if<PicturePath>(&picture)) return session.add(path->path, max_pixels);
  if (auto* bytes = std::get_if<PictureBytes>(&picture)) return session.add(*bytes, max_pixels);
  return session.add(std::move(std::get<Image>(picture)), max_pixels);
}

}  // namespace fovea::python
