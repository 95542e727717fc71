// The statistics kernels. Compiled once per instruction set, with OPSCOPE_VARIANT naming it.
//
// Elements are taken in blocks that stay in the first-level cache. A lean loop handles a block of
// finite numbers. One that holds NaN or Inf is done again carefully, and one whose numbers are close
// together is read again for its spread. Blocks are added up without rounding errors (`Sum`).
#include "stats.h"

#include <cmath>
#include <cstring>
#include <type_traits>
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define OPSCOPE_LANES
#include "lanes.h"
#endif

#ifndef OPSCOPE_VARIANT
#define OPSCOPE_VARIANT baseline
#endif

namespace opscope {
namespace {

// The more lanes there are, the fewer additions each of them sees: at most 512 per block.
#ifdef OPSCOPE_LANES
constexpr int kBlockBytes = 16384;
#else
constexpr int kBlockBytes = 8192;
#endif
constexpr double kInf = __builtin_inf();

// A block's spread is squares - sum²/n. It keeps its digits if it is at least this part of squares.
constexpr double kEnoughSpread = 1.0 / 8;

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

inline double multiply_add(double a, double b, double c) {
#ifdef __FMA__
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// ---------------------------------------------------------------------------------------------
// Dtypes: how one element becomes a float32 or float64 with the same value.

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

// A float8 with this many exponent and mantissa bits. FNUZ: no infinity, no -0, whose bits are the
// only NaN, and a bias one higher; FN: no infinity, NaN is all ones.
template <int EXPONENT, int MANTISSA, bool FNUZ, bool FN>
struct Float8Table {
  float values[256];
  constexpr Float8Table() : values() {
    const int bias = (1 << (EXPONENT - 1)) - 1 + FNUZ;
    for (int bits = 0; bits < 256; ++bits) {
      const int exponent = (bits & 0x7f) >> MANTISSA;
      const int mantissa = bits & ((1 << MANTISSA) - 1);
      const bool ones = exponent == (1 << EXPONENT) - 1;
      float value = static_cast<float>(mantissa);
      int power = 1 - bias - MANTISSA;
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

// ---------------------------------------------------------------------------------------------
// Layouts: the elements in the order of memory, a block at a time.

class Cursor {
 public:
  Cursor(const Layout& layout, int64_t begin) : layout_(layout), last_(layout.ndim - 1) {
    for (int dim = last_; dim >= 0; --dim) {
      index_[dim] = begin % layout.sizes[dim];
      begin /= layout.sizes[dim];
      offset_[0] += index_[dim] * layout.strides[0][dim];
      offset_[1] += index_[dim] * layout.strides[1][dim];
    }
  }

  int64_t offset(int tensor = 0) const { return offset_[tensor]; }
  int64_t stride(int tensor = 0) const { return layout_.strides[tensor][last_]; }
  int64_t left_in_run() const { return layout_.sizes[last_] - index_[last_]; }

  void advance(int64_t count) {  // at most left_in_run()
    move(last_, count);
    for (int dim = last_; dim > 0 && index_[dim] == layout_.sizes[dim]; --dim) {
      move(dim, -index_[dim]);
      move(dim - 1, 1);
    }
  }

 private:
  void move(int dim, int64_t count) {
    index_[dim] += count;
    offset_[0] += count * layout_.strides[0][dim];
    offset_[1] += count * layout_.strides[1][dim];
  }

  const Layout& layout_;
  int last_;
  int64_t index_[kMaxDims];
  int64_t offset_[2] = {0, 0};
};

template <class Type>
void convert(const typename Type::Stored* from, int64_t stride, int64_t count,
             typename Type::Element* to) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = Type::get(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Type::get(from[i * stride]);
  }
}

#ifdef OPSCOPE_LANES
template <>
void convert<Float16>(const uint16_t* from, int64_t stride, int64_t count, float* to) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= count; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
    }
  }
  for (; i < count; ++i) to[i] = half_to_float(from[i * stride]);
}
#endif

// The next `count` elements of one tensor, from several runs if the runs are short.
template <class Type>
void gather(const typename Type::Stored* data, Cursor& cursor, int64_t count,
            typename Type::Element* to) {
  while (count > 0) {
    const int64_t run = least(count, cursor.left_in_run());
    convert<Type>(data + cursor.offset(), cursor.stride(), run, to);
    cursor.advance(run);
    to += run;
    count -= run;
  }
}

inline bool is_flat(const Layout& layout) {
  return layout.ndim == 1 && layout.strides[0][0] == 1;
}

// ---------------------------------------------------------------------------------------------
// One block.

template <class F>
struct Block {
  double sum, abs, squares;
  F low, high;
  int64_t zero, negative;
};

// A counter as wide as the elements vectorises best.
template <class F>
using Tally = std::conditional_t<sizeof(F) == 4, int32_t, int64_t>;

// Right if all elements are finite; otherwise `squares` is not.
template <class F>
Block<F> lean(const F* x, int64_t count) {
  F low = kInf, high = -kInf;
  double sum = 0, abs = 0, squares = 0;
  Tally<F> zero = 0, negative = 0;
#pragma omp simd reduction(+ : sum, abs, squares, zero, negative) reduction(min : low) \
    reduction(max : high)
  for (int64_t i = 0; i < count; ++i) {
    const F v = x[i];
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

#ifdef OPSCOPE_LANES

// The three sums, in twice as many float64 lanes as a vector has.
struct Sums {
  Lanes::Doubles sum[2], negatives[2], squares[2];

  Sums() {
    sum[0] = sum[1] = negatives[0] = negatives[1] = squares[0] = squares[1] = Lanes::zero();
  }

  template <int WHICH>
  void take(Lanes::Doubles v, unsigned negative) {
    sum[WHICH] = Lanes::multiply_add(v, Lanes::ones(), sum[WHICH]);
    negatives[WHICH] = Lanes::add_negative(negatives[WHICH], v, negative);
    squares[WHICH] = Lanes::multiply_add(v, v, squares[WHICH]);
  }

  static double total(const Lanes::Doubles* parts) {
    return Lanes::total(Lanes::add(parts[0], parts[1]));
  }

  void add_to(Block<float>& block) const {
    const double all = total(sum);
    block.sum += all;
    block.abs += all - 2 * total(negatives);
    block.squares += total(squares);
  }
};

const Block<float> kNothing{0, 0, 0, static_cast<float>(kInf), static_cast<float>(-kInf), 0, 0};

void include(Block<float>& block, float low, float high) {
  block.low = low < block.low ? low : block.low;
  block.high = high > block.high ? high : block.high;
}

Block<float> lean(const float* x, int64_t count) {
  Sums sums;
  Lanes::Floats low = Lanes::all(kInf), high = Lanes::all(-kInf);
  int64_t zero = 0, negative = 0, i = 0;
  for (; i + Lanes::kFloats <= count; i += Lanes::kFloats) {
    const Lanes::Floats v = Lanes::load(x + i);
    const unsigned below = Lanes::negatives(v);
    sums.take<0>(Lanes::widen(Lanes::load_half(x + i)), below);
    sums.take<1>(Lanes::widen(Lanes::load_half(x + i + Lanes::kFloats / 2)), below >> 8);
    low = Lanes::min(v, low);
    high = Lanes::max(v, high);
    zero += _mm_popcnt_u32(Lanes::zeros(v));
    negative += _mm_popcnt_u32(below);
  }
  Block<float> block = kNothing;
  if (i < count) block = lean<float>(x + i, count - i);
  if (i == 0) return block;
  include(block, Lanes::lowest(low), Lanes::highest(high));
  sums.add_to(block);
  block.zero += zero;
  block.negative += negative;
  return block;
}

// bfloat16 without a copy in float32; the order of the additions is not that of the elements.
Block<float> lean(const uint16_t* x, int64_t count) {
  Sums sums;
  // Bits of positive numbers are in order, those of negative ones in the reverse order and above.
  Lanes::Words largest = Lanes::all_words(INT16_MIN), above = Lanes::all_words(0);
  Lanes::Words smallest = Lanes::all_words(-1);
  int64_t zero = 0, negative = 0, i = 0;
  constexpr int kHalf = Lanes::kWords / 2;
  for (; i + Lanes::kWords <= count; i += Lanes::kWords) {
    const Lanes::Words v = Lanes::load_words(x + i);
    const Lanes::Half first = Lanes::load_half(x + i), second = Lanes::load_half(x + i + kHalf);
    unsigned signs;
    Lanes::count_words(v, zero, negative, signs);
    sums.take<0>(Lanes::widen(Lanes::even_words(first)), Lanes::even_signs(signs, 0));
    sums.take<1>(Lanes::widen(Lanes::odd_words(first)), Lanes::odd_signs(signs, 0));
    sums.take<0>(Lanes::widen(Lanes::even_words(second)), Lanes::even_signs(signs, 1));
    sums.take<1>(Lanes::widen(Lanes::odd_words(second)), Lanes::odd_signs(signs, 1));
    largest = Lanes::signed_max(v, largest);
    above = Lanes::unsigned_max(v, above);
    smallest = Lanes::unsigned_min(v, smallest);
  }
  Block<float> block = kNothing;
  if (i < count) {
    float rest[Lanes::kWords];
    convert<Bfloat16>(x + i, 1, count - i, rest);
    block = lean<float>(rest, count - i);
  }
  if (i == 0) return block;
  uint16_t lanes[3][Lanes::kWords];
  std::memcpy(lanes[0], &largest, sizeof largest);
  std::memcpy(lanes[1], &above, sizeof above);
  std::memcpy(lanes[2], &smallest, sizeof smallest);
  for (int lane = 0; lane < Lanes::kWords; ++lane) {
    const bool any_positive = lanes[0][lane] < 0x8000, any_negative = lanes[1][lane] >= 0x8000;
    include(block, Bfloat16::get(any_negative ? lanes[1][lane] : lanes[2][lane]),
            Bfloat16::get(any_positive ? lanes[0][lane] : lanes[2][lane]));
  }
  sums.add_to(block);
  block.zero += zero;
  block.negative += negative;
  return block;
}

#endif

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
      const F v = x[i];
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
    const F v = x[i];
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
void fold_block(const Block<F>& block, int64_t count, Elements elements, const double* range,
                Partial& into) {
  if (range) into.in_range += count_in(elements(), count, range);
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

// Whether the lean loop reads the dtype as it is stored.
template <class Type>
constexpr bool kReadInPlace = std::is_same_v<typename Type::Stored, typename Type::Element>;
#ifdef OPSCOPE_LANES
template <>
constexpr bool kReadInPlace<Bfloat16> = true;
#endif

template <class Type>
void fold_in_place(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  using Element = typename Type::Element;
  constexpr int64_t size = kBlockBytes / sizeof(Element);
  for (; begin < end; begin += size) {
    const auto* x = static_cast<const typename Type::Stored*>(job.data) + begin;
    const int64_t count = least(end - begin, size);
    if constexpr (std::is_same_v<typename Type::Stored, Element>) {
      fold_block<false>(lean(x, count), count, [&] { return x; }, job.range, into);
    } else {
      alignas(64) Element block[size];
      const auto elements = [&] {
        convert<Type>(x, 1, count, block);
        return static_cast<const Element*>(block);
      };
      fold_block<false>(lean(x, count), count, elements, job.range, into);
    }
  }
}

template <class Type>
void fold_range(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  using Element = typename Type::Element;
  constexpr int64_t size = kBlockBytes / sizeof(Element);
  const bool flat = is_flat(*job.layout);
  if constexpr (kReadInPlace<Type>) {
    if (flat && job.scale == 1) return fold_in_place<Type>(job, begin, end, into);
  }
  const auto* data = static_cast<const typename Type::Stored*>(job.data);
  alignas(64) Element block[size];
  const Element* elements = block;
  Cursor cursor(*job.layout, begin);
  for (; begin < end; begin += size) {
    const int64_t count = least(end - begin, size);
    if (flat) {
      convert<Type>(data + begin, 1, count, block);
    } else {
      gather<Type>(data, cursor, count, block);
    }
    if (job.scale != 1) {
      for (int64_t i = 0; i < count; ++i) block[i] *= static_cast<Element>(job.scale);
    }
    const auto get = [&] { return elements; };
    fold_block<kIsInteger<Type>>(lean(elements, count), count, get, job.range, into);
  }
}

// ---------------------------------------------------------------------------------------------
// 64-bit integers: exact in float64 only where they are small.

// Up to here the sum of a block is exact in float64 as well.
constexpr int64_t kSmall = int64_t{1} << 42;

template <class T>
struct Same {
  using Stored = T;
  using Element = T;
  static T get(T v) { return v; }
};

template <class T>
void fold_large(const T* x, int64_t count, const double* range, Partial& into) {
  Wide sum = 0, abs = 0, low = x[0], high = x[0];
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Wide v = x[i];
    sum += v;
    abs += v < 0 ? -v : v;
    low = v < low ? v : low;
    high = v > high ? v : high;
    into.zero += v == 0;
    into.negative += v < 0;
    squares = multiply_add(static_cast<double>(x[i]), static_cast<double>(x[i]), squares);
    // A long double holds every 64-bit integer, so the comparison is exact.
    if (range) into.in_range += (x[i] + 0.0L >= range[0]) & (x[i] + 0.0L <= range[1]);
  }
  const Wide center = sum / count;
  double spread = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Wide away = x[i] < center ? center - x[i] : x[i] - center;
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
  for (int64_t i = 0; i < count; ++i) seen |= static_cast<uint64_t>(x[i]) + shift;
  return seen < static_cast<uint64_t>(kSmall) * 2;
}

template <class T>
void fold_long_block(const T* x, int64_t count, const double* range, double* block,
                     Partial& into) {
  if (!all_small(x, count)) return fold_large(x, count, range, into);
  // Adding to the bits of 1.5 · 2^52 converts small integers without an instruction for it.
  for (int64_t i = 0; i < count; ++i) {
    block[i] = bit_cast<double>(static_cast<uint64_t>(x[i]) + 0x4338000000000000u) - 0x1.8p52;
  }
  const double* elements = block;
  fold_block<true>(lean(elements, count), count, [&] { return elements; }, range, into);
}

template <class T>
void fold_long_range(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  constexpr int64_t size = kBlockBytes / sizeof(T);
  const auto* data = static_cast<const T*>(job.data);
  alignas(64) T gathered[size];
  alignas(64) double block[size];
  const bool flat = is_flat(*job.layout);
  Cursor cursor(*job.layout, begin);
  for (; begin < end; begin += size) {
    const int64_t count = least(end - begin, size);
    if (flat) {
      fold_long_block(data + begin, count, job.range, block, into);
    } else {
      gather<Same<T>>(data, cursor, count, gathered);
      fold_long_block(gathered, count, job.range, block, into);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Two tensors.

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
    const Measured m = measure(a[i], b[i], scale);
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

// ---------------------------------------------------------------------------------------------
// By dtype.

template <class Type>
struct Row {
  static void fold(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
    fold_range<Type>(job, begin, end, into);
  }
};

template <class T>
struct Row<Same<T>> {
  static void fold(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
    fold_long_range<T>(job, begin, end, into);
  }
};

template <class Type>
struct Pairs {
  static void fold(const PairJob& job, int64_t begin, int64_t end, PairPartial& into) {
    fold_pairs<Type>(job, begin, end, into);
  }
};

template <template <class> class Fold, class Job, class Part>
bool by_dtype(const Job& job, int64_t begin, int64_t end, Part& into) {
  const auto run = [&](auto fold) {
    fold(job, begin, end, into);
    return true;
  };
  switch (job.dtype) {
    case kFloat32: return run(Fold<Float32>::fold);
    case kFloat64: return run(Fold<Float64>::fold);
    case kFloat16: return run(Fold<Float16>::fold);
    case kBfloat16: return run(Fold<Bfloat16>::fold);
    case kFloat8E5m2: return run(Fold<Float8E5m2>::fold);
    case kFloat8E4m3fn: return run(Fold<Float8E4m3fn>::fold);
    case kFloat8E5m2fnuz: return run(Fold<Float8E5m2fnuz>::fold);
    case kFloat8E4m3fnuz: return run(Fold<Float8E4m3fnuz>::fold);
    case kFloat8E8m0fnu: return run(Fold<Float8E8m0fnu>::fold);
    case kBool: return run(Fold<Bool>::fold);
    case kInt16: return run(Fold<Integer<int16_t>>::fold);
    case kInt32: return run(Fold<Integer<int32_t>>::fold);
    case kInt64: return run(Fold<Same<int64_t>>::fold);
    case kUint16: return run(Fold<Integer<uint16_t>>::fold);
    case kUint32: return run(Fold<Integer<uint32_t>>::fold);
    case kUint64: return run(Fold<Same<uint64_t>>::fold);
    case kComplex32: return run(Fold<Complex<Float16>>::fold);
    case kComplex64: return run(Fold<Complex<Float32>>::fold);
    case kComplex128: return run(Fold<Complex<Float64>>::fold);
    default: break;
  }
  if (job.dtype == kUint8 || (job.dtype >= kUint1 && job.dtype <= kUint7)) {
    return run(Fold<Integer<uint8_t>>::fold);
  }
  if (job.dtype == kInt8 || (job.dtype >= kInt1 && job.dtype <= kInt7)) {
    return run(Fold<Integer<int8_t>>::fold);
  }
  return false;
}

}  // namespace

#define OPSCOPE_JOIN(a, b) a##b
#define OPSCOPE_KERNELS(variant) OPSCOPE_JOIN(kernels_, variant)
#define OPSCOPE_TEXT_OF(name) #name
#define OPSCOPE_TEXT(name) OPSCOPE_TEXT_OF(name)
const Kernels OPSCOPE_KERNELS(OPSCOPE_VARIANT){
    OPSCOPE_TEXT(OPSCOPE_VARIANT), by_dtype<Row, RowJob, Partial>,
    by_dtype<Pairs, PairJob, PairPartial>};

}  // namespace opscope
