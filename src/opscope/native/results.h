// The numbers of a record, from what is known about all elements.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "chunks.h"
#include "dispatch.h"
#include "generated/record.h"
#include "stats.h"

namespace opscope {
namespace {

// Squares of float64 numbers between these neither overflow, however many there are, nor vanish.
constexpr double kSafeLow = 1e-130, kSafeHigh = 1e140;

// A record from kNumbers on.
struct Numbers {
  uint64_t count;
  uint64_t low, high;  // the bits of a float64, int64 or uint64
  double mean, mean_abs, l2, std;
  uint64_t nan, posinf, neginf, zero, negative, positive;
};
static_assert(sizeof(Numbers) == kRecordBytes - kNumbers);
static_assert(offsetof(Numbers, low) == kMinAt - kNumbers);
static_assert(offsetof(Numbers, mean) == kMeanAt - kNumbers);
static_assert(offsetof(Numbers, std) == kStdAt - kNumbers);
static_assert(offsetof(Numbers, nan) == kNanAt - kNumbers);
static_assert(offsetof(Numbers, positive) == kPositiveAt - kNumbers);

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

bool is_integer(int dtype) {
  switch (dtype) {
    case kBool: case kInt8: case kInt16: case kInt32: case kInt64:
    case kUint8: case kUint16: case kUint32: case kUint64: return true;
    default: return dtype >= kUint1 && dtype <= kInt7;
  }
}

int bit_length(unsigned __int128 value) {
  const uint64_t high = static_cast<uint64_t>(value >> 64), low = static_cast<uint64_t>(value);
  return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

// The float64 nearest to total / count; |total / count| is below 2^64.
double quotient(Wide total, uint64_t count) {
  if (total == 0) return 0;
  unsigned __int128 rest = static_cast<unsigned __int128>(total < 0 ? -total : total);
  // At least 56 bits of quotient, so that the last one can say whether anything follows.
  const int missing = 56 - (bit_length(rest) - bit_length(count));
  const int shift = missing > 0 ? missing : 0;
  rest <<= shift;
  uint64_t digits = static_cast<uint64_t>(rest / count);
  if (rest % count != 0) digits |= 1;
  const double value = std::ldexp(static_cast<double>(digits), -shift);
  return total < 0 ? -value : value;
}

double within(double value, double low, double high) {
  return value < low ? low : value > high ? high : value;
}

void float_moments(const Partial& part, double low, double high, double repeat, double scale,
                   Numbers& out) {
  const double n = static_cast<double>(part.finite);
  out.mean = within(value_of(part.sum) / n / scale, low, high);
  const bool one_sign = low >= 0 || high <= 0;
  out.mean_abs = one_sign ? std::fabs(out.mean) : value_of(part.abs) / n / scale;
  out.l2 = std::sqrt(value_of(part.squares) * repeat) / scale;
  out.std = std::sqrt(value_of(part.spread) / n) / scale;
}

// Whether squares of the finite elements have to be computed on another scale.
double scale_for(const RowJob& job, const Partial& part) {
  if ((job.dtype != kFloat64 && job.dtype != kComplex128) || part.finite == 0) return 1;
  const double largest = part.high > -part.low ? part.high : -part.low;
  if (largest == 0 || (largest > kSafeLow && largest < kSafeHigh)) return 1;
  int exponent;
  std::frexp(largest, &exponent);
  // 2^1074 and the like are beyond float64; the square root of what is missing does not matter.
  return std::ldexp(1.0, exponent < -1000 ? 1000 : -exponent);
}

void finish_floats(const RowJob& job, const Partial& part, uint64_t repeat, int threads,
                   Numbers& out) {
  const bool any = part.finite > 0;
  const double nothing = any ? part.low : __builtin_nan("");
  const double low = part.neginf ? -__builtin_inf() : !any && part.posinf ? __builtin_inf() : nothing;
  const double none = any ? part.high : __builtin_nan("");
  const double high = part.posinf ? __builtin_inf() : !any && part.neginf ? -__builtin_inf() : none;
  out.low = bits_of(low);
  out.high = bits_of(high);
  out.mean = out.mean_abs = out.l2 = out.std = __builtin_nan("");
  if (!any) return;
  const double times = static_cast<double>(repeat), scale = scale_for(job, part);
  if (scale == 1) return float_moments(part, part.low, part.high, times, 1, out);
  RowJob again = job;
  again.scale = scale;
  again.range = nullptr;
  Partial scaled;
  whole(kernels->row, again, threads, scaled);
  float_moments(scaled, part.low, part.high, times, scale, out);
}

void finish_ints(const Partial& part, uint64_t repeat, Numbers& out) {
  const double n = static_cast<double>(part.finite);
  out.low = static_cast<uint64_t>(part.int_low);
  out.high = static_cast<uint64_t>(part.int_high);
  out.mean = quotient(part.int_sum, part.finite);
  out.mean_abs = quotient(part.int_abs, part.finite);
  out.l2 = std::sqrt(value_of(part.squares) * static_cast<double>(repeat));
  out.std = std::sqrt(value_of(part.spread) / n);
}

void write(void* record, RowKind kind, const Numbers& numbers) {
  auto* bytes = static_cast<unsigned char*>(record);
  bytes[kKindAt] = kind;
  std::memcpy(bytes + kNumbers, &numbers, sizeof numbers);
}

}  // namespace
}  // namespace opscope
