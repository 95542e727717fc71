// The C ABI of the statistics: which kernels run, on which tensor.
#include "api.h"

#include <cstring>
#include <new>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

#include "chunks.h"
#include "dispatch.h"
#include "generated/record.h"
#include "layouts.h"
#include "results.h"
#include "stats.h"

namespace opscope {
namespace {

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
  RowKind kind = kFloat;
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
  for (int64_t i = 0; i < count; ++i) {
    const char* from = reinterpret_cast<const char*>(pairs[2 * i]);
    char* to = reinterpret_cast<char*>(pairs[2 * i + 1]);
    std::memcpy(to + kNumbers, from + kNumbers, kRecordBytes - kNumbers);
    to[kKindAt] = from[kKindAt];
    __atomic_store_n(to + kValidAt, from[kValidAt], __ATOMIC_RELEASE);
  }
}

void opscope_place(const int64_t* addresses, const int64_t* rows, int64_t count) {
  constexpr int64_t kWords = kRecordBytes / static_cast<int64_t>(sizeof *rows);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* row = rows + i * kWords;
    if (row[1] <= 0) continue;
    char* to = reinterpret_cast<char*>(addresses[i]);
    std::memcpy(to + kNumbers, row + 1, kRecordBytes - kNumbers);
    to[kKindAt] = static_cast<char>(row[0]);
    __atomic_store_n(to + kValidAt, 1, __ATOMIC_RELEASE);
  }
}

const char* opscope_features(void) { return kernels->name; }

int opscope_force(const char* name) { return force_kernels(name) ? 0 : 1; }

}  // extern "C"
