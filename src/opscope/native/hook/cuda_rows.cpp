#include "cuda_rows.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <string>

#include "cuda_driver.h"
#include "generated/device_rows.h"

namespace opscope {
namespace {

constexpr int64_t kGatheredBytes = kGathered * kGroupBytes;
enum { kTiny, kSmall, kMiddle };
constexpr size_t kClasses = 3;

// stats/cuda/forms.py: programs
int64_t programs_for(int64_t count, int64_t group, int64_t coarse) {
  const int64_t full = count / group;
  const int64_t whole = full <= coarse ? (full + 7) / 8 : full;
  const int64_t most = full > kVeryLarge ? kPrograms + kPrograms / 2 : kPrograms;
  return std::min(whole, std::max(most, (full + 999) / 1000)) + (count > full * group);
}

}  // namespace

CudaLane::CudaLane(PyObject* device, int index, std::vector<Form> forms)
    : device_(Ref::share(device)), index_(index), forms_(std::move(forms)) {
  held_ = checked(PyObject_GetAttrString(device, "held"));
  Ref cursor = checked(PyObject_GetAttrString(device, "cursor"));
  Ref info = checked(PyObject_CallMethod(cursor.get(), "buffer_info", nullptr));
  cursor_ = static_cast<int64_t*>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(info.get(), 0)));
  int highest = 0;
  for (const Form& form : forms_) highest = std::max(highest, form.number);
  kernels_.resize(4 * (static_cast<size_t>(highest) + 1));
  batches_.resize(kClasses * 2 * (static_cast<size_t>(highest) + 1));
}

// Finds the current stream; false if it is not the only one, or is being captured into a graph.
bool CudaLane::enter() {
  const auto* guard = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index_));
  if (guard->getDevice().index() != index_) return false;
  const int64_t id = guard->getStream(device).id();
  if (id != stream_id_ || cursor_[kStream] != reinterpret_cast<int64_t>(stream_)) {
    launch_all();
    stream_id_ = -1;
    Ref raw = checked(PyObject_CallMethod(device_.get(), "current", nullptr));
    stream_ = PyLong_AsVoidPtr(raw.get());
    if (cursor_[kStream] != reinterpret_cast<int64_t>(stream_)) {
      checked(PyObject_CallMethod(device_.get(), "enter", "O", raw.get()));
    }
    Ref alone = checked(PyObject_GetAttrString(device_.get(), "one_stream"));
    if (alone.get() != Py_True) return false;
    stream_id_ = id;
  }
  return !stream_is_captured();
}

bool CudaLane::stream_is_captured() const {
  return stream_ != nullptr && is_captured(stream_);  // the default stream cannot be captured
}

// Whether the current stream is being captured: what is launched then becomes part of a graph.
bool CudaLane::capturing() const {
  const auto* guard = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index_));
  if (guard->getStream(device).id() != stream_id_) {
    Ref found = checked(PyObject_CallMethod(device_.get(), "capturing", nullptr));
    return found.get() == Py_True;
  }
  return stream_is_captured();
}

const CudaLane::Kernel& CudaLane::kernel(int number, bool aligned, bool runs) {
  Kernel& kernel =
      kernels_[4 * static_cast<size_t>(number) + (runs ? 2 : 0) + (aligned ? 1 : 0)];
  if (!kernel.known) {
    Ref info = checked(PyObject_CallMethod(device_.get(), "kernel_info", "iOO", number,
                                           aligned ? Py_True : Py_False,
                                           runs ? Py_True : Py_False));
    kernel.function = PyLong_AsVoidPtr(PyTuple_GET_ITEM(info.get(), 0));
    kernel.threads = static_cast<unsigned>(PyLong_AsLong(PyTuple_GET_ITEM(info.get(), 1)));
    kernel.shared = static_cast<unsigned>(PyLong_AsLong(PyTuple_GET_ITEM(info.get(), 2)));
    kernel.known = true;
  }
  return kernel;
}

