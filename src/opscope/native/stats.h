// What the kernels (stats.cpp, compiled once per instruction set) and the C ABI (api.cpp) share.
//
// Functions here are `static`: every translation unit must have its own copy, compiled for its own
// instruction set, or the linker could pick the AVX-512 copy for a machine without it.
#pragma once

#include <cstdint>

#include "generated/dtype_numbers.h"

namespace opscope {

// Dimensions that are larger than 1; more of them have more elements than 64 bits can count.
constexpr int kMaxDims = 64;

// Elements per partial result. It does not depend on the number of threads, so neither do results.
constexpr int64_t kChunk = int64_t{1} << 18;

using Wide = __int128;

// The dimensions of a tensor that matter: larger than 1, merged where memory allows.
struct Layout {
  int64_t count;   // elements to visit
  int ndim;        // at least 1; the last dimension has the smallest step
  int64_t sizes[kMaxDims];
  int64_t strides[2][kMaxDims];  // in elements; [1] is the second tensor's
};

// A sum of float64 numbers whose rounding errors are kept beside it.
struct Sum {
  double high = 0, low = 0;
};

static inline void add(Sum& sum, double value) {
  const double total = sum.high + value;
  const double part = total - sum.high;
  sum.low += (sum.high - (total - part)) + (value - part);
  sum.high = total;
}

static inline void add(Sum& sum, const Sum& other) {
  add(sum, other.high);
  sum.low += other.low;
}

static inline double value_of(const Sum& sum) {
  // Not (inf, nan): an overflow stays an overflow.
  const double total = sum.high + sum.low;
  return total == total ? total : sum.high;
}

// What is known about a range of elements. `low` … `squares` are over finite elements.
struct Partial {
  uint64_t finite = 0, nan = 0, posinf = 0, neginf = 0, zero = 0, negative = 0, in_range = 0;
  double low = __builtin_inf(), high = -__builtin_inf();
  Wide int_low = 0, int_high = 0, int_sum = 0, int_abs = 0;  // of integer types
  Sum sum, abs, squares;
  // Mean and squared distance from it: mean = base + offset / finite. Differences from `base` are
  // small where elements are close together, so no digits are lost there.
  double base = 0;
  Sum offset, spread;
};

// Adds `count` elements whose mean is center + rest / count and whose squared distances from that
// mean sum to `spread` (Chan, Golub, LeVeque 1979).
static inline void fold_spread(Partial& into, double count, double center, double rest,
                               double spread) {
  const double before = static_cast<double>(into.finite);
  if (into.finite == 0) {
    into.base = center;
    add(into.offset, rest);
    add(into.spread, spread);
    return;
  }
  const double away = center - into.base;
  const double delta = away + (rest / count - value_of(into.offset) / before);
  add(into.spread, spread);
  add(into.spread, delta * delta * (before * count / (before + count)));
  add(into.offset, away * count);
  add(into.offset, rest);
}

struct PairPartial {
  uint64_t finite = 0, outside = 0, nan_a = 0, nan_b = 0;
  double largest = -1;  // |a-b|; below 0 while there is no pair without NaN
  Sum distance, size;   // |a-b| and |b| of pairs that are finite
};

struct RowJob {
  const void* data;
  int dtype;
  const Layout* layout;
  double scale;         // a power of two; 1 but for float64 that would overflow or vanish
  const double* range;  // {low, high} or null
};

struct PairJob {
  const void* data[2];
  int dtype;
  const Layout* layout;
  double scale;
  double rtol, atol;
  bool equal_nan;
};

struct Kernels {
  const char* name;
  // Fold elements [begin, end) of the layout; false if the dtype has no kernel.
  bool (*row)(const RowJob&, int64_t begin, int64_t end, Partial&);
  bool (*pair)(const PairJob&, int64_t begin, int64_t end, PairPartial&);
};

extern const Kernels kernels_baseline;
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;

}  // namespace opscope
