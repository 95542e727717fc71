// The dimensions of tensors, sorted and merged into the smallest layout with the same elements.
#pragma once

#include <cstdlib>

#include "stats.h"

namespace opscope {
namespace {

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

}  // namespace
}  // namespace opscope
