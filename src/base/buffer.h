// SPDX-License-Identifier: Apache-2.0
// Large memory: a buffer that is not filled with zeros first, and large pages where they help.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <type_traits>

namespace fovea {

// Asks the system to back memory that was not touched yet with large pages, where it has some: a
// first touch of ordinary pages costs more than writing them. Memory too small for that is left alone.
void prefer_large_pages(void* data, size_t bytes);

// What memory for `bytes` should be aligned to: a large page where it holds some, else a cache line.
size_t buffer_alignment(size_t bytes);

// Values that the owner writes before reading, aligned for vectors and streaming stores.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(size_t count) : size_(count) {
    if (count == 0) return;
    const size_t alignment = buffer_alignment(count * sizeof(T));
    const size_t bytes = (count * sizeof(T) + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes)));
    if (data_ == nullptr) std::abort();  // as new does where exceptions do not leave the library
    prefer_large_pages(data_.get(), bytes);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };

  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace fovea