template <size_t count>
void CudaLane::launch(const Kernel& kernel, int64_t programs, int64_t tensors,
                      int64_t (&values)[count]) const {
  int64_t scratch = 0, profile = 0;
  void* parameters[count + 2];
  for (size_t i = 0; i < count; ++i) parameters[i] = &values[i];
  parameters[count] = &scratch;
  parameters[count + 1] = &profile;
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index_));
  const c10::DeviceGuard guard(device);
  const int failed = cuda_driver().launch(
      kernel.function, static_cast<unsigned>(programs), static_cast<unsigned>(tensors), 1,
      kernel.threads, 1, 1, kernel.shared, stream_, parameters, nullptr);
  if (failed != 0) {
    throw std::runtime_error("cuLaunchKernel failed with error " + std::to_string(failed));
  }
}

int64_t CudaLane::take_table() {
  if (table_ == 0 || table_ + kMost * kEntry > table_end_) {
    Ref memory = checked(PyObject_CallMethod(device_.get(), "new_table", nullptr));
    table_ = PyLong_AsLongLong(PyTuple_GET_ITEM(memory.get(), 0));
    table_end_ = table_ + PyLong_AsLongLong(PyTuple_GET_ITEM(memory.get(), 1));
  }
  const int64_t table = table_;
  table_ += kMost * kEntry;
  return table;
}

// stats/cuda/layout.py: readable
CudaLane::Layout CudaLane::layout_of(const at::TensorBase& tensor) {
  struct Dim {
    int64_t step, size;
  };
  Layout layout;
  c10::SmallVector<Dim, 8> dims;
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    if (strides[i] == 0) {
      layout.times *= sizes[i];
      continue;
    }
    layout.count *= sizes[i];
    dims.push_back({strides[i], sizes[i]});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) {
    return a.step != b.step ? a.step < b.step : a.size < b.size;
  });
  size_t kept = 0;
  for (const Dim& dim : dims) {
    if (kept > 0 && dim.step == dims[kept - 1].step * dims[kept - 1].size) {
      dims[kept - 1].size *= dim.size;
    } else {
      dims[kept++] = dim;
    }
  }
  layout.dense = kept == 0 || (kept == 1 && dims[0].step == 1);
  layout.readable = layout.dense || (kept <= 3 && layout.count < kMostInRuns);
  if (!layout.readable) return layout;
  for (size_t i = 0; i < kept; ++i) {
    if (i < 2) layout.runs[i] = dims[i].size;
    layout.runs[2 + i] = dims[i].step;
  }
  return layout;
}

bool CudaLane::submit(const at::TensorBase& tensor, char* record, bool together) {
  const auto dtype = static_cast<size_t>(tensor.scalar_type());
  if (dtype >= forms_.size() || forms_[dtype].number < 0) return false;
  if (tensor.numel() == 0 || tensor.get_device() != index_) return false;
  Layout layout;
  if (tensor.is_contiguous()) {
    layout.count = tensor.numel();
    layout.dense = true;
  } else {
    layout = layout_of(tensor);
    if (!layout.readable) return false;
  }
  const int64_t count = layout.count;
  const Form& form = forms_[dtype];
  const auto pointer = reinterpret_cast<int64_t>(tensor.unsafeGetTensorImpl()->data());
  bool aligned = (pointer & 15) == 0;
  if (!layout.dense) {
    const int64_t width = std::max<int64_t>(1, kVectorBytes / form.size);
    const auto& [inner, rows, inner_step, row_step, outer_step] = layout.runs;
    aligned = aligned && inner_step == 1 && inner % width == 0 && row_step % width == 0 &&
              outer_step % width == 0;
  }
  const Kernel& found = kernel(form.number, aligned, !layout.dense);
  if (found.function == nullptr || !enter()) return false;
  if (cursor_[kHead] == cursor_[kHeadEnd]) {
    checked(PyObject_CallMethod(device_.get(), "new_page", nullptr));
  }
  const int64_t bytes = count * form.size;
  const bool gathered = layout.dense && bytes > kSmallBytes &&
                        bytes <= (together ? kGatheredBytes : kMiddleBytes);
  const int64_t programs = programs_for(count, form.group, gathered ? kGathered : kCoarse);
  if (cursor_[kPart] + programs * kPartBytes > cursor_[kPartEnd]) {
    checked(PyObject_CallMethod(device_.get(), "new_parts", "L",
                                static_cast<long long>(programs * kPartBytes)));
  }
  const int64_t head = cursor_[kHead], part = cursor_[kPart];
  cursor_[kHead] = head + kHeadBytes;
  cursor_[kPart] = part + programs * kPartBytes;
  *reinterpret_cast<int64_t*>(cursor_[kSlot]) = reinterpret_cast<int64_t>(record);
  cursor_[kSlot] += 8;
  if (!layout.dense) {
    const auto& [inner, rows, inner_step, row_step, outer_step] = layout.runs;
    int64_t values[] = {pointer, count,      part,     head,      layout.times,
                        inner,   rows,       inner_step, row_step, outer_step};
    launch(found, programs, 1, values);
    return true;
  }
  if (bytes > kSmallBytes && !gathered) {
    int64_t values[] = {0, pointer, count, part, head, layout.times};
    launch(found, programs, 1, values);
    return true;
  }
  // Sizes are not mixed: the largest tensor of a batch says how many programs each of them gets.
  const size_t size_class = bytes <= kTinyBytes ? kTiny : bytes <= kSmallBytes ? kSmall : kMiddle;
  const size_t number =
      kClasses * (2 * static_cast<size_t>(form.number) + (aligned ? 1 : 0)) + size_class;
  const void* storage = tensor.storage().unsafeGetStorageImpl();
  if (auto other = waiting_.find(storage); other != waiting_.end() && other->second != number) {
    launch(other->second);
  }
  Batch& batch = batches_[number];
  if (batch.table == 0) batch.table = take_table();
  const int64_t entry[] = {pointer, count, part, head, layout.times};
  std::copy(entry, entry + 5, reinterpret_cast<int64_t*>(batch.table + batch.count * kEntry));
  ++batch.count;
  batch.elements = std::max(batch.elements, count);
  batch.bytes += bytes;
  held_bytes_ += bytes;
  batch.held.push_back(tensor.storage());
  waiting_[storage] = number;
  if (batch.count == kMost) {
    launch(number);
  } else if (held_bytes_ > kHeldBytes && !together) {
    launch_all();
  }
  return true;
}

