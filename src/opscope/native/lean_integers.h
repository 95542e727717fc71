// Lean loops over integers and bools. Only for machines with the vector instructions of lanes.h.
#pragma once

#include <type_traits>

#include "lean_steps.h"

namespace opscope {
namespace {

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

}  // namespace
}  // namespace opscope
