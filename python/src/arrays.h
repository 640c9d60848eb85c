// SPDX-License-Identifier: Apache-2.0
// Memory of the engine as numpy arrays, without a copy: each keeps what it lies in.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <memory>
#include <utility>

#include "fovea/words.h"

namespace fovea::python {

// What keeps memory for arrays.
template <class T>
nanobind::capsule keeper(std::shared_ptr<T> owner) {
  return nanobind::capsule(new std::shared_ptr<T>(std::move(owner)), [](void* held) noexcept {
    delete static_cast<std::shared_ptr<T>*>(held);
  });
}

template <class T>
nanobind::object array_of(T* data, std::initializer_list<size_t> shape, nanobind::handle owner) {
  static T nothing{};  // arrays without values may have no memory
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(data != nullptr ? data : &nothing,
                                                              shape.size(), shape.begin(), owner));
}

inline nanobind::object map_array(Map& map, nanobind::handle owner) {
  return array_of(map.score.data(),
                  {static_cast<size_t>(map.grid.rows), static_cast<size_t>(map.grid.cols)}, owner);
}

inline nanobind::object cells_array(std::vector<Cell>& cells, nanobind::handle owner) {
  static_assert(sizeof(Cell) == 3 * sizeof(int));  // level, row, col
  return array_of(cells.empty() ? nullptr : &cells[0].level, {cells.size(), 3}, owner);
}

inline nanobind::object points_array(std::vector<Point>& points, nanobind::handle owner) {
  static_assert(sizeof(Point) == 2 * sizeof(double));  // x, y
  return array_of(points.empty() ? nullptr : &points[0].x_px, {points.size(), 2}, owner);
}

inline nanobind::object image_array(Image& image, nanobind::handle owner) {
  if (image.rgb.empty()) return nanobind::none();
  return array_of(
      image.rgb.data(),
      {static_cast<size_t>(image.size.height_px), static_cast<size_t>(image.size.width_px), 3},
      owner);
}

inline nanobind::tuple size_tuple(Size size) {
  return nanobind::make_tuple(size.width_px, size.height_px);
}

}  // namespace fovea::python
