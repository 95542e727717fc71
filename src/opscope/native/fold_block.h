// What one block of elements adds to the whole.
//
// A lean loop (lean.h) has done a block of finite numbers. One that holds NaN or Inf is done again
// carefully, and one whose numbers are close together is read again for its spread.
#pragma once

#include <type_traits>

#include "dtypes.h"
#include "lean.h"
#include "stats.h"

namespace opscope {
namespace {

// A block's spread is squares - sum²/n. It keeps its digits if it is at least this part of squares.
constexpr double kEnoughSpread = 1.0 / 8;

// What a block adds to the whole; all but `center` … `spread` (see fold_spread) say it themselves.
struct Moments {
  int64_t finite;
  double sum, abs, squares, low, high;
  double center, rest, spread;
};

// FINITE: all elements are, so that none has to be left out.
template <bool FINITE, class F>
void spread_around_mean(const F* x, int64_t count, Moments& found) {
  constexpr F infinity = static_cast<F>(kInf);
  const double n = static_cast<double>(found.finite);
  found.center = found.sum / n;
  // Where numbers are so close that the mean is off by more than they are apart, it is corrected by
  // what is left over.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double center = found.center;
    double rest = 0, squares = 0;
#pragma omp simd reduction(+ : rest, squares)
    for (int64_t i = 0; i < count; ++i) {
      const F v = load(x + i);
      const bool counts = FINITE || ((v < infinity) & (v > -infinity));
      const double d = counts ? static_cast<double>(v) - center : 0.0;
      rest += d;
      squares = multiply_add(d, d, squares);
    }
    const double correction = rest * rest / n;
    found.rest = rest;
    found.spread = squares > correction ? squares - correction : 0.0;
    if (correction <= squares / 2) break;
    found.center += rest / n;
    found.rest = 0;
  }
}

// The block done again where it holds NaN or Inf, or numbers whose squares overflow.
template <class F>
Moments careful(const F* x, int64_t count, Partial& into) {
  constexpr F infinity = static_cast<F>(kInf);
  Tally<F> nan = 0, posinf = 0, neginf = 0, zero = 0, negative = 0;
  F low = infinity, high = -infinity;
  double sum = 0, abs = 0, squares = 0;
#pragma omp simd reduction(+ : nan, posinf, neginf, zero, negative, sum, abs, squares) \
    reduction(min : low) reduction(max : high)
  for (int64_t i = 0; i < count; ++i) {
    const F v = load(x + i);
    nan += v != v;
    posinf += v == infinity;
    neginf += v == -infinity;
    zero += v == 0;
    negative += v < 0;
    const bool counts = (v < infinity) & (v > -infinity);
    const double d = counts ? static_cast<double>(v) : 0.0;
    sum += d;
    abs += __builtin_fabs(d);
    squares = multiply_add(d, d, squares);
    const F below = counts ? v : infinity, above = counts ? v : -infinity;
    low = below < low ? below : low;
    high = above > high ? above : high;
  }
  into.nan += nan;
  into.posinf += posinf;
  into.neginf += neginf;
  into.zero += zero;
  into.negative += negative;
  Moments found{count - nan - posinf - neginf, sum, abs, squares, low, high, low, 0, 0};
  if (found.finite > 0 && low != high) spread_around_mean<false>(x, count, found);
  return found;
}

template <class F>
uint64_t count_in(const F* x, int64_t count, const double* range) {
  const double low = range[0], high = range[1];
  int64_t inside = 0;
#pragma omp simd reduction(+ : inside)
  for (int64_t i = 0; i < count; ++i) inside += (x[i] >= low) & (x[i] <= high);
  return static_cast<uint64_t>(inside);
}

// 64-bit integers: a long double holds every one of them, so the comparison is exact.
template <class T>
uint64_t count_long_in(const T* x, int64_t count, const double* range) {
  uint64_t inside = 0;
  for (int64_t i = 0; i < count; ++i) {
    const long double v = static_cast<long double>(load(x + i));
    inside += (v >= range[0]) & (v <= range[1]);
  }
  return inside;
}

void widen(Partial& into, Wide low, Wide high) {
  if (into.finite == 0 || low < into.int_low) into.int_low = low;
  if (into.finite == 0 || high > into.int_high) into.int_high = high;
}

// Adds what needs no integers of its own; `into.finite` comes last, the others look at it.
void fold_moments(const Moments& found, Partial& into) {
  add(into.squares, found.squares);
  fold_spread(into, static_cast<double>(found.finite), found.center, found.rest, found.spread);
  into.finite += found.finite;
}

// Adds a block; `elements()` has them as F, which is asked only where the lean loop is not enough.
template <bool INTEGER, class F, class Elements>
void fold_block(const Block<F>& block, int64_t count, Elements elements, Partial& into) {
  Moments found{count, block.sum, block.abs, block.squares, block.low, block.high, block.low, 0, 0};
  if (block.squares < kInf) {
    into.zero += block.zero;
    into.negative += block.negative;
    if (block.low != block.high) {
      found.center = block.sum / static_cast<double>(count);
      found.spread = block.squares - block.sum * found.center;
      if (!(found.spread >= block.squares * kEnoughSpread)) {
        spread_around_mean<true>(elements(), count, found);
      }
    }
  } else {
    found = careful(elements(), count, into);
    if (found.finite == 0) return;
  }
  if (INTEGER) {
    widen(into, static_cast<Wide>(found.low), static_cast<Wide>(found.high));
    into.int_sum += static_cast<int64_t>(found.sum);
    into.int_abs += static_cast<int64_t>(found.abs);
  } else {
    into.low = found.low < into.low ? found.low : into.low;
    into.high = found.high > into.high ? found.high : into.high;
    add(into.sum, found.sum);
    add(into.abs, found.abs);
  }
  fold_moments(found, into);
}

// Adds a block whose numbers are exact integers, and its spread with them.
inline void fold_exact(const ExactBlock& block, int64_t count, Partial& into) {
  const int64_t center = block.sum / count, rest = block.sum - center * count;
  // The sum of squared distances from `center`, less what the mean is off from it.
  const int64_t around = block.squares - center * (2 * block.sum - center * count);
  const double n = static_cast<double>(count), off = static_cast<double>(rest);
  const double spread = static_cast<double>(around) - off * off / n;
  widen(into, block.low, block.high);
  into.zero += block.zero;
  into.negative += block.negative;
  into.int_sum += block.sum;
  into.int_abs += block.abs;
  fold_moments({count, 0, 0, static_cast<double>(block.squares), 0, 0, static_cast<double>(center),
                off, spread > 0 ? spread : 0},
               into);
}

// ---------------------------------------------------------------------------------------------
// 64-bit integers: exact in float64 only where they are small.

template <class T>
void fold_large(const T* x, int64_t count, Partial& into) {
  Wide sum = 0, abs = 0, low = load(x), high = low;
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T stored = load(x + i);
    const Wide v = stored;
    sum += v;
    abs += v < 0 ? -v : v;
    low = v < low ? v : low;
    high = v > high ? v : high;
    into.zero += v == 0;
    into.negative += v < 0;
    squares = multiply_add(static_cast<double>(stored), static_cast<double>(stored), squares);
  }
  const Wide center = sum / count;
  double spread = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Wide v = load(x + i), away = v < center ? center - v : v - center;
    const double distance = static_cast<double>(static_cast<uint64_t>(away));
    spread = multiply_add(distance, distance, spread);
  }
  const double n = static_cast<double>(count);
  const double missed = static_cast<double>(sum - center * count);
  spread -= missed * missed / n;
  widen(into, low, high);
  into.int_sum += sum;
  into.int_abs += abs;
  // What float64 cannot hold of the centre goes to the rest.
  const double rounded = static_cast<double>(center);
  const double rest = static_cast<double>(sum - static_cast<Wide>(rounded) * count);
  fold_moments({count, 0, 0, squares, 0, 0, rounded, rest, spread > 0 ? spread : 0}, into);
}

template <class T>
bool all_small(const T* x, int64_t count) {
  // One comparison for both ends: x + 2^42 as unsigned is below 2^43.
  uint64_t seen = 0;
  const uint64_t shift = std::is_signed_v<T> ? kSmall : 0;
  for (int64_t i = 0; i < count; ++i) seen |= static_cast<uint64_t>(load(x + i)) + shift;
  return seen < static_cast<uint64_t>(kSmall) * 2;
}

// Small 64-bit integers as float64, by adding to the bits of 1.5 · 2^52.
template <class T>
struct SmallLong {
  using Stored = T;
  using Element = double;
  static double get(T v) {
    return bit_cast<double>(static_cast<uint64_t>(v) + 0x4338000000000000u) - 0x1.8p52;
  }
};

}  // namespace
}  // namespace opscope