void CudaLane::launch(size_t number) {
  Batch& batch = batches_[number];
  if (batch.count == 0) return;
  const Form* form = nullptr;
  for (const Form& each : forms_) {
    if (each.number == static_cast<int>(number / kClasses / 2)) form = &each;
  }
  auto* entries = reinterpret_cast<int64_t*>(batch.table);
  for (size_t i = 0; i < batch.held.size(); ++i) {
    if (batch.held[i].nbytes() == 0) entries[5 * i + 1] = 0;  // freed in spite of us, as FSDP does
  }
  const int64_t coarse = number % kClasses == kMiddle ? kGathered : kCoarse;
  int64_t values[] = {batch.table, coarse, 0, 0, 0, 0};
  const int64_t programs =
      std::clamp(programs_for(batch.elements, form->group, coarse), int64_t{1}, kWidest);
  const int64_t count = batch.count;
  held_bytes_ -= batch.bytes;
  for (const c10::Storage& storage : batch.held) waiting_.erase(storage.unsafeGetStorageImpl());
  batch.held.clear();  // the stream frees and reuses the memory only after it was read
  batch.table = batch.count = batch.elements = batch.bytes = 0;
  const size_t variant = number / kClasses;
  launch(kernel(static_cast<int>(variant / 2), variant % 2 != 0), programs, count, values);
}

void CudaLane::end_step() {
  if (!waiting_.empty() && capturing()) return;
  launch_all();
  table_ = table_end_ = 0;  // the device reads them, and somebody else will write to them
}

void CudaLane::launch_all() {
  if (waiting_.empty()) return;
  for (size_t number = 0; number < batches_.size(); ++number) launch(number);
}

bool CudaLane::python_waits(const at::TensorBase& tensor) const {
  if (PyDict_GET_SIZE(held_.get()) == 0 || !tensor.has_storage()) return false;
  Ref key = checked(PyLong_FromVoidPtr(tensor.storage().unsafeGetStorageImpl()));
  const int found = PyDict_Contains(held_.get(), key.get());
  if (found < 0) throw PythonError();
  return found == 1;
}

void CudaLane::launch_together() {
  if (waiting_.empty() || capturing()) return;
  for (size_t number = kMiddle; number < batches_.size(); number += kClasses) launch(number);
}

void CudaLane::before_write(const at::TensorBase& tensor) {
  if (waiting_.empty() || !tensor.has_storage()) return;
  const auto found = waiting_.find(tensor.storage().unsafeGetStorageImpl());
  if (found != waiting_.end() && !capturing()) launch(found->second);
}

}  // namespace opscope
