// A plain loop over a block of float32 or float64 numbers, and what any lean loop finds.
#pragma once

#include <type_traits>

#include "dtypes.h"

namespace opscope {
namespace {

inline double multiply_add(double a, double b, double c) {
#ifdef __FMA__
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// Right if all elements are finite; otherwise `squares` is not.
template <class F>
struct Block {
  double sum, abs, squares;
  F low, high;
  int64_t zero, negative;
};

// Of integers of up to 16 bits, where everything is exact.
struct ExactBlock {
  int64_t sum, abs, squares;
  int64_t low, high;
  int64_t zero, negative;
};

// A counter as wide as the elements vectorises best.
template <class F>
using Tally = std::conditional_t<sizeof(F) == 4, int32_t, int64_t>;

template <class F>
Block<F> lean(const F* x, int64_t count) {
  F low = kInf, high = -kInf;
  double sum = 0, abs = 0, squares = 0;
  Tally<F> zero = 0, negative = 0;
#pragma omp simd reduction(+ : sum, abs, squares, zero, negative) reduction(min : low) \
    reduction(max : high)
  for (int64_t i = 0; i < count; ++i) {
    const F v = load(x + i);
    const double d = v;
    sum += d;
    abs += __builtin_fabs(d);
    squares = multiply_add(d, d, squares);
    zero += v == 0;
    negative += v < 0;
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  return {sum, abs, squares, low, high, zero, negative};
}

// Up to here the sum of a block of 64-bit integers is exact in float64 as well.
constexpr int64_t kSmall = int64_t{1} << 42;

}  // namespace
}  // namespace opscope
