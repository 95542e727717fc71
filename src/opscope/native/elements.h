// The elements of a tensor in the order of its memory: walked, converted and gathered.
#pragma once

#include "dtypes.h"
#include "lean.h"
#include "stats.h"

namespace opscope {
namespace {

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

class Cursor {
 public:
  Cursor(const Layout& layout, int64_t begin) : layout_(layout), last_(layout.ndim - 1) {
    for (int dim = last_; dim >= 0; --dim) {
      index_[dim] = begin % layout.sizes[dim];
      begin /= layout.sizes[dim];
      offset_[0] += index_[dim] * layout.strides[0][dim];
      offset_[1] += index_[dim] * layout.strides[1][dim];
    }
  }

  int64_t offset(int tensor = 0) const { return offset_[tensor]; }
  int64_t stride(int tensor = 0) const { return layout_.strides[tensor][last_]; }
  int64_t left_in_run() const { return layout_.sizes[last_] - index_[last_]; }

  void advance(int64_t count) {  // at most left_in_run()
    move(last_, count);
    for (int dim = last_; dim > 0 && index_[dim] == layout_.sizes[dim]; --dim) {
      move(dim, -index_[dim]);
      move(dim - 1, 1);
    }
  }

 private:
  void move(int dim, int64_t count) {
    index_[dim] += count;
    offset_[0] += count * layout_.strides[0][dim];
    offset_[1] += count * layout_.strides[1][dim];
  }

  const Layout& layout_;
  int last_;
  int64_t index_[kMaxDims];
  int64_t offset_[2] = {0, 0};
};

template <class Type>
void convert(const typename Type::Stored* from, int64_t stride, int64_t count,
             typename Type::Element* to) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = Type::get(load(from + i));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Type::get(load(from + i * stride));
  }
}

#ifdef OPSCOPE_LANES
template <>
void convert<Float16>(const uint16_t* from, int64_t stride, int64_t count, float* to) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= count; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
    }
  }
  for (; i < count; ++i) to[i] = half_to_float(load(from + i * stride));
}
#endif

// The next `count` elements of one tensor, from several runs if the runs are short.
template <class Type>
void gather(const typename Type::Stored* data, Cursor& cursor, int64_t count,
            typename Type::Element* to) {
  while (count > 0) {
    const int64_t run = least(count, cursor.left_in_run());
    convert<Type>(data + cursor.offset(), cursor.stride(), run, to);
    cursor.advance(run);
    to += run;
    count -= run;
  }
}

inline bool is_flat(const Layout& layout) {
  return layout.ndim == 1 && layout.strides[0][0] == 1;
}

// Elements of one block, where they are: side by side from `data` on, or else where `start` says.
template <class Stored>
struct Piece {
  const Stored* data;
  const Cursor* start;
  int64_t count;
  int64_t after = 0;  // elements behind them that will be read next
};

template <class Type>
void copy(const Piece<typename Type::Stored>& piece, typename Type::Element* to) {
  if (piece.start == nullptr) return convert<Type>(piece.data, 1, piece.count, to);
  Cursor cursor = *piece.start;
  gather<Type>(piece.data, cursor, piece.count, to);
}

}  // namespace
}  // namespace opscope
