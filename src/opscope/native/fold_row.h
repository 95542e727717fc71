// The row of a tensor, block by block: what a block is taken as, and where its elements lie.
//
// Blocks stay in the first-level cache, and are added up without rounding errors (`Sum`).
#pragma once

#include <type_traits>

#include "dtypes.h"
#include "elements.h"
#include "fold_block.h"
#include "lean.h"
#include "stats.h"

namespace opscope {
namespace {

// The more lanes there are, the fewer additions each of them sees: at most 512 per block.
#ifdef OPSCOPE_LANES
constexpr int kBlockBytes = 16384;
#else
constexpr int kBlockBytes = 8192;
#endif

// Runs of elements that lie side by side are read in place if they have this many bytes.
constexpr int64_t kLongRun = 256;

template <class Type>
struct Blocks {
  using Stored = typename Type::Stored;
  using Element = typename Type::Element;
  static constexpr bool kLong = false;

  static void count_in_range(const Stored* x, int64_t count, const double* range, Partial& into) {
    constexpr int64_t size = 1024;
    Element some[size];
    for (int64_t i = 0; i < count; i += size) {
      const int64_t part = least(count - i, size);
      convert<Type>(x + i, 1, part, some);
      into.in_range += count_in(some, part, range);
    }
  }
};

template <class T>
struct Blocks<Same<T>> {
  static constexpr bool kLong = true;

  static void count_in_range(const T* x, int64_t count, const double* range, Partial& into) {
    into.in_range += count_long_in(x, count, range);
  }
};

template <class Type, bool LEAN = Lean<Type>::kExists>
struct BlockSize {
  static constexpr int64_t kSize = kBlockBytes / sizeof(typename Type::Element);
};
template <class Type>
struct BlockSize<Type, true> {
  static constexpr int64_t kSize = Lean<Type>::kBlock;
};
template <class Type>
constexpr int64_t kBlockSize = BlockSize<Type>::kSize;

// Adds what the lean loop found of a piece, which is read again where that is not enough.
template <class Type>
void fold_lean(const Lean<Type>& lean, const Piece<typename Type::Stored>& piece, Partial& into) {
  const auto found = lean.finish();
  if constexpr (std::is_same_v<decltype(found), const ExactBlock>) {
    fold_exact(found, piece.count, into);
  } else if constexpr (Blocks<Type>::kLong) {
    using Stored = typename Type::Stored;
    if (lean.all_small()) {
      alignas(64) double elements[kBlockSize<Type>];
      const auto get = [&] {
        copy<SmallLong<Stored>>(piece, elements);
        return static_cast<const double*>(elements);
      };
      return fold_block<true>(found, piece.count, get, into);
    }
    alignas(64) Stored elements[kBlockSize<Type>];
    copy<Type>(piece, elements);
    fold_large(elements, piece.count, into);
  } else {
    using Element = typename Type::Element;
    alignas(64) Element elements[kBlockSize<Type>];
    const auto get = [&] {
      if constexpr (std::is_same_v<typename Type::Stored, Element>) {
        if (piece.start == nullptr) return piece.data;
      }
      copy<Type>(piece, elements);
      return static_cast<const Element*>(elements);
    };
    fold_block<kIsInteger<Type>>(found, piece.count, get, into);
  }
}

// Adds a piece without a lean loop of its own: a plain one reads the elements, most of them copied.
template <class Type>
void fold_plain(const Piece<typename Type::Stored>& piece, double scale, Partial& into) {
  using Element = typename Type::Element;
  alignas(64) Element copied[kBlockSize<Type>];
  const Element* elements = copied;
  if constexpr (std::is_same_v<typename Type::Stored, Element>) {
    if (scale == 1) elements = piece.data;
  }
  if (elements == copied) copy<Type>(piece, copied);
  if constexpr (Blocks<Type>::kLong) {
    if (!all_small(elements, piece.count)) return fold_large(elements, piece.count, into);
    alignas(64) double wide[kBlockSize<Type>];
    convert<SmallLong<Element>>(elements, 1, piece.count, wide);
    const double* get = wide;
    fold_block<true>(lean(get, piece.count), piece.count, [&] { return get; }, into);
  } else {
    if (scale != 1) {
      for (int64_t i = 0; i < piece.count; ++i) copied[i] *= static_cast<Element>(scale);
    }
    const auto get = [&] { return elements; };
    fold_block<kIsInteger<Type>>(lean(elements, piece.count), piece.count, get, into);
  }
}

// Adds elements that lie side by side.
template <class Type>
void fold_piece(const Piece<typename Type::Stored>& piece, double scale, Partial& into) {
  if constexpr (Lean<Type>::kExists) {
    if (scale == 1) {
      Lean<Type> lean;
      lean.take(piece.data, piece.count, piece.after);
      return fold_lean<Type>(lean, piece, into);
    }
  }
  fold_plain<Type>(piece, scale, into);
}

template <class Type>
void fold_flat(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  const auto* data = static_cast<const typename Type::Stored*>(job.data);
  for (; begin < end; begin += kBlockSize<Type>) {
    const int64_t count = least(end - begin, kBlockSize<Type>);
    if (job.range) Blocks<Type>::count_in_range(data + begin, count, job.range, into);
    fold_piece<Type>({data + begin, nullptr, count, end - begin - count}, job.scale, into);
  }
}

// Runs that are long enough to be read where they are. A block is half as large here: where a run
// ends, a lane may see an addition more.
template <class Type>
void fold_runs(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  const auto* data = static_cast<const typename Type::Stored*>(job.data);
  Cursor cursor(*job.layout, begin);
  while (begin < end) {
    const int64_t count = least(end - begin, kBlockSize<Type> / 2);
    const Cursor start = cursor;
    Lean<Type> lean;
    for (int64_t left = count; left > 0;) {
      const int64_t run = least(left, cursor.left_in_run());
      lean.take(data + cursor.offset(), run, cursor.left_in_run() - run);
      cursor.advance(run);
      left -= run;
    }
    fold_lean<Type>(lean, {data, &start, count}, into);
    begin += count;
  }
}

// Elements with gaps between them, which are gathered as they are stored.
template <class Type>
void fold_gathered(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  using Stored = typename Type::Stored;
  const auto* data = static_cast<const Stored*>(job.data);
  alignas(64) Stored gathered[kBlockSize<Type>];
  Cursor cursor(*job.layout, begin);
  for (; begin < end; begin += kBlockSize<Type>) {
    const int64_t count = least(end - begin, kBlockSize<Type>);
    gather<Same<Stored>>(data, cursor, count, gathered);
    if (job.range) Blocks<Type>::count_in_range(gathered, count, job.range, into);
    fold_piece<Type>({gathered, nullptr, count}, job.scale, into);
  }
}

template <class Type>
void fold_range(const RowJob& job, int64_t begin, int64_t end, Partial& into) {
  const Layout& layout = *job.layout;
  if (is_flat(layout)) return fold_flat<Type>(job, begin, end, into);
  if constexpr (Lean<Type>::kExists) {
    const int last = layout.ndim - 1;
    const int64_t run = layout.sizes[last] * static_cast<int64_t>(sizeof(typename Type::Stored));
    if (layout.strides[0][last] == 1 && run >= kLongRun && job.scale == 1 && !job.range) {
      return fold_runs<Type>(job, begin, end, into);
    }
  }
  fold_gathered<Type>(job, begin, end, into);
}

}  // namespace
}  // namespace opscope
