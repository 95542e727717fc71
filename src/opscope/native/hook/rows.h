// Rows of values: which record each gets, and what need not be read again.
#pragma once

#include <ATen/core/TensorBase.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda_rows.h"
#include "flat_map.h"
#include "generated/record.h"
#include "python_objects.h"

namespace opscope {

// opscope_row of the statistics library.
using RowFunction = int (*)(const void*, int, int, const int64_t*, const int64_t*, int,
                            const double*, uint64_t*, void*);

// A row of the current epoch, and the tensor it is of; between epochs only `kind` means something.
struct Seen {
  uint64_t epoch = 0;
  const void* data = nullptr;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::SmallVector<int64_t, 4> sizes, strides;
  int64_t kind = -1;  // the number of this dtype with these sizes
  char* record = nullptr;
  bool filled = false;  // otherwise a device is still at it
  uint64_t clock = 0;   // when it was read, counted in writes
  int64_t call = 0;     // and in calls of the step, for outputs
  int64_t made_in = -1;  // the call that made the tensor what it is
  bool blank = false;   // whether it was filled with one number: memory for others to write to
};

// A row to be computed when the interpreter lock is released.
struct Job {
  const at::TensorBase* tensor;
  char* record;
};

using Jobs = c10::SmallVector<Job, 4>;

struct Place {
  int64_t step, node, call;
  uint8_t side;
};

class RowBook {
 public:
  uint64_t epoch = 1;
  RowFunction row = nullptr;
  std::vector<std::string> dtype_names;  // by number; empty where there is no kernel
  int64_t* cursor = nullptr;  // next offset, end offset, address: see stats/memory.py
  Ref measure_slowly, kind_number, advance, submit;
  std::vector<std::unique_ptr<CudaLane>> lanes;  // by device; null where nothing is enqueued here
  bool together = false;  // whether what comes now is best read together
  bool python_lanes = false;  // whether there are devices whose rows only Python enqueues
  std::vector<int64_t> moments;
  std::vector<int64_t> copies;  // addresses of records, from and to

  Seen& outside(PyObject* source) { return outside_[source]; }

  // Something is about to write to this tensor's memory.
  void note_write(const at::TensorBase& tensor) {
    if (tensor.has_storage()) written_[tensor.storage().data()] = ++clock_;
  }

  bool is_row_of(const Seen& seen, const at::TensorBase& tensor) const {
    return seen.epoch == epoch && !was_written(tensor, seen.clock) && seen.data == tensor.unsafeGetTensorImpl()->data() &&
           seen.dtype == tensor.scalar_type() && tensor.sizes().equals(seen.sizes) &&
           tensor.strides().equals(seen.strides);
  }

  CudaLane* lane_of(const at::TensorBase& tensor) const {
    const auto index = static_cast<size_t>(tensor.get_device());
    return index < lanes.size() ? lanes[index].get() : nullptr;
  }

  // Have the devices read what came together.
  void launch_together() {
    together = false;
    for (const auto& lane : lanes) {
      if (lane) lane->launch_together();
    }
  }

  // Write the row of a value into a new record, or see to it that it will be. `known` is a row of
  // the same elements, or null. `mine` is where this value's row is remembered.
  // Returns the record, unless Python made it.
  char* measure(const Place& place, int64_t slot, const at::TensorBase& tensor, PyObject* source,
               const Seen* known, Seen& mine, Jobs& jobs);

  void end_step() {
    ++epoch;
    outside_.clear();
    written_.clear();
    moments.clear();
    copies.clear();
  }

 private:
  bool was_written(const at::TensorBase& tensor, uint64_t since) const {
    const uint64_t* found = written_.find(tensor.storage().data());
    return found != nullptr && *found > since;
  }
  int64_t kind_of(const at::TensorBase& tensor, const Seen& mine);
  char* take();

  std::unordered_map<PyObject*, Seen> outside_;
  FlatMap<const void*, uint64_t, AddressHash> written_;  // by where the storage begins
  uint64_t clock_ = 0;
  std::unordered_map<std::string, int64_t> kinds_;
};

void run(const Jobs& jobs, RowFunction row);

}  // namespace opscope
