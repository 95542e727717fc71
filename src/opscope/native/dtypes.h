// How one element of each dtype becomes a float32 or float64 with the same value.
//
// Functions are in an unnamed namespace for the reason given in stats.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace opscope {
namespace {

constexpr double kInf = __builtin_inf();

// Memory of the program need not be aligned.
template <class T>
inline T load(const T* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float half_to_float(uint16_t bits) {
  // The exponent moves by a multiplication, which is right for denormals too.
  const uint32_t magnitude = bits & 0x7fff;
  const float value = bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000u : 0u;
  return bit_cast<float>(bit_cast<uint32_t>(value) | special | (bits & 0x8000u) << 16);
}

struct Float32 {
  using Stored = float;
  using Element = float;
  static Element get(Stored v) { return v; }
};

struct Float64 {
  using Stored = double;
  using Element = double;
  static Element get(Stored v) { return v; }
};

struct Float16 {
  using Stored = uint16_t;
  using Element = float;
  static Element get(Stored v) { return half_to_float(v); }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Element = float;
  static Element get(Stored v) { return bit_cast<float>(static_cast<uint32_t>(v) << 16); }
};

constexpr float power_of_two(int exponent) {
  float value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  return value;
}

// A float8 with this many exponent and mantissa bits. FNUZ: no infinity, no -0, whose bits are the
// only NaN, and a bias one higher; FN: no infinity, NaN is all ones.
template <int EXPONENT, int MANTISSA, bool FNUZ, bool FN>
struct Float8Table {
  static constexpr int kMantissa = MANTISSA, kMagnitude = 0x7f;
  static constexpr int kBias = (1 << (EXPONENT - 1)) - 1 + FNUZ;
  static constexpr float kScale = power_of_two(127 - kBias);
  // The first magnitude that is no number, and a byte that is none as a whole (-1: there is none).
  static constexpr int kFirstSpecial = FNUZ ? 0x80 : FN ? 0x7f : 0x7c, kNothing = FNUZ ? 0x80 : -1;
  float values[256];
  constexpr Float8Table() : values() {
    for (int bits = 0; bits < 256; ++bits) {
      const int exponent = (bits & 0x7f) >> MANTISSA;
      const int mantissa = bits & ((1 << MANTISSA) - 1);
      const bool ones = exponent == (1 << EXPONENT) - 1;
      float value = static_cast<float>(mantissa);
      int power = 1 - kBias - MANTISSA;
      if (exponent > 0) {
        value += static_cast<float>(1 << MANTISSA);
        power += exponent - 1;
      }
      for (; power > 0; --power) value *= 2;
      for (; power < 0; ++power) value /= 2;
      if (!FNUZ && !FN && ones) value = mantissa ? __builtin_nanf("") : __builtin_inff();
      if (FN && ones && mantissa == (1 << MANTISSA) - 1) value = __builtin_nanf("");
      if (FNUZ && bits == 0x80) value = __builtin_nanf("");
      values[bits] = bits & 0x80 ? -value : value;
    }
  }
};

struct Float8E8m0Table {  // 2^(bits - 127); 255 is NaN
  static constexpr int kMantissa = 0, kMagnitude = 0xff, kFirstSpecial = 0xff, kNothing = 0;
  static constexpr float kScale = 1;
  float values[256];
  constexpr Float8E8m0Table() : values() {
    float value = 0x1p-127f;
    for (int bits = 0; bits < 255; ++bits, value *= bits < 255 ? 2 : 1) values[bits] = value;
    values[255] = __builtin_nanf("");
  }
};

template <class Table>
struct Float8 {
  using Stored = uint8_t;
  using Element = float;
  static constexpr Table table{};
  static Element get(Stored v) { return table.values[v]; }
};

using Float8E5m2 = Float8<Float8Table<5, 2, false, false>>;
using Float8E4m3fn = Float8<Float8Table<4, 3, false, true>>;
using Float8E5m2fnuz = Float8<Float8Table<5, 2, true, false>>;
using Float8E4m3fnuz = Float8<Float8Table<4, 3, true, false>>;
using Float8E8m0fnu = Float8<Float8E8m0Table>;

// Integers of up to 16 bits are exact in float32, those of 32 bits in float64.
template <class T>
struct Integer {
  using Stored = T;
  using Element = std::conditional_t<(sizeof(T) < 4), float, double>;
  static Element get(Stored v) { return static_cast<Element>(v); }
};

struct Bool {
  using Stored = uint8_t;
  using Element = float;
  static Element get(Stored v) { return v != 0 ? 1.0f : 0.0f; }
};

template <class Part>
struct Parts {
  Part real, imaginary;
};

inline double modulus(double real, double imaginary) {
  const double squares = real * real + imaginary * imaginary;
  if (squares > 1e-280 && squares < 1e280) return __builtin_sqrt(squares);
  return std::hypot(real, imaginary);  // also for Inf beside NaN, which is Inf
}

template <class Real>
struct Complex {
  using Stored = Parts<typename Real::Stored>;
  using Element = double;
  static Element get(Stored v) { return modulus(Real::get(v.real), Real::get(v.imaginary)); }
};

template <class T>
constexpr bool kIsInteger = false;
template <class T>
constexpr bool kIsInteger<Integer<T>> = true;
template <>
constexpr bool kIsInteger<Bool> = true;

// As it is stored: 64-bit integers, which float64 does not hold.
template <class T>
struct Same {
  using Stored = T;
  using Element = T;
  static T get(T v) { return v; }
};

}  // namespace
}  // namespace opscope
