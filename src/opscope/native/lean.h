// The lean loops: what is wanted of a block of finite numbers, from the elements as they are
// stored.
//
// Each `Lean<Type>` takes the elements of a block in as many pieces as they lie in, a step of
// vectors at a time, and says what it found. Where there is none for a dtype, or no vector
// instructions, a plain loop reads the elements as float32 or float64, most of them copied.
#pragma once

#include "dtypes.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define OPSCOPE_LANES
#include "lanes.h"
#endif

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

template <class Type>
struct Lean {
  static constexpr bool kExists = false;
};

#ifdef OPSCOPE_LANES

// A block has at most this many bytes, and a lane of float64 sees at most so many additions.
constexpr int kLeanBytes = 16384, kMostAdditions = 512;

template <class T>
T sum_of_lanes(Lanes::Ints v) {
  T lanes[Lanes::kBytes / sizeof(T)];
  std::memcpy(lanes, &v, sizeof v);
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <class T>
T least_lane(Lanes::Ints v) {
  T lanes[Lanes::kBytes / sizeof(T)];
  std::memcpy(lanes, &v, sizeof v);
  T least = lanes[0];
  for (const T lane : lanes) least = lane < least ? lane : least;
  return least;
}

template <class T>
T greatest_lane(Lanes::Ints v) {
  T lanes[Lanes::kBytes / sizeof(T)];
  std::memcpy(lanes, &v, sizeof v);
  T greatest = lanes[0];
  for (const T lane : lanes) greatest = lane > greatest ? lane : greatest;
  return greatest;
}

// The three sums, in twice as many float64 lanes as a vector has. The sum of |x| is that of x less
// twice that of the negative x.
struct Sums {
  Lanes::Doubles sum[2], negatives[2], squares[2];

  Sums() {
    const Lanes::Doubles zero = Lanes::all(0.0);
    sum[0] = sum[1] = negatives[0] = negatives[1] = squares[0] = squares[1] = zero;
  }

  // PART: which lanes of the mask say what is negative.
  template <int WHICH, int PART>
  void take(Lanes::Doubles v, Lanes::Mask negative) {
    sum[WHICH] = Lanes::multiply_add(v, Lanes::all(1.0), sum[WHICH]);
    negatives[WHICH] = Lanes::add_negative<PART>(negatives[WHICH], v, negative);
    squares[WHICH] = Lanes::multiply_add(v, v, squares[WHICH]);
  }

  static double total(const Lanes::Doubles* parts) {
    return Lanes::total(Lanes::add(parts[0], parts[1]));
  }

  template <class F>
  Block<F> block(F low, F high, int64_t zero, int64_t negative) const {
    const double all = total(sum);
    return {all, all - 2 * total(negatives), total(squares), low, high, zero, negative};
  }
};

// `step(sums, order)` reads kStep elements twice: what is summed and counted, and what is compared
// for min and max. They differ in the last step only, which is filled up with zeros that count
// nowhere but among the zeros, and with an element that is compared twice.
template <class Steps>
class InSteps {
 public:
  using Stored = typename Steps::Stored;
  static constexpr bool kExists = true;
  static constexpr int64_t kBlock = Steps::kBlock;

  // Not inlined: on its own it has registers for everything.
  __attribute__((noinline)) void take(const Stored* x, int64_t count) {
    Steps steps = steps_;
    int64_t i = 0;
    for (; i + Steps::kStep <= count; i += Steps::kStep) steps.step(x + i, x + i);
    if (i < count) {
      alignas(Lanes::kBytes) Stored sums[Steps::kStep] = {};
      alignas(Lanes::kBytes) Stored order[Steps::kStep];
      for (Stored& one : order) one = load(x + i);
      std::memcpy(sums, x + i, static_cast<size_t>(count - i) * sizeof(Stored));
      std::memcpy(order, x + i, static_cast<size_t>(count - i) * sizeof(Stored));
      steps.step(sums, order);
      padding_ += Steps::kStep - (count - i);
    }
    steps_ = steps;
  }

  auto finish() const { return steps_.finish(padding_); }
  const Steps& steps() const { return steps_; }

 private:
  Steps steps_;
  int64_t padding_ = 0;
};

struct Float32Steps {
  using Stored = float;
  static constexpr int kStep = 2 * Lanes::kDoubles;
  static constexpr int64_t kBlock = kLeanBytes / sizeof(float);

  Sums sums;
  Lanes::Floats low = Lanes::all(__builtin_inff()), high = Lanes::all(-__builtin_inff());
  Lanes::Count32 zero, negative;

  void step(const float* x, const float* order) {
    const Lanes::Floats v = Lanes::load(x), compared = Lanes::load(order);
    const Lanes::Mask below = Lanes::negatives(v);
    sums.take<0, 0>(Lanes::widen(Lanes::load_half(x)), below);
    sums.take<1, 1>(Lanes::widen(Lanes::load_half(x + Lanes::kDoubles)), below);
    low = Lanes::min(compared, low);
    high = Lanes::max(compared, high);
    zero.take(Lanes::zeros(v));
    negative.take(below);
  }

  Block<float> finish(int64_t padding) const {
    float lows[kStep], highs[kStep], least = __builtin_inff(), most = -__builtin_inff();
    std::memcpy(lows, &low, sizeof low);
    std::memcpy(highs, &high, sizeof high);
    for (const float one : lows) least = one < least ? one : least;
    for (const float one : highs) most = one > most ? one : most;
    return sums.block(least, most, zero.total() - padding, negative.total());
  }
};

// How the sums of 16-bit floats are taken: the order of the additions may be any.
struct WidenBfloat16 {
  static constexpr int kQuarter = Lanes::kDoubles;
  static void take(const uint16_t* x, Lanes::Ints v, Sums& sums) {
    const Lanes::Mask odd = Lanes::negative32(v);
    const Lanes::Mask even = Lanes::with_bits32(v, Lanes::all32(0x8000));
    const Lanes::Half first = Lanes::load_half(x), second = Lanes::load_half(x + 2 * kQuarter);
    sums.take<0, 0>(Lanes::widen(Lanes::even_words(first)), even);
    sums.take<1, 0>(Lanes::widen(Lanes::odd_words(first)), odd);
    sums.take<0, 1>(Lanes::widen(Lanes::even_words(second)), even);
    sums.take<1, 1>(Lanes::widen(Lanes::odd_words(second)), odd);
  }
};

struct WidenFloat16 {
  static constexpr int kQuarter = Lanes::kDoubles;
  static void take(const uint16_t* x, Lanes::Ints v, Sums& sums) {
    const Lanes::Mask below = Lanes::negative16(v);
    sums.take<0, 0>(Lanes::widen_halves(Lanes::load_quarter(x)), below);
    sums.take<1, 1>(Lanes::widen_halves(Lanes::load_quarter(x + kQuarter)), below);
    sums.take<0, 2>(Lanes::widen_halves(Lanes::load_quarter(x + 2 * kQuarter)), below);
    sums.take<1, 3>(Lanes::widen_halves(Lanes::load_quarter(x + 3 * kQuarter)), below);
  }
};

// 16-bit floats: order and counts come from their bits, which for positive numbers are in the order
// of the numbers, and for negative ones in the reverse order and above them.
template <class Type, class Widen>
struct HalfSteps {
  using Stored = uint16_t;
  static constexpr int kStep = 4 * Lanes::kDoubles;
  static constexpr int64_t kBlock = kMostAdditions * 2 * Lanes::kDoubles;

  Sums sums;
  Lanes::Ints largest = Lanes::all16(INT16_MIN), above = Lanes::none();
  Lanes::Ints smallest = Lanes::all16(-1);
  Lanes::Count16 zero, negative;

  void step(const uint16_t* x, const uint16_t* order) {
    const Lanes::Ints v = Lanes::load_ints(x), compared = Lanes::load_ints(order);
    Widen::take(x, v, sums);
    zero.take(Lanes::zero_halves(v));
    negative.take(Lanes::negative_halves(v));
    largest = Lanes::max_s16(compared, largest);
    above = Lanes::max_u16(compared, above);
    smallest = Lanes::min_u16(compared, smallest);
  }

  Block<float> finish(int64_t padding) const {
    const auto top = static_cast<uint16_t>(greatest_lane<int16_t>(largest));
    const auto most_negative = greatest_lane<uint16_t>(above);
    const auto least = least_lane<uint16_t>(smallest);
    const bool any_positive = top < 0x8000, any_negative = most_negative >= 0x8000;
    return sums.block(Type::get(any_negative ? most_negative : least),
                      Type::get(any_positive ? top : least), zero.total() - padding,
                      negative.total());
  }
};

// A float8 becomes the bfloat16 with the same bits of exponent and mantissa, which is smaller by
// 2^(127 - bias), denormals included. Bits that mean something else there are looked for.
template <class Table>
struct Float8Steps {
  using Stored = uint8_t;
  using Half = HalfSteps<Bfloat16, WidenBfloat16>;
  static constexpr int kStep = Half::kStep;
  static constexpr int64_t kBlock = Half::kBlock;

  Half half;
  Lanes::Ints magnitudes = Lanes::none();
  Lanes::Count16 nothing;  // -0, which some have as NaN, or 0, which is no zero in others

  void step(const uint8_t* x, const uint8_t* order) {
    alignas(Lanes::kBytes) uint16_t summed[kStep], compared[kStep];
    const Lanes::Ints bytes = Lanes::unsigned_words(Lanes::load_half(x));
    const Lanes::Ints other = Lanes::unsigned_words(Lanes::load_half(order));
    Lanes::store_ints(summed, as_bfloat16(bytes));
    Lanes::store_ints(compared, as_bfloat16(other));
    if (Table::kNothing >= 0) nothing.take(Lanes::equal16(other, Lanes::all16(Table::kNothing)));
    const Lanes::Ints magnitude = Lanes::band(bytes, Lanes::all16(Table::kMagnitude));
    magnitudes = Lanes::max_s16(magnitude, magnitudes);
    half.step(summed, compared);
  }

  static Lanes::Ints as_bfloat16(Lanes::Ints bytes) {
    const Lanes::Ints magnitude = Lanes::band(bytes, Lanes::all16(Table::kMagnitude));
    const Lanes::Ints bits = Lanes::up16<7 - Table::kMantissa>(magnitude);
    if (Table::kMagnitude == 0xff) return bits;
    return Lanes::bor(bits, Lanes::band(Lanes::up16<8>(bytes), Lanes::all16(0x8000)));
  }

  Block<float> finish(int64_t padding) const {
    Block<float> block = half.finish(padding);
    constexpr float scale = Table::kScale;
    const bool special = greatest_lane<int16_t>(magnitudes) >= Table::kFirstSpecial;
    block.sum *= scale;
    block.abs *= scale;
    block.squares = special || nothing.total() ? kInf : block.squares * scale * scale;
    block.low *= scale;
    block.high *= scale;
    return block;
  }
};

// What becomes float64 at once.
template <class Read>
struct DoubleSteps {
  using Stored = typename Read::Stored;
  static constexpr int kStep = 2 * Lanes::kDoubles;
  static constexpr int64_t kBlock = kLeanBytes / sizeof(double);

  Read read;
  Sums sums;
  Lanes::Doubles low = Lanes::all(kInf), high = Lanes::all(-kInf);
  Lanes::Count64 zero, negative;

  void step(const Stored* x, const Stored* order) {
    half_step<0>(x, order);
    half_step<1>(x + Lanes::kDoubles, order + Lanes::kDoubles);
  }

  template <int WHICH>
  void half_step(const Stored* x, const Stored* order) {
    const Lanes::Doubles v = read(x), compared = x == order ? v : read(order);
    const Lanes::Mask below = Lanes::negatives(v);
    sums.take<WHICH, 0>(v, below);
    low = Lanes::min(compared, low);
    high = Lanes::max(compared, high);
    zero.take(Lanes::zeros(v));
    negative.take(below);
  }

  Block<double> finish(int64_t padding) const {
    Block<double> block = sums.block(Lanes::lowest(low), Lanes::highest(high),
                                     zero.total() - padding, negative.total());
    if (read.lost()) block.squares = kInf;
    return block;
  }
};

struct ReadFloat64 {
  using Stored = double;
  bool lost() const { return false; }
  Lanes::Doubles operator()(const double* x) { return Lanes::load(x); }
};

// Squares of float32 numbers neither overflow nor vanish in float64.
struct ReadComplex64 {
  using Stored = Parts<float>;
  bool lost() const { return false; }
  Lanes::Doubles operator()(const Stored* x) { return Lanes::moduli(x); }
};

// The squares must not vanish, nor lose digits; if they overflow, the modulus shows it.
struct ReadComplex128 {
  using Stored = Parts<double>;
  Lanes::Count64 tiny;
  Lanes::Doubles operator()(const Stored* x) {
    const auto* parts = reinterpret_cast<const double*>(x);
    const Lanes::Doubles a = Lanes::load(parts), b = Lanes::load(parts + Lanes::kDoubles);
    const Lanes::Doubles real = Lanes::firsts(a, b), imaginary = Lanes::seconds(a, b);
    const Lanes::Doubles square = Lanes::multiply(imaginary, imaginary);
    const Lanes::Doubles squares = Lanes::multiply_add(real, real, square);
    const Lanes::Mask none = Lanes::zeros(Lanes::bor(real, imaginary));
    tiny.take(Lanes::but(Lanes::below(squares, Lanes::all(1e-280)), none));
    return Lanes::root(squares);
  }
  bool lost() const { return tiny.total() > 0; }
};

// Adding to the bits of 1.5 · 2^52 converts small integers without an instruction for it. `seen`
// tells whether they were: x + 2^42 as unsigned is below 2^43.
template <class T>
struct ReadSmall {
  using Stored = T;
  Lanes::Ints seen = Lanes::none();
  Lanes::Doubles operator()(const T* x) {
    const Lanes::Ints v = Lanes::load_ints(x);
    seen = Lanes::bor(seen, Lanes::add64(v, Lanes::all64(std::is_signed_v<T> ? kSmall : 0)));
    const Lanes::Ints bits = Lanes::add64(v, Lanes::all64(0x4338000000000000));
    return Lanes::subtract(Lanes::as_doubles(bits), Lanes::all(0x1.8p52));
  }
  bool lost() const { return false; }
  bool all_small() const {
    return greatest_lane<uint64_t>(seen) < static_cast<uint64_t>(kSmall) * 2;
  }
};

template <class T>
struct Int32Steps {
  using Stored = T;
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr int kStep = 2 * Lanes::kDoubles;
  static constexpr int64_t kBlock = kLeanBytes / sizeof(T);

  Sums sums;
  // Unsigned numbers are compared with their highest bit turned over.
  Lanes::Ints low = Lanes::all32(INT32_MAX), high = Lanes::all32(INT32_MIN);
  Lanes::Count32 zero, negative;

  void step(const T* x, const T* order) {
    const Lanes::Ints v = Lanes::load_ints(x), compared = ordered(Lanes::load_ints(order));
    const Lanes::Mask below = kSigned ? Lanes::negative32(v) : Lanes::Mask{};
    sums.take<0, 0>(widen(Lanes::load_half(x)), below);
    sums.take<1, 1>(widen(Lanes::load_half(x + Lanes::kDoubles)), below);
    low = Lanes::min_s32(compared, low);
    high = Lanes::max_s32(compared, high);
    zero.take(Lanes::zero32(v));
    if (kSigned) negative.take(below);
  }

  static Lanes::Doubles widen(Lanes::Half v) {
    return kSigned ? Lanes::widen_signed(v) : Lanes::widen_unsigned(v);
  }
  static Lanes::Ints ordered(Lanes::Ints v) {
    return kSigned ? v : Lanes::bxor(v, Lanes::all32(INT32_MIN));
  }

  Block<double> finish(int64_t padding) const {
    const int64_t shift = kSigned ? 0 : -static_cast<int64_t>(INT32_MIN);
    return sums.block(static_cast<double>(least_lane<int32_t>(low) + shift),
                      static_cast<double>(greatest_lane<int32_t>(high) + shift),
                      zero.total() - padding, negative.total());
  }
};

// Unsigned numbers are read as x - 2^15, and what is found is set right in the end.
template <class T>
struct Int16Steps {
  using Stored = T;
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr int kStep = Lanes::kBytes / 2;
  static constexpr int64_t kBlock = kLeanBytes / sizeof(T);

  Lanes::Ints sum = Lanes::none(), negatives = Lanes::none();
  Lanes::Ints squares[2] = {Lanes::none(), Lanes::none()};
  Lanes::Ints low = Lanes::all16(INT16_MAX), high = Lanes::all16(INT16_MIN);
  Lanes::Count16 zero, negative;
  int64_t steps = 0;

  void step(const T* x, const T* order) {
    const Lanes::Ints stored = Lanes::load_ints(x), v = ordered(stored);
    const Lanes::Ints compared = ordered(Lanes::load_ints(order));
    sum = Lanes::add32(sum, Lanes::sums_of_products(v, Lanes::all16(1)));
    if (kSigned) {
      const Lanes::Ints below = Lanes::min_s16(v, Lanes::none());
      negatives = Lanes::add32(negatives, Lanes::sums_of_products(below, Lanes::all16(1)));
      negative.take(Lanes::negative16(v));
    }
    const Lanes::Ints pairs = Lanes::sums_of_products(v, v);  // up to 2^31, unsigned
    squares[0] = Lanes::add64(squares[0], Lanes::band(pairs, Lanes::all64(0xffffffff)));
    squares[1] = Lanes::add64(squares[1], Lanes::upper32(pairs));
    low = Lanes::min_s16(compared, low);
    high = Lanes::max_s16(compared, high);
    zero.take(Lanes::zero16(stored));
    ++steps;
  }

  static Lanes::Ints ordered(Lanes::Ints v) {
    return kSigned ? v : Lanes::bxor(v, Lanes::all16(INT16_MIN));
  }

  ExactBlock finish(int64_t padding) const {
    constexpr int64_t shift = kSigned ? 0 : 32768;
    const int64_t read = steps * kStep;  // with the padding, whose zeros are 0 in the end
    const int64_t found = sum_of_lanes<int32_t>(sum), all = found + shift * read;
    const int64_t square = sum_of_lanes<int64_t>(Lanes::add64(squares[0], squares[1]));
    return {all,
            all - 2 * int64_t{sum_of_lanes<int32_t>(negatives)},
            square + 2 * shift * found + shift * shift * read,
            least_lane<int16_t>(low) + shift,
            greatest_lane<int16_t>(high) + shift,
            zero.total() - padding,
            negative.total()};
  }
};

template <class T>
struct Int8Steps {
  using Stored = T;
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr int kStep = Lanes::kBytes;
  static constexpr int64_t kBlock = kLeanBytes / sizeof(T);
  // Of signed numbers there is one more of each: the sum of |x|, and how many are negative. (What
  // is not used would keep the compiler from having the rest in registers.)
  static constexpr int kSums = kSigned ? 2 : 1;

  Lanes::Ints sums[kSums], squares = Lanes::none();
  Lanes::Ints low = Lanes::all8(INT8_MAX), high = Lanes::all8(INT8_MIN);
  int64_t counts[kSums] = {}, steps = 0;

  Int8Steps() {
    for (Lanes::Ints& sum : sums) sum = Lanes::none();
  }

  void step(const T* x, const T* order) {
    const Lanes::Ints v = Lanes::load_ints(x), compared = ordered(Lanes::load_ints(order));
    const Lanes::Ints first = words(Lanes::load_half(x));
    const Lanes::Ints second = words(Lanes::load_half(x + kStep / 2));
    // Bytes are summed as unsigned ones: signed ones as x + 128.
    const Lanes::Ints summed = kSigned ? Lanes::bxor(v, Lanes::all8(INT8_MIN)) : v;
    sums[0] = Lanes::add64(sums[0], Lanes::sums_of_bytes(summed));
    counts[0] += Lanes::zero_bytes(v);
    if constexpr (kSigned) {
      sums[1] = Lanes::add64(sums[1], Lanes::sums_of_bytes(Lanes::abs8(v)));
      counts[1] += Lanes::negative_bytes(v);
    }
    squares = Lanes::add32(squares, Lanes::sums_of_products(first, first));
    squares = Lanes::add32(squares, Lanes::sums_of_products(second, second));
    low = Lanes::min_s8(compared, low);
    high = Lanes::max_s8(compared, high);
    ++steps;
  }

  static Lanes::Ints words(Lanes::Half v) {
    return kSigned ? Lanes::signed_words(v) : Lanes::unsigned_words(v);
  }
  static Lanes::Ints ordered(Lanes::Ints v) {
    return kSigned ? v : Lanes::bxor(v, Lanes::all8(INT8_MIN));
  }

  ExactBlock finish(int64_t padding) const {
    const int64_t shift = kSigned ? 0 : 128;
    const int64_t all = sum_of_lanes<int64_t>(sums[0]) - (kSigned ? 128 * steps * kStep : 0);
    return {all,
            kSigned ? sum_of_lanes<int64_t>(sums[kSums - 1]) : all,
            sum_of_lanes<int32_t>(squares),
            least_lane<int8_t>(low) + shift,
            greatest_lane<int8_t>(high) + shift,
            counts[0] - padding,
            kSigned ? counts[kSums - 1] : 0};
  }
};

// Whatever is not 0 is 1.
struct BoolSteps {
  using Stored = uint8_t;
  static constexpr int kStep = Lanes::kBytes;
  static constexpr int64_t kBlock = kLeanBytes;

  int64_t zero = 0, steps = 0;

  void step(const uint8_t* x, const uint8_t*) {
    zero += Lanes::zero_bytes(Lanes::load_ints(x));
    ++steps;
  }

  ExactBlock finish(int64_t padding) const {
    const int64_t ones = steps * kStep - zero, zeros = zero - padding;
    return {ones, ones, ones, zeros ? 0 : 1, ones ? 1 : 0, zeros, 0};
  }
};

template <>
struct Lean<Float32> : InSteps<Float32Steps> {};
template <>
struct Lean<Float64> : InSteps<DoubleSteps<ReadFloat64>> {};
template <>
struct Lean<Bfloat16> : InSteps<HalfSteps<Bfloat16, WidenBfloat16>> {};
template <>
struct Lean<Float16> : InSteps<HalfSteps<Float16, WidenFloat16>> {};
template <>
struct Lean<Complex<Float32>> : InSteps<DoubleSteps<ReadComplex64>> {};
template <>
struct Lean<Complex<Float64>> : InSteps<DoubleSteps<ReadComplex128>> {};
template <class Table>
struct Lean<Float8<Table>> : InSteps<Float8Steps<Table>> {};
template <class T>
struct Lean<Same<T>> : InSteps<DoubleSteps<ReadSmall<T>>> {
  bool all_small() const { return this->steps().read.all_small(); }
};
template <>
struct Lean<Integer<int32_t>> : InSteps<Int32Steps<int32_t>> {};
template <>
struct Lean<Integer<uint32_t>> : InSteps<Int32Steps<uint32_t>> {};
template <>
struct Lean<Integer<int16_t>> : InSteps<Int16Steps<int16_t>> {};
template <>
struct Lean<Integer<uint16_t>> : InSteps<Int16Steps<uint16_t>> {};
template <>
struct Lean<Integer<int8_t>> : InSteps<Int8Steps<int8_t>> {};
template <>
struct Lean<Integer<uint8_t>> : InSteps<Int8Steps<uint8_t>> {};
template <>
struct Lean<Bool> : InSteps<BoolSteps> {};

#endif

}  // namespace
}  // namespace opscope
