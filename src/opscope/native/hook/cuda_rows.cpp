#include "cuda_rows.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <string>

namespace opscope {
namespace {

// The cursor of a DeviceRows.
enum { kHead, kHeadEnd, kPart, kPartEnd, kSlot, kStream };
constexpr int64_t kHeadBytes = 64, kPartBytes = 88, kPrograms = 264;
// Larger tensors are best read at once, while they are in the device's cache.
constexpr int64_t kSmallBytes = int64_t{1} << 20, kHeldBytes = int64_t{64} << 20;
constexpr int64_t kTinyBytes = int64_t{4} * 256 * 4 * 16;
constexpr int64_t kMost = 256, kEntry = 5 * 8;
constexpr size_t kClasses = 2;

using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void*, void**, void**);
using IsCapturing = int (*)(void*, int*);

struct Driver {
  Launch launch = nullptr;
  IsCapturing is_capturing = nullptr;
  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);
    if (library == nullptr) return;
    launch = reinterpret_cast<Launch>(dlsym(library, "cuLaunchKernel"));
    is_capturing = reinterpret_cast<IsCapturing>(dlsym(library, "cuStreamIsCapturing"));
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

// stats/cuda/forms.py: programs
int64_t programs_for(int64_t count, int64_t group) {
  const int64_t full = count / group;
  const int64_t whole = full <= 64 ? (full + 7) / 8 : full;
  return std::min(whole, std::max(kPrograms, (full + 999) / 1000)) + (count > full * group);
}

}  // namespace

bool has_cuda_driver() {
  return driver().launch != nullptr && driver().is_capturing != nullptr;
}

CudaLane::CudaLane(PyObject* device, int index, std::vector<Form> forms)
    : device_(Ref::share(device)), index_(index), forms_(std::move(forms)) {
  held_ = checked(PyObject_GetAttrString(device, "held"));
  Ref cursor = checked(PyObject_GetAttrString(device, "cursor"));
  Ref info = checked(PyObject_CallMethod(cursor.get(), "buffer_info", nullptr));
  cursor_ = static_cast<int64_t*>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(info.get(), 0)));
  int highest = 0;
  for (const Form& form : forms_) highest = std::max(highest, form.number);
  kernels_.resize(2 * (static_cast<size_t>(highest) + 1));
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
  if (stream_ == nullptr) return true;  // the default stream cannot be captured
  int status = 0;
  return driver().is_capturing(stream_, &status) == 0 && status == 0;
}

const CudaLane::Kernel& CudaLane::kernel(int number, bool aligned) {
  Kernel& kernel = kernels_[2 * static_cast<size_t>(number) + (aligned ? 1 : 0)];
  if (!kernel.known) {
    Ref info = checked(PyObject_CallMethod(device_.get(), "kernel_info", "iO", number,
                                           aligned ? Py_True : Py_False));
    kernel.function = PyLong_AsVoidPtr(PyTuple_GET_ITEM(info.get(), 0));
    kernel.threads = static_cast<unsigned>(PyLong_AsLong(PyTuple_GET_ITEM(info.get(), 1)));
    kernel.shared = static_cast<unsigned>(PyLong_AsLong(PyTuple_GET_ITEM(info.get(), 2)));
    kernel.known = true;
  }
  return kernel;
}

void CudaLane::launch(const Kernel& kernel, int64_t programs, int64_t tensors,
                      int64_t (&values)[6]) const {
  int64_t scratch = 0, profile = 0;
  void* parameters[] = {&values[0], &values[1], &values[2], &values[3],
                        &values[4], &values[5], &scratch,   &profile};
  const int failed = driver().launch(
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

bool CudaLane::submit(const at::Tensor& tensor, char* record) {
  const auto dtype = static_cast<size_t>(tensor.scalar_type());
  if (dtype >= forms_.size() || forms_[dtype].number < 0) return false;
  const int64_t count = tensor.numel();
  if (count == 0 || tensor.get_device() != index_) return false;
  if (!tensor.is_contiguous() && !tensor.is_non_overlapping_and_dense()) return false;
  const Form& form = forms_[dtype];
  const auto pointer = reinterpret_cast<int64_t>(tensor.unsafeGetTensorImpl()->data());
  const bool aligned = (pointer & 15) == 0;
  const Kernel& found = kernel(form.number, aligned);
  if (found.function == nullptr || !enter()) return false;
  if (cursor_[kHead] == cursor_[kHeadEnd]) {
    checked(PyObject_CallMethod(device_.get(), "new_page", nullptr));
  }
  const int64_t programs = programs_for(count, form.group);
  if (cursor_[kPart] + programs * kPartBytes > cursor_[kPartEnd]) {
    checked(PyObject_CallMethod(device_.get(), "new_parts", "L",
                                static_cast<long long>(programs * kPartBytes)));
  }
  const int64_t head = cursor_[kHead], part = cursor_[kPart];
  cursor_[kHead] = head + kHeadBytes;
  cursor_[kPart] = part + programs * kPartBytes;
  *reinterpret_cast<int64_t*>(cursor_[kSlot]) = reinterpret_cast<int64_t>(record);
  cursor_[kSlot] += 8;
  const int64_t bytes = count * form.size;
  if (bytes > kSmallBytes) {
    int64_t values[] = {0, pointer, count, part, head, 1};
    launch(found, programs, 1, values);
    return true;
  }
  // Sizes are not mixed: the largest tensor of a batch says how many programs each of them gets.
  const size_t size_class = bytes <= kTinyBytes ? 0 : 1;
  const size_t number =
      kClasses * (2 * static_cast<size_t>(form.number) + (aligned ? 1 : 0)) + size_class;
  const void* storage = tensor.storage().unsafeGetStorageImpl();
  if (auto other = waiting_.find(storage); other != waiting_.end() && other->second != number) {
    launch(other->second);
  }
  Batch& batch = batches_[number];
  if (batch.table == 0) batch.table = take_table();
  const int64_t entry[] = {pointer, count, part, head, 1};
  std::copy(entry, entry + 5, reinterpret_cast<int64_t*>(batch.table + batch.count * kEntry));
  ++batch.count;
  batch.elements = std::max(batch.elements, count);
  batch.bytes += bytes;
  held_bytes_ += bytes;
  batch.held.push_back(tensor.storage());
  waiting_[storage] = number;
  if (batch.count == kMost) {
    launch(number);
  } else if (held_bytes_ > kHeldBytes) {
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
  int64_t values[] = {batch.table, 0, 0, 0, 0, 0};
  const int64_t programs = std::max(int64_t{1}, programs_for(batch.elements, form->group));
  const int64_t count = batch.count;
  held_bytes_ -= batch.bytes;
  for (const c10::Storage& storage : batch.held) waiting_.erase(storage.unsafeGetStorageImpl());
  batch.held.clear();  // the stream frees and reuses the memory only after it was read
  batch.table = batch.count = batch.elements = batch.bytes = 0;
  const size_t variant = number / kClasses;
  launch(kernel(static_cast<int>(variant / 2), variant % 2 != 0), programs, count, values);
}

void CudaLane::end_step() {
  launch_all();
  table_ = table_end_ = 0;  // the device reads them, and somebody else will write to them
}

void CudaLane::launch_all() {
  if (waiting_.empty()) return;
  for (size_t number = 0; number < batches_.size(); ++number) launch(number);
}

void CudaLane::before_write(const at::Tensor& tensor) {
  if (waiting_.empty() || !tensor.has_storage()) return;
  const auto found = waiting_.find(tensor.storage().unsafeGetStorageImpl());
  if (found != waiting_.end()) launch(found->second);
}

}  // namespace opscope
