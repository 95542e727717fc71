// Two tensors of one dtype and shape, compared element by element.
#pragma once

#include <type_traits>

#include "dtypes.h"
#include "elements.h"
#include "stats.h"

namespace opscope {
namespace {

// One pair of elements. What is `scaled` is so before it is subtracted, and does not overflow.
struct Measured {
  double distance, scaled_distance, scaled_size, size;
  bool nan_a, nan_b, finite, equal;
};

template <class F>
Measured measure(F first, F second, double scale) {
  const double a = first, b = second, size = __builtin_fabs(b);
  const bool equal = a == b, finite = (__builtin_fabs(a) < kInf) & (size < kInf);
  const double distance = equal ? 0.0 : __builtin_fabs(a - b);
  return {distance, __builtin_fabs(a * scale - b * scale), size * scale, size,
          a != a,   b != b,                                finite,       equal};
}

// 64-bit integers: the difference is exact before it is rounded to float64.
template <class T>
Measured measure_integers(T a, T b) {
  const uint64_t first = static_cast<uint64_t>(a), second = static_cast<uint64_t>(b);
  const double distance = static_cast<double>(a < b ? second - first : first - second);
  const double size = static_cast<double>(b < 0 ? 0 - second : second);
  return {distance, distance, size, size, false, false, true, a == b};
}

Measured measure(int64_t a, int64_t b, double) { return measure_integers(a, b); }
Measured measure(uint64_t a, uint64_t b, double) { return measure_integers(a, b); }

Measured measure(Parts<double> first, Parts<double> second, double scale) {
  const double a = modulus(first.real, first.imaginary);
  const double b = modulus(second.real, second.imaginary);
  const double real = first.real * scale - second.real * scale;
  const double imaginary = first.imaginary * scale - second.imaginary * scale;
  const bool equal = first.real == second.real && first.imaginary == second.imaginary;
  const bool nan = a != a || b != b, finite = a < kInf && b < kInf;
  // An element with an infinite part is at infinity, in whatever direction.
  double distance = modulus(first.real - second.real, first.imaginary - second.imaginary);
  if (!finite && !nan) distance = kInf;
  if (equal) distance = 0;
  return {distance, modulus(real, imaginary), b * scale, b, a != a, b != b, finite, equal};
}

// What pairs are compared as: elements, but both parts of complex numbers.
template <class Type>
struct Compared : Type {};

template <class Real>
struct Compared<Complex<Real>> {
  using Stored = typename Complex<Real>::Stored;
  using Element = Parts<double>;
  static Element get(Stored v) { return {Real::get(v.real), Real::get(v.imaginary)}; }
};

template <class Element>
void fold_pair_block(const Element* a, const Element* b, int64_t count, const PairJob& job,
                     PairPartial& into) {
  double distance = 0, size = 0, largest = into.largest;
  int64_t finite = 0, outside = 0, nan_a = 0, nan_b = 0;
  const double rtol = job.rtol, atol = job.atol, scale = job.scale;
  const bool equal_nan = job.equal_nan;
#pragma omp simd reduction(+ : distance, size, finite, outside, nan_a, nan_b) \
    reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    const Measured m = measure(load(a + i), load(b + i), scale);
    distance += m.finite ? m.scaled_distance : 0.0;
    size += m.finite ? m.scaled_size : 0.0;
    largest = m.distance > largest ? m.distance : largest;
    const bool near = m.finite & (m.distance <= atol + rtol * m.size);
    outside += !(near | m.equal | (equal_nan & m.nan_a & m.nan_b));
    finite += m.finite;
    nan_a += m.nan_a;
    nan_b += m.nan_b;
  }
  add(into.distance, distance);
  add(into.size, size);
  into.largest = largest;
  into.finite += finite;
  into.outside += outside;
  into.nan_a += nan_a;
  into.nan_b += nan_b;
}

template <class Type>
void fold_pairs(const PairJob& job, int64_t begin, int64_t end, PairPartial& into) {
  using Stored = typename Type::Stored;
  using Element = typename Compared<Type>::Element;
  constexpr int64_t size = 512;
  Cursor cursor(*job.layout, begin);
  while (begin < end) {
    const int64_t count = least(least(end - begin, size), cursor.left_in_run());
    Element copies[2][size];
    const Element* from[2] = {copies[0], copies[1]};
    for (int tensor = 0; tensor < 2; ++tensor) {
      const auto* data = static_cast<const Stored*>(job.data[tensor]) + cursor.offset(tensor);
      if constexpr (std::is_same_v<Stored, Element>) {
        if (cursor.stride(tensor) == 1) {
          from[tensor] = data;
          continue;
        }
      }
      convert<Compared<Type>>(data, cursor.stride(tensor), count, copies[tensor]);
    }
    fold_pair_block(from[0], from[1], count, job, into);
    cursor.advance(count);
    begin += count;
  }
}

}  // namespace
}  // namespace opscope
