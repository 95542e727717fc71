// The C ABI of the statistics: which kernels run, on which parts of the tensor, in which threads.
#include "api.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

#include "stats.h"

namespace opscope {
namespace {

// Below this many elements, threads cost more than they save.
constexpr int64_t kThreadsFrom = int64_t{1} << 20;

// Squares of float64 numbers between these neither overflow, however many there are, nor vanish.
constexpr double kSafeLow = 1e-130, kSafeHigh = 1e140;

const Kernels* best_kernels() {
#ifdef OPSCOPE_X86
  __builtin_cpu_init();
  // F16C is older than AVX2, and not every compiler knows its name here.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("popcnt");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return &kernels_avx512;
  }
  if (avx2) return &kernels_avx2;
#endif
  return &kernels_baseline;
}

const Kernels* kernels = best_kernels();

// The kernels count denormals and round to nearest whatever the program set for its own arithmetic
// (torch.set_flush_denormal). Threads inherit the setting.
class PlainArithmetic {
#if defined(__x86_64__) || defined(__i386__)
 public:
  PlainArithmetic() : before_(_mm_getcsr()) {
    if ((before_ & ~kFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~PlainArithmetic() {
    if ((before_ & ~kFlags) != kDefault) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80, kFlags = 0x3f;
  unsigned before_;
#endif
};

// ---------------------------------------------------------------------------------------------
// Layouts.

struct Dimension {
  int64_t size, stride[2];
};

// Whether walking `outer` is the same as walking on in `inner`.
bool continues(const Dimension& outer, const Dimension& inner) {
  return outer.stride[0] == inner.stride[0] * inner.size &&
         outer.stride[1] == inner.stride[1] * inner.size;
}

bool steps_less(const Dimension& a, const Dimension& b) {
  const int64_t first = std::llabs(a.stride[0]), second = std::llabs(b.stride[0]);
  return first != second ? first < second : std::llabs(a.stride[1]) < std::llabs(b.stride[1]);
}

// The smallest layout with the same elements, in the order of the first tensor's memory.
void arrange(Dimension* dims, int ndim, Layout& layout) {
  for (int i = 1; i < ndim; ++i) {  // sorted by descending step; there are few dimensions
    const Dimension moved = dims[i];
    int j = i;
    for (; j > 0 && steps_less(dims[j - 1], moved); --j) dims[j] = dims[j - 1];
    dims[j] = moved;
  }
  int kept = 0;
  for (int i = 0; i < ndim; ++i) {
    if (kept > 0 && continues(dims[kept - 1], dims[i])) {
      dims[i].size *= dims[kept - 1].size;
      --kept;
    }
    dims[kept++] = dims[i];
  }
  if (kept == 0) dims[kept++] = {layout.count, {1, 1}};
  layout.ndim = kept;
  for (int i = 0; i < kept; ++i) {
    layout.sizes[i] = dims[i].size;
    layout.strides[0][i] = dims[i].stride[0];
    layout.strides[1][i] = dims[i].stride[1];
  }
}

bool is_contiguous(int ndim, const int64_t* sizes, const int64_t* strides) {
  int64_t expected = 1;
  for (int dim = ndim - 1; dim >= 0; --dim) {
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

void flat(int64_t count, Layout& layout) {
  layout.ndim = 1;
  layout.count = count;
  layout.sizes[0] = count ? count : 1;  // the cursor divides by it
  layout.strides[0][0] = layout.strides[1][0] = 1;
}

int64_t count_of(int ndim, const int64_t* sizes) {
  int64_t count = 1;
  for (int dim = 0; dim < ndim; ++dim) count *= sizes[dim];
  return count;
}

// Returns how often each element is repeated by dimensions that do not move. However many dimensions
// there are, those larger than 1 are fewer than kMaxDims: their product is a 64-bit number.
uint64_t row_layout(int ndim, const int64_t* sizes, const int64_t* strides, Layout& layout) {
  layout.count = count_of(ndim, sizes);
  if (layout.count == 0 || is_contiguous(ndim, sizes, strides)) {
    flat(layout.count, layout);
    return 1;
  }
  Dimension dims[kMaxDims];
  int kept = 0;
  uint64_t repeat = 1;
  for (int dim = 0; dim < ndim; ++dim) {
    if (strides[dim] == 0) {
      repeat *= static_cast<uint64_t>(sizes[dim]);
    } else if (sizes[dim] != 1) {
      dims[kept++] = {sizes[dim], {strides[dim], strides[dim]}};
    }
  }
  layout.count /= static_cast<int64_t>(repeat);
  arrange(dims, kept, layout);
  return repeat;
}

void pair_layout(int ndim, const int64_t* sizes, const int64_t* a_strides,
                 const int64_t* b_strides, Layout& layout) {
  layout.count = count_of(ndim, sizes);
  if (layout.count == 0 ||
      (is_contiguous(ndim, sizes, a_strides) && is_contiguous(ndim, sizes, b_strides))) {
    flat(layout.count, layout);
    return;
  }
  Dimension dims[kMaxDims];
  int kept = 0;
  for (int dim = 0; dim < ndim; ++dim) {
    if (sizes[dim] != 1) dims[kept++] = {sizes[dim], {a_strides[dim], b_strides[dim]}};
  }
  arrange(dims, kept, layout);
}

// ---------------------------------------------------------------------------------------------
// Chunks and threads.

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

// ---------------------------------------------------------------------------------------------
// Results.

// bytes 24 … 127 of a record; opscope.stats.record has the layout
struct Numbers {
  uint64_t count;
  uint64_t low, high;  // the bits of a float64, int64 or uint64
  double mean, mean_abs, l2, std;
  uint64_t nan, posinf, neginf, zero, negative, positive;
};
static_assert(sizeof(Numbers) == 104);

enum Kind : uint8_t { kFloat = 0, kInt = 1, kUint = 2 };

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

void write(void* record, Kind kind, const Numbers& numbers) {
  auto* bytes = static_cast<unsigned char*>(record);
  bytes[2] = kind;
  std::memcpy(bytes + 24, &numbers, sizeof numbers);
}

int fill(const void* data, int dtype, int ndim, const int64_t* sizes, const int64_t* strides,
         int threads, const double* range, uint64_t* in_range, void* record) {
  const PlainArithmetic plain;
  Layout layout;
  const uint64_t repeat = row_layout(ndim, sizes, strides, layout);
  const RowJob job{data, dtype, &layout, 1.0, range};
  Partial part;
  if (!whole(kernels->row, job, threads, part)) return 1;
  Numbers out;
  const uint64_t count = static_cast<uint64_t>(layout.count);
  Kind kind = kFloat;
  if (count > 0 && is_integer(dtype)) {
    kind = part.int_high >> 63 > 0 ? kUint : kInt;
    finish_ints(part, repeat, out);
  } else {
    finish_floats(job, part, repeat, threads, out);
  }
  out.count = count * repeat;
  out.nan = part.nan * repeat;
  out.posinf = part.posinf * repeat;
  out.neginf = part.neginf * repeat;
  out.zero = part.zero * repeat;
  out.negative = part.negative * repeat;
  out.positive = out.count - out.nan - out.zero - out.negative;
  write(record, kind, out);
  if (range && in_range) *in_range = part.in_range * repeat;
  return 0;
}

// ---------------------------------------------------------------------------------------------
// Python tensors, through DLPack. The structures are those of DLPack 1.

struct DLTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

int dtype_of(const DLTensor& tensor) {
  if (tensor.lanes != 1) return -1;
  const int bits = tensor.bits;
  switch (tensor.code) {
    case 0: return bits == 8 ? kInt8 : bits == 16 ? kInt16 : bits == 32 ? kInt32
                   : bits == 64 ? kInt64 : -1;
    case 1: return bits == 8 ? kUint8 : bits == 16 ? kUint16 : bits == 32 ? kUint32
                   : bits == 64 ? kUint64 : -1;
    case 2: return bits == 16 ? kFloat16 : bits == 32 ? kFloat32 : bits == 64 ? kFloat64 : -1;
    case 4: return bits == 16 ? kBfloat16 : -1;
    case 5: return bits == 32 ? kComplex32 : bits == 64 ? kComplex64 : bits == 128 ? kComplex128 : -1;
    case 6: return bits == 8 ? kBool : -1;
    case 10: return kFloat8E4m3fn;
    case 11: return kFloat8E4m3fnuz;
    case 12: return kFloat8E5m2;
    case 13: return kFloat8E5m2fnuz;
    case 14: return kFloat8E8m0fnu;
    default: return -1;
  }
}

constexpr int kOnCpu = 1, kPinned = 3;

// Other Python threads run while a tensor of more than this many elements is read.
constexpr int64_t kLetOthersRunFrom = int64_t{1} << 16;

}  // namespace
}  // namespace opscope

using namespace opscope;

extern "C" {

int opscope_row(const void* data, int dtype, int ndim, const int64_t* sizes,
                const int64_t* strides, int threads, const double* range, uint64_t* in_range,
                void* record) {
  try {
    return fill(data, dtype, ndim, sizes, strides, threads, range, in_range, record);
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

int opscope_row_of_object(const OpscopePython* python, void* object, int threads, void* record) {
  DLTensor tensor;
  if (python->dltensor_from_object(object, &tensor) != 0) return -1;
  const int dtype = dtype_of(tensor);
  if (dtype < 0 || (tensor.device_type != kOnCpu && tensor.device_type != kPinned)) return 1;
  const char* data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  if (count_of(tensor.ndim, tensor.shape) < kLetOthersRunFrom) {
    return opscope_row(data, dtype, tensor.ndim, tensor.shape, tensor.strides, threads, nullptr,
                       nullptr, record);
  }
  void* state = python->save_thread();
  const int result = opscope_row(data, dtype, tensor.ndim, tensor.shape, tensor.strides, threads,
                                 nullptr, nullptr, record);
  python->restore_thread(state);
  return result;
}

int opscope_pair(const void* a, const void* b, int dtype, int ndim, const int64_t* sizes,
                 const int64_t* a_strides, const int64_t* b_strides, double rtol, double atol,
                 int equal_nan, int threads, double* out) {
  const PlainArithmetic plain;
  Layout layout;
  pair_layout(ndim, sizes, a_strides, b_strides, layout);
  PairJob job{{a, b}, dtype, &layout, 1.0, rtol, atol, equal_nan != 0};
  PairPartial part;
  try {
    if (!whole(kernels->pair, job, threads, part)) return 1;
    double scale = 1;
    if (!(value_of(part.distance) < __builtin_inf() && value_of(part.size) < __builtin_inf())) {
      // The sums overflow, the means need not.
      scale = job.scale = 0x1p-70;
      part = PairPartial();
      whole(kernels->pair, job, threads, part);
    }
    const double n = static_cast<double>(part.finite), nan = __builtin_nan("");
    out[0] = part.finite ? value_of(part.distance) / n / scale : nan;
    out[1] = part.finite ? value_of(part.size) / n / scale : nan;
    out[2] = part.largest < 0 ? nan : part.largest;
    out[3] = static_cast<double>(part.outside);
    out[4] = n;
    out[5] = static_cast<double>(part.nan_a);
    out[6] = static_cast<double>(part.nan_b);
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

void opscope_copy(const int64_t* pairs, int64_t count) {
  constexpr size_t kKind = 2, kNumbers = 24, kBytes = 128;  // as opscope/stats/record.py has them
  for (int64_t i = 0; i < count; ++i) {
    const char* from = reinterpret_cast<const char*>(pairs[2 * i]);
    char* to = reinterpret_cast<char*>(pairs[2 * i + 1]);
    std::memcpy(to + kNumbers, from + kNumbers, kBytes - kNumbers);
    to[kKind] = from[kKind];
    __atomic_store_n(to, from[0], __ATOMIC_RELEASE);
  }
}

const char* opscope_features(void) { return kernels->name; }

int opscope_force(const char* name) {
  const Kernels* best = best_kernels();
  const Kernels* usable[] = {
      &kernels_baseline,
#ifdef OPSCOPE_X86
      best == &kernels_baseline ? &kernels_baseline : &kernels_avx2,
      best == &kernels_avx512 ? &kernels_avx512 : &kernels_baseline,
#endif
  };
  for (const Kernels* one : usable) {
    if (std::strcmp(one->name, name) == 0) {
      kernels = one;
      return 0;
    }
  }
  if (std::strcmp(name, "") != 0) return 1;
  kernels = best;
  return 0;
}

}  // extern "C"
