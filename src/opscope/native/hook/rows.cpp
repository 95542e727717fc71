#include "rows.h"

#include <ATen/Parallel.h>

#include "tensors.h"


namespace opscope {
namespace {

constexpr int64_t kOneThread = int64_t{1} << 18;
constexpr int64_t kBrief = int64_t{1} << 15;  // elements
constexpr size_t kKindsRemembered = 4096;

// What the kernels can read as it lies in memory; everything else goes to Python, which says what
// has no numbers.
bool is_plain(const at::TensorBase& tensor, const std::vector<std::string>& dtype_names) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto keys = impl->key_set();
  constexpr c10::DispatchKeySet kOdd({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                      c10::DispatchKey::FuncTorchGradWrapper,
                                      c10::DispatchKey::Functionalize, c10::DispatchKey::ZeroTensor,
                                      c10::DispatchKey::Negative, c10::DispatchKey::NestedTensor});
  if (keys.has_any(kOdd) || impl->layout() != c10::Layout::Strided) return false;
  if (!tensor.is_cpu() && !tensor.is_cuda()) return false;
  const auto dtype = static_cast<size_t>(tensor.scalar_type());
  if (dtype >= dtype_names.size() || dtype_names[dtype].empty()) return false;
  return tensor.numel() == 0 || (impl->has_storage() && impl->storage().nbytes() != 0);
}

struct Head {
  uint8_t valid, side, kind, unused;
  uint32_t slot;
  int32_t step;
  uint32_t node, call, shape;
};
static_assert(sizeof(Head) == kNumbers);

// Gives a record the numbers of another one.
void copy_numbers(char* record, const char* other) {
  record[kKindAt] = other[kKindAt];
  std::memcpy(record + kNumbers, other + kNumbers, kRecordBytes - kNumbers);
  __atomic_store_n(record, 1, __ATOMIC_RELEASE);
}

}  // namespace

Bad run(const Jobs& jobs, RowBook& rows) {
  Bad bad;
  for (const Job& job : jobs) {
    const at::TensorBase& tensor = *job.tensor;
    const int threads = tensor.numel() < kOneThread ? 1 : at::get_num_threads();
    alignas(64) char made[kRecordBytes] = {};
    const int failed = rows.row(
        tensor.unsafeGetTensorImpl()->data(), static_cast<int>(tensor.scalar_type()),
        static_cast<int>(tensor.dim()), tensor.sizes().data(), tensor.strides().data(), threads,
        nullptr, nullptr, made);
    if (failed != 0) continue;  // memory ran out: without numbers it is no row
    Bad found;
    found.add(made);
    if (found) rows.bad.store(true, std::memory_order_relaxed);
    if (job.alarms) bad.add(found);
    copy_numbers(job.record, made);
  }
  return bad;
}

bool are_brief(const Jobs& jobs) {
  int64_t elements = 0;
  for (const Job& job : jobs) elements += job.tensor->numel();
  return elements <= kBrief;
}

char* RowBook::take() {
  if (cursor[kNext] == cursor[kEnd]) checked(PyObject_CallNoArgs(advance.get()));
  char* record = reinterpret_cast<char*>(cursor[kAddress] + cursor[kNext]);
  cursor[kNext] += kRecordBytes;
  return record;
}

int32_t RowBook::kind_of(const at::TensorBase& tensor, uint64_t layout, const Seen& mine) {
  const auto sizes = tensor.sizes();
  const auto dtype = tensor.scalar_type();
  if (mine.kind >= 0 && mine.dtype == dtype && mine.layout == layout) return mine.kind;
  std::string key(1, static_cast<char>(dtype));
  key.append(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(int64_t));
  if (auto found = kinds_.find(key); found != kinds_.end()) return found->second;
  if (kinds_.size() >= kKindsRemembered) kinds_.clear();
  Ref shape = checked(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyTuple_SET_ITEM(shape.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  }
  const std::string& name = dtype_names.at(static_cast<size_t>(dtype));
  Ref number = checked(PyObject_CallFunction(kind_number.get(), "sO", name.c_str(), shape.get()));
  return kinds_[std::move(key)] = static_cast<int32_t>(PyLong_AsLong(number.get()));
}

void RowBook::measure(const Place& place, int64_t slot, const at::TensorBase& tensor,
                      PyObject* source, const Seen* known, Seen& mine, Jobs& jobs, Bad* alarm) {
  if (!is_plain(tensor, dtype_names)) {
    Ref object = python_of(tensor);
    checked(PyObject_CallFunction(measure_slowly.get(), "LLLBLOO", place.step, place.node,
                                  place.call, place.side, slot, object.get(), source));
    return;
  }
  const uint64_t layout = layout_number(tensor);
  const int32_t kind = kind_of(tensor, layout, mine);
  char* record = take();
  auto& head = *reinterpret_cast<Head*>(record);
  head.valid = head.kind = head.unused = 0;
  head.side = place.side;
  head.slot = static_cast<uint32_t>(slot);
  head.step = static_cast<int32_t>(place.step);
  head.node = static_cast<uint32_t>(place.node);
  head.call = static_cast<uint32_t>(place.call);
  head.shape = static_cast<uint32_t>(kind);
  bool filled = true;
  if (known != nullptr && known->filled && known->record[0] == 0) {
    known = nullptr;  // it is about to be computed, for another input of this call
  }
  if (known != nullptr && known->filled) {
    if (alarm != nullptr) alarm->add(known->record);
    copy_numbers(record, known->record);
  } else if (known != nullptr) {
    copies.push_back(reinterpret_cast<int64_t>(known->record));
    copies.push_back(reinterpret_cast<int64_t>(record));
    filled = false;
  } else if (tensor.is_cpu()) {
    jobs.push_back({&tensor, record, alarm != nullptr});
  } else if (CudaLane* lane = lane_of(tensor); lane != nullptr && lane->submit(tensor, record, together)) {
    filled = false;
  } else {
    Ref object = python_of(tensor);
    Ref done = checked(PyObject_CallFunction(submit.get(), "OL", object.get(),
                                             reinterpret_cast<long long>(record)));
    filled = done.get() == Py_True;
    if (filled) __atomic_store_n(record, 1, __ATOMIC_RELEASE);
  }
  mine.epoch = epoch;
  mine.data = tensor.unsafeGetTensorImpl()->data();
  mine.dtype = tensor.scalar_type();
  mine.layout = layout;
  mine.kind = kind;
  mine.record = record;
  mine.filled = filled;
  mine.clock = clock_;
}

}  // namespace opscope
