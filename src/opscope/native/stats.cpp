// The statistics kernels. Compiled once per instruction set, with OPSCOPE_VARIANT naming it.
//
// Elements are taken in blocks that stay in the first-level cache. A lean loop (lean.h) handles a
// block of finite numbers. One that holds NaN or Inf is done again carefully, and one whose numbers
// are close together is read again for its spread. Blocks are added up without rounding errors
// (`Sum`).
#include "stats.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "dtypes.h"
#include "lean.h"

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

// Runs of elements that lie side by side are read in place if they have this many bytes.
constexpr int64_t kLongRun = 256;

// A block's spread is squares - sum²/n. It keeps its digits if it is at least this part of squares.
constexpr double kEnoughSpread = 1.0 / 8;

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

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
    for (int64_t i = 0; i < count; ++i) to[i] = Type::get(load(from + i));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Type::get(load(from + i * stride));
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
  for (; i < count; ++i) to[i] = half_to_float(load(from + i * stride));
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

// Elements of one block, where they are: side by side from `data` on, or else where `start` says.
template <class Stored>
struct Piece {
  const Stored* data;
  const Cursor* start;
  int64_t count;
};

template <class Type>
void copy(const Piece<typename Type::Stored>& piece, typename Type::Element* to) {
  if (piece.start == nullptr) return convert<Type>(piece.data, 1, piece.count, to);
  Cursor cursor = *piece.start;
  gather<Type>(piece.data, cursor, piece.count, to);
}

// ---------------------------------------------------------------------------------------------
// One block.

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

// ---------------------------------------------------------------------------------------------
// What a block is taken as, and how much of it there is room for.

template <class Type>
struct Blocks {
  using Stored = typename Type::Stored;
  using Element = typename Type::Element;
  static constexpr bool kLong = false;

  static void count_in_range(const Stored* x, int64_t count, const double* range, Partial& into) {
    constexpr int64_t size = 1024;
    Element some[size];
    for (int64_t i = 0; i < count; i += size) {
      const int64_t part = least(count - i, size);
      convert<Type>(x + i, 1, part, some);
      into.in_range += count_in(some, part, range);
    }
  }
};

template <class T>
struct Blocks<Same<T>> {
  static constexpr bool kLong = true;

  static void count_in_range(const T* x, int64_t count, const double* range, Partial& into) {
    into.in_range += count_long_in(x, count, range);
  }
};

template <class Type, bool LEAN = Lean<Type>::kExists>
struct BlockSize {
  static constexpr int64_t kSize = kBlockBytes / sizeof(typename Type::Element);
};
template <class Type>
struct BlockSize<Type, true> {
  static constexpr int64_t kSize = Lean<Type>::kBlock;
};
template <class Type>
constexpr int64_t kBlockSize = BlockSize<Type>::kSize;

// Adds what the lean loop found of a piece, which is read again where that is not enough.
template <class Type>
void fold_lean(const Lean<Type>& lean, const Piece<typename Type::Stored>& piece, Partial& into) {
  const auto found = lean.finish();
  if constexpr (std::is_same_v<decltype(found), const ExactBlock>) {
    fold_exact(found, piece.count, into);
  } else if constexpr (Blocks<Type>::kLong) {
    using Stored = typename Type::Stored;
    if (lean.all_small()) {
      alignas(64) double elements[kBlockSize<Type>];
      const auto get = [&] {
        copy<SmallLong<Stored>>(piece, elements);
        return static_cast<const double*>(elements);
      };
      return fold_block<true>(found, piece.count, get, into);
    }
    alignas(64) Stored elements[kBlockSize<Type>];
    copy<Type>(piece, elements);
    fold_large(elements, piece.count, into);
  } else {
    using Element = typename Type::Element;
    alignas(64) Element elements[kBlockSize<Type>];
    const auto get = [&] {
      if constexpr (std::is_same_v<typename Type::Stored, Element>) {
        if (piece.start == nullptr) return piece.data;
      }
      copy<Type>(piece, elements);
      return static_cast<const Element*>(elements);
    };
    fold_block<kIsInteger<Type>>(found, piece.count, get, into);
  }
}

