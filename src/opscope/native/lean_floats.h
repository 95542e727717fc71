// Lean loops over floats and complex numbers. Only for machines with the vector instructions of lanes.h.
#pragma once

#include <cstring>

#include "lean_steps.h"

namespace opscope {
namespace {

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
    return sums.block(Lanes::lowest(low), Lanes::highest(high), zero.total() - padding, negative.total());
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

}  // namespace
}  // namespace opscope
