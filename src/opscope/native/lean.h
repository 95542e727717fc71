// The lean loops: what is wanted of a block of finite numbers, from the elements as they are
// stored.
//
// Each `Lean<Type>` takes the elements of a block in as many pieces as they lie in, a step of
// vectors at a time, and says what it found. Where there is none for a dtype, or no vector
// instructions, a plain loop reads the elements as float32 or float64, most of them copied.
#pragma once

#include "dtypes.h"
#include "plain_lean.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define OPSCOPE_LANES
#include "lean_floats.h"
#include "lean_integers.h"
#endif

namespace opscope {
namespace {

template <class Type>
struct Lean {
  static constexpr bool kExists = false;
};

#ifdef OPSCOPE_LANES

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