// Adds a piece without a lean loop of its own: a plain one reads the elements, most of them copied.
template <class Type>
void fold_plain(const Piece<typename Type::Stored>& piece, double scale, Partial& into) {
  using Element = typename Type::Element;
  alignas(64) Element copied[kBlockSize<Type>];
  const Element* elements = copied;
  if constexpr (std::is_same_v<typename Type::Stored, Element>) {
    if (scale == 1) elements = piece.data;
  }
  if (elements == copied) copy<Type>(piece, copied);
  if constexpr (Blocks<Type>::kLong) {
    if (!all_small(elements, piece.count)) return fold_large(elements, piece.count, into);
    alignas(64) double wide[kBlockSize<Type>];
    convert<SmallLong<Element>>(elements, 1, piece.count, wide);
    const double* get = wide;
    fold_block<true>(lean(get, piece.count), piece.count, [&] { return get; }, into);
  } else {
    if (scale != 1) {
      for (int64_t i = 0; i < piece.count; ++i) copied[i] *= static_cast<Element>(scale);
    }
    const auto get = [&] { return elements; };
    fold_block<kIsInteger<Type>>(lean(elements, piece.count), piece.count, get, into);
  }
}

// Adds elements that lie side by side.
template <class Type>
void fold_piece(const Piece<typename Type::Stored>& piece, double scale, Partial& into) {
  if constexpr (Lean<Type>::kExists) {
    if (scale == 1) {
      Lean<Type> lean;
      lean.take(piece.data, piece.count);
      return fold_lean<Type>(lean, piece, into);
    }
  }
  fold_plain<Type>(piece, scale, into);
}

template <class Type>
void fold_flat(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  const auto* data = static_cast<const typename Type::Stored*>(job.data);
  for (; begin < end; begin += kBlockSize<Type>) {
    const int64_t count = least(end - begin, kBlockSize<Type>);
    if (job.range) Blocks<Type>::count_in_range(data + begin, count, job.range, into);
    fold_piece<Type>({data + begin, nullptr, count}, job.scale, into);
  }
}

// Runs that are long enough to be read where they are. A block is half as large here: where a run
// ends, a lane may see an addition more.
template <class Type>
void fold_runs(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  const auto* data = static_cast<const typename Type::Stored*>(job.data);
  Cursor cursor(*job.layout, begin);
  while (begin < end) {
    const int64_t count = least(end - begin, kBlockSize<Type> / 2);
    const Cursor start = cursor;
    Lean<Type> lean;
    for (int64_t left = count; left > 0;) {
      const int64_t run = least(left, cursor.left_in_run());
      lean.take(data + cursor.offset(), run);
      cursor.advance(run);
      left -= run;
    }
    fold_lean<Type>(lean, {data, &start, count}, into);
    begin += count;
  }
}

// Elements with gaps between them, which are gathered as they are stored.
template <class Type>
void fold_gathered(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  using Stored = typename Type::Stored;
  const auto* data = static_cast<const Stored*>(job.data);
  alignas(64) Stored gathered[kBlockSize<Type>];
  Cursor cursor(*job.layout, begin);
  for (; begin < end; begin += kBlockSize<Type>) {
    const int64_t count = least(end - begin, kBlockSize<Type>);
    gather<Same<Stored>>(data, cursor, count, gathered);
    if (job.range) Blocks<Type>::count_in_range(gathered, count, job.range, into);
    fold_piece<Type>({gathered, nullptr, count}, job.scale, into);
  }
}

template <class Type>
void fold_range(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  const Layout& layout = *job.layout;
  if (is_flat(layout)) return fold_flat<Type>(job, begin, end, into);
  if constexpr (Lean<Type>::kExists) {
    const int last = layout.ndim - 1;
    const int64_t run = layout.sizes[last] * static_cast<int64_t>(sizeof(typename Type::Stored));
    if (layout.strides[0][last] == 1 && run >= kLongRun && job.scale == 1 && !job.range) {
      return fold_runs<Type>(job, begin, end, into);
    }
  }
  fold_gathered<Type>(job, begin, end, into);
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

// ---------------------------------------------------------------------------------------------
// By dtype.

template <class Type>
struct Row {
  static void fold(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
    fold_range<Type>(job, begin, end, into);
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
