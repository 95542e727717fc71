// Which kernels run: the best that this machine has.
#pragma once

#include <cstring>

#include "stats.h"

namespace opscope {
namespace {

const Kernels* best_kernels() {
#ifdef OPSCOPE_X86
  __builtin_cpu_init();
  // F16C is older than AVX2, and not every compiler knows its name here.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("popcnt");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return &kernels_avx512;
  }
  if (avx2) return &kernels_avx2;
#endif
  return &kernels_baseline;
}

const Kernels* kernels = best_kernels();

// Use the kernels of this name, or the best again for "". False if this machine has them not.
bool force_kernels(const char* name) {
  const Kernels* best = best_kernels();
  const Kernels* usable[] = {
      &kernels_baseline,
#ifdef OPSCOPE_X86
      best == &kernels_baseline ? &kernels_baseline : &kernels_avx2,
      best == &kernels_avx512 ? &kernels_avx512 : &kernels_baseline,
#endif
  };
  for (const Kernels* one : usable) {
    if (std::strcmp(one->name, name) == 0) {
      kernels = one;
      return true;
    }
  }
  if (std::strcmp(name, "") != 0) return false;
  kernels = best;
  return true;
}

}  // namespace
}  // namespace opscope
