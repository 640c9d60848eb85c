// SPDX-License-Identifier: Apache-2.0
#include <hwy/targets.h>

#include <atomic>

#include "ops/matmul_int8_cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fovea {
namespace {

std::atomic<bool> vnni_allowed = true;

// Highway's target says that the system saves the registers; what is left to know is the
// instruction itself. Read once: in a virtual machine cpuid takes microseconds.
struct Vnni {
  bool avx512 = false;
  bool avx = false;

  Vnni() {
#if defined(__x86_64__)
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return;
    avx512 = (c >> 11 & 1) != 0;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) avx = (a >> 4 & 1) != 0;
#endif
  }
};

}  // namespace

void allow_vnni_for_test(bool allow) { vnni_allowed = allow; }

Int8Form int8_form() {
  static const Vnni vnni;
  if (!vnni_allowed.load(std::memory_order_relaxed)) return Int8Form::kHighway;
  const int64_t target = highway_target();
  if (vnni.avx512 && target != 0 && target <= HWY_AVX3) return Int8Form::kAvx512Vnni;
  if (vnni.avx && target != 0 && target <= HWY_AVX2) return Int8Form::kAvxVnni;
  return Int8Form::kHighway;
}

}  // namespace fovea
