// SPDX-License-Identifier: Apache-2.0
// Large memory: a buffer that is not filled with zeros first, and large pages where they help.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace fovea {

// Asks the system to back memory that was not touched yet with large pages, where it has some: a
// first touch of ordinary pages costs more than writing them. Memory too small for that is left
// alone.
void prefer_large_pages(void* data, size_t bytes);

// Values that the owner writes before reading, aligned to a cache line.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(size_t count) : size_(count) {
    if (count == 0) return;
    // malloc alone, since the memory of an earlier buffer of this size comes back from it without
    // being handed to the system and touched anew; aligned_alloc asks the system every time.
    size_t space = count * sizeof(T) + kCacheLine;
    memory_.reset(std::malloc(space));
    if (memory_ == nullptr) throw std::bad_alloc();  // as a vector would
    prefer_large_pages(memory_.get(), space);
    void* aligned = memory_.get();
    data_ = static_cast<T*>(std::align(kCacheLine, count * sizeof(T), aligned, space));
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

  void swap(Buffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

 private:
  static constexpr size_t kCacheLine = 64;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::unique_ptr<void, Free> memory_;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fovea
