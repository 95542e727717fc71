// The time of records: nanoseconds of the monotonic clock.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace opscope {

inline uint64_t clock_of(clockid_t which) {
  timespec now;
  clock_gettime(which, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t now() { return clock_of(CLOCK_MONOTONIC); }

#if defined(__x86_64__)

// Whether the processor counts at a rate that never changes, and asking it is what it is for: some
// virtual machines answer for it.
inline bool counts_steadily() {
  static const bool answer = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & 1u << 8) == 0) return false;
    constexpr int kTimes = 64;
    const uint64_t began = now();
    for (int i = 0; i < kTimes; ++i) __rdtsc();
    const uint64_t counted = now();
    for (int i = 0; i < kTimes; ++i) now();
    return counted - began < now() - counted;
  }();
  return answer;
}

// The same time, within some nanoseconds, for one thread. Each record needs it twice, and the system
// takes five times as long to tell it as the processor to count: it is asked again now and then.
class Clock {
 public:
  uint64_t now() {
    const uint64_t ticks = __rdtsc();
    if (ticks - at_ >= kFresh) return ask(ticks);
    return latest_ = std::max(latest_, time_ + ((ticks - at_) * rate_ >> 32));
  }

 private:
  static constexpr uint64_t kFresh = 1 << 20;  // ticks; some hundred microseconds
  static constexpr uint64_t kAsking = 1 << 12;  // ticks; who takes longer was interrupted
  static constexpr uint64_t kShort = 10'000'000, kLong = 1'000'000'000;  // ns to find a rate in

  uint64_t ask(uint64_t ticks) {
    const uint64_t time = opscope::now();
    if (__rdtsc() - ticks > kAsking) {  // they are not of the same moment
      at_ = ticks - kFresh;
      return latest_ = std::max(latest_, time);
    }
    const uint64_t passed = time - since_;
    if (passed >= kShort && counts_steadily()) {
      // Not over longer times: a machine may have slept.
      const auto scaled = static_cast<unsigned __int128>(passed) << 32;
      rate_ = passed > kLong || ticks <= since_ticks_
                  ? 0
                  : static_cast<uint64_t>(scaled / (ticks - since_ticks_));
      since_ = time;
      since_ticks_ = ticks;
    }
    time_ = time;
    at_ = rate_ != 0 ? ticks : ticks - kFresh;  // without a rate the system is asked next time, too
    return latest_ = std::max(latest_, time);
  }

  uint64_t at_ = 0, time_ = 0, rate_ = 0, latest_ = 0;  // ns per tick, times 2³²
  uint64_t since_ = 0, since_ticks_ = 0;
};

#else

class Clock {
 public:
  uint64_t now() { return opscope::now(); }
};

#endif

}  // namespace opscope
