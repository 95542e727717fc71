// Rows of values: which record each gets, and what need not be read again.
#pragma once

#include <ATen/core/TensorBase.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
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

inline uint64_t count_at(const char* record, size_t offset) {
  uint64_t count = 0;
  std::memcpy(&count, record + offset, sizeof count);
  return count;
}

// Sizes and strides as one number, which is another for others.
inline uint64_t layout_number(const at::TensorBase& tensor) {
  uint64_t number = 0x243f6a8885a308d3u;
  const auto mix = [&number](int64_t value) {  // no value leaves a number, zero least of all, as it is
    number = (number ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    number = (number ^ number >> 29) * 0xd6e8feb86659fd93u + 0x13198a2e03707344u;
    number ^= number >> 32;
  };
  mix(tensor.dim());
  for (const int64_t size : tensor.sizes()) mix(size);
  for (const int64_t stride : tensor.strides()) mix(stride);
  return number;
}

// A row of the current epoch, and the tensor it is of; between epochs only `kind` means something.
// There is one per output, in one line of the cache each: a step goes through all of them.
struct alignas(64) Seen {
  uint64_t epoch = 0;
  const void* data = nullptr;
  uint64_t layout = 0;
  char* record = nullptr;
  uint64_t clock = 0;   // when it was read, counted in writes
  int64_t call = 0;     // and in calls of the step, for outputs
  int64_t made_in = -1;  // the call that made the tensor what it is
  int32_t kind = -1;  // the number of this dtype with these sizes
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  bool filled = false;  // otherwise a device is still at it
  bool blank = false;   // whether it was filled with one number: memory for others to write to
};
static_assert(sizeof(Seen) == 64);

// Whether some values hold NaN, or Inf.
struct Bad {
  bool nan = false, infinity = false;

  // Of numbers that are in the cache: those of a record just written come from there late.
  void add(const char* record) {
    nan |= count_at(record, kNanAt) != 0;
    infinity |= (count_at(record, kPosinfAt) | count_at(record, kNeginfAt)) != 0;
  }
  void add(const Bad& other) {
    nan |= other.nan;
    infinity |= other.infinity;
  }
  explicit operator bool() const { return nan || infinity; }
};

// A row to be computed when the interpreter lock is released.
struct Job {
  const at::TensorBase* tensor;
  char* record;
  bool alarms;  // somebody is to be told at once if it is bad
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
  std::atomic<bool> bad{false};  // whether a value that was read in this step holds NaN or Inf
  bool together = false;  // whether what comes now is best read together
  bool python_lanes = false;  // whether there are devices whose rows only Python enqueues
  std::vector<int64_t> moments;
  std::vector<int64_t> copies;  // addresses of records, from and to

  // The row of something from outside; it is remembered from step to step, for its kind.
  Seen& outside(PyObject* source) {
    uint32_t& number = outside_number_[source];
    if (number == 0) {
      outside_.emplace_back();
      number = static_cast<uint32_t>(outside_.size());
    }
    return outside_[number - 1];
  }

  // Something is about to write to this tensor's memory.
  void note_write(const at::TensorBase& tensor) {
    if (tensor.has_storage()) written_[tensor.storage().data()] = ++clock_;
  }

  bool is_row_of(const Seen& seen, const at::TensorBase& tensor) const {
    return seen.epoch == epoch && !was_written(tensor, seen.clock) && seen.data == tensor.unsafeGetTensorImpl()->data() &&
           seen.dtype == tensor.scalar_type() && seen.layout == layout_number(tensor);
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
  // If somebody is to be told at once whether it is bad, `alarm` learns it, or the job says so.
  void measure(const Place& place, int64_t slot, const at::TensorBase& tensor, PyObject* source,
               const Seen* known, Seen& mine, Jobs& jobs, Bad* alarm = nullptr);

  void end_step() {
    ++epoch;
    bad = false;
    if (outside_.size() > kOutsideRemembered) {
      outside_.clear();
      outside_number_.clear();
    }
    written_.clear();
    moments.clear();
    copies.clear();
  }

 private:
  bool was_written(const at::TensorBase& tensor, uint64_t since) const {
    const uint64_t* found = written_.find(tensor.storage().data());
    return found != nullptr && *found > since;
  }
  int32_t kind_of(const at::TensorBase& tensor, uint64_t layout, const Seen& mine);
  char* take();

  static constexpr size_t kOutsideRemembered = size_t{1} << 17;
  FlatMap<const PyObject*, uint32_t, AddressHash> outside_number_;
  std::deque<Seen> outside_;
  FlatMap<const void*, uint64_t, AddressHash> written_;  // by where the storage begins
  uint64_t clock_ = 0;
  std::unordered_map<std::string, int32_t> kinds_;
};

Bad run(const Jobs& jobs, RowBook& rows);  // of those that alarm
// Whether that takes a few microseconds only.
bool are_brief(const Jobs& jobs);

}  // namespace opscope
