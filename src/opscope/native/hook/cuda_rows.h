// Rows of CUDA tensors, enqueued without Python: what stats/cuda/device.py does for one stream.
#pragma once

#include <ATen/core/TensorBase.h>
#include <Python.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "python_objects.h"

namespace opscope {

// How the elements of a dtype are read: stats/cuda/forms.py.
struct Form {
  int number = -1;  // below 0: Python must see to it
  int64_t size = 0, group = 0;
};

// The rows of one device. Memory, streams and tables belong to its DeviceRows in Python.
class CudaLane {
 public:
  // `device` is a DeviceRows, `forms` are by dtype number.
  CudaLane(PyObject* device, int index, std::vector<Form> forms);

  // Enqueue the row of a tensor; false if Python must do it. The interpreter lock is held. Large
  // tensors are read at once, or `together` by the next call of `launch_together`.
  bool submit(const at::TensorBase& tensor, char* record, bool together);
  void launch_together();
  // Something is about to write to this memory: read what waits of it.
  void before_write(const at::TensorBase& tensor);
  // Read everything that waits.
  void launch_all();
  // Read everything that waits; the tables are given back. Nothing while a graph is captured.
  void end_step();
  // Whether Python's own batches wait to read memory that is about to be written to.
  bool python_waits(const at::TensorBase& tensor) const;

 private:
  struct Kernel {
    bool known = false;
    void* function = nullptr;
    unsigned threads = 0, shared = 0;
  };
  struct Batch {
    int64_t table = 0, count = 0, elements = 0, bytes = 0;  // `elements`: of the largest
    std::vector<c10::Storage> held;
  };
  // Elements in up to three dimensions, those that lie closest first: stats/cuda/layout.py.
  struct Layout {
    int64_t times = 1;                // how often each element counts
    int64_t count = 1;                // elements that are there
    int64_t runs[5] = {1, 1, 0, 0, 0};  // inner, rows; steps of inner, rows, outer
    bool dense = false, readable = false;
  };
  static Layout layout_of(const at::TensorBase& tensor);
  bool enter();
  bool capturing() const;
  bool stream_is_captured() const;
  const Kernel& kernel(int number, bool aligned, bool runs = false);
  void launch(size_t batch);
  template <size_t count>
  void launch(const Kernel& kernel, int64_t programs, int64_t tensors,
              int64_t (&values)[count]) const;
  int64_t take_table();

  Ref device_, held_;
  int index_;
  std::vector<Form> forms_;
  int64_t* cursor_ = nullptr;
  std::vector<Kernel> kernels_;
  std::vector<Batch> batches_;
  std::unordered_map<const void*, size_t> waiting_;  // storage → batch
  int64_t held_bytes_ = 0;
  int64_t table_ = 0, table_end_ = 0;
  int64_t stream_id_ = -1;
  void* stream_ = nullptr;
};

}  // namespace opscope
