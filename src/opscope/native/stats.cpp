// The statistics kernels, by dtype. Compiled once per instruction set, with OPSCOPE_VARIANT naming it.
#include "stats.h"

#include "dtypes.h"
#include "fold_pairs.h"
#include "fold_row.h"

#ifndef OPSCOPE_VARIANT
#define OPSCOPE_VARIANT baseline
#endif

namespace opscope {
namespace {

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
