// What all lean loops with vectors share: steps over a block, and sums in lanes.
// Only for machines with the vector instructions of lanes.h.
#pragma once

#include <algorithm>
#include <cstring>

#include "dtypes.h"
#include "lanes.h"
#include "plain_lean.h"

namespace opscope {
namespace {

// What is read is asked for so many bytes ahead: processors that do so themselves begin anew at each
// page of memory, and reading waits for memory there.
constexpr int64_t kAheadBytes = 4096;

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

  // `after`: so many elements behind them will be read next. Not inlined: on its own it has registers
  // for everything.
  __attribute__((noinline)) void take(const Stored* x, int64_t count, int64_t after) {
    Steps steps = steps_;
    int64_t i = 0;
    const int64_t within = count + after - kAhead - Steps::kStep;
    for (const int64_t end = std::min(count - Steps::kStep, within); i <= end; i += Steps::kStep) {
      __builtin_prefetch(x + i + kAhead);
      steps.step(x + i, x + i);
    }
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
  static constexpr int64_t kAhead = kAheadBytes / static_cast<int64_t>(sizeof(Stored));

  Steps steps_;
  int64_t padding_ = 0;
};

}  // namespace
}  // namespace opscope
