// SPDX-License-Identifier: Apache-2.0
// Memory for one message to the server's thread, or for one wait, that is there before it is
// needed: what must get through where no memory is left gives Asio this.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace fovea::serve {

// For one at a time. Asio gives it back before it calls the handler.
struct HttpSlot {
  alignas(std::max_align_t) std::array<std::byte, 256> bytes;
};

// What a handler's get_allocator() returns, as HttpSlotAllocator<void>.
template <class T>
struct HttpSlotAllocator {
  using value_type = T;
  HttpSlot* slot;

  explicit HttpSlotAllocator(HttpSlot* its_slot) : slot(its_slot) {}
  template <class Other>
  HttpSlotAllocator(const HttpSlotAllocator<Other>& other)
      : slot(other.slot) {}  // NOLINT: implicit
  T* allocate(size_t count) {
    if (count * sizeof(T) > sizeof(HttpSlot)) throw std::bad_alloc();
    return static_cast<T*>(static_cast<void*>(slot->bytes.data()));
  }
  void deallocate(T*, size_t) {}
  template <class Other>
  bool operator==(const HttpSlotAllocator<Other>& other) const {
    return slot == other.slot;
  }
};

}  // namespace fovea::serve
