// SPDX-License-Identifier: Apache-2.0
// Work on a thread of its own, or where it is waited for when no thread can be started.
#pragma once

#include <future>
#include <system_error>
#include <utility>

namespace fovea {

// What `work` throws is thrown by get().
template <class Work>
auto start_async(Work work) -> std::future<decltype(work())> {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {  // no room for another stack, or a limit of the system
    return std::async(std::launch::deferred, std::move(work));
  }
}

}  // namespace fovea
