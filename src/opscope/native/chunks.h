// A tensor in chunks: which thread does which, and what they found put together.
#pragma once

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "stats.h"

namespace opscope {
namespace {

// Below this many elements, threads cost more than they save.
constexpr int64_t kThreadsFrom = int64_t{1} << 20;

void merge(Partial& into, const Partial& other) {
  into.nan += other.nan;
  into.posinf += other.posinf;
  into.neginf += other.neginf;
  into.zero += other.zero;
  into.negative += other.negative;
  into.in_range += other.in_range;
  if (other.finite == 0) return;
  if (into.finite == 0 || other.int_low < into.int_low) into.int_low = other.int_low;
  if (into.finite == 0 || other.int_high > into.int_high) into.int_high = other.int_high;
  into.int_sum += other.int_sum;
  into.int_abs += other.int_abs;
  into.low = other.low < into.low ? other.low : into.low;
  into.high = other.high > into.high ? other.high : into.high;
  add(into.sum, other.sum);
  add(into.abs, other.abs);
  add(into.squares, other.squares);
  fold_spread(into, static_cast<double>(other.finite), other.base, value_of(other.offset),
              value_of(other.spread));
  into.finite += other.finite;
}

void merge(PairPartial& into, const PairPartial& other) {
  into.finite += other.finite;
  into.outside += other.outside;
  into.nan_a += other.nan_a;
  into.nan_b += other.nan_b;
  into.largest = other.largest > into.largest ? other.largest : into.largest;
  add(into.distance, other.distance);
  add(into.size, other.size);
}

// Calls `work(chunk)` for every chunk; threads take the next one that is left.
template <class Work>
void for_chunks(int64_t chunks, int threads, Work work) {
  std::atomic<int64_t> next{0};
  const auto loop = [&] {
    for (int64_t chunk; (chunk = next.fetch_add(1)) < chunks;) work(chunk);
  };
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < threads && i < chunks; ++i) others.emplace_back(loop);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are do the work.
  }
  loop();
  for (std::thread& other : others) other.join();
}

template <class Job, class Part>
bool whole(bool (*kernel)(const Job&, int64_t, int64_t, Part&), const Job& job, int threads,
           Part& into) {
  const int64_t count = job.layout->count;
  if (count <= kChunk) return kernel(job, 0, count, into);
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  std::vector<Part> parts(static_cast<size_t>(chunks));
  std::atomic<bool> known{true};
  const auto work = [&](int64_t chunk) {
    const int64_t begin = chunk * kChunk;
    const int64_t end = begin + kChunk < count ? begin + kChunk : count;
    if (!kernel(job, begin, end, parts[static_cast<size_t>(chunk)])) known = false;
  };
  for_chunks(chunks, count < kThreadsFrom ? 1 : threads, work);
  for (const Part& part : parts) merge(into, part);
  return known;
}

}  // namespace
}  // namespace opscope
