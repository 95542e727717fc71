// What the recorder asks of a GPU: how far it has got, numbers of its memory, the state of its
// generator. Nothing here waits for it, and nobody who listens to torch hears of it.
#pragma once

#include <Python.h>

#include <ATen/core/Generator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "generated/cuda_driver.h"
#include "generated/simple_tensors.h"
#include "ring.h"

namespace opscope {

// Lets other threads of Python go on: the driver may take a while where much has been launched.
class WithoutPython {
 public:
  WithoutPython() : state_(PyEval_SaveThread()) {}
  ~WithoutPython() { PyEval_RestoreThread(state_); }
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;

 private:
  PyThreadState* state_;
};

constexpr unsigned kWithoutTime = 2, kForAllDevices = 1;  // the driver's flags
constexpr int kNoContext = 201, kNotReady = 600;           // what it answers
constexpr int kOfCapture = 900, kLastOfCapture = 908;      // somebody captures a graph, or has tried

// The stream that this thread gives work to.
struct Work {
  enum Kind {
    kNone,      // there is no GPU that is known here
    kCaptured,  // what the stream is given goes into a graph
    kUsual,
  };
  Kind kind = kNone;
  c10::DeviceIndex device = -1;
  CudaDriver::Stream stream = nullptr;

  Work() {
    constexpr auto type = static_cast<size_t>(c10::DeviceType::CUDA);
    const auto* guard = c10::impl::device_guard_impl_registry[type].load();
    if (guard == nullptr || !cuda_driver().whole) return;
    try {
      const c10::Device current = guard->getDevice();
      device = current.index();
      stream = guard->getStreamNativeHandle(guard->getStream(current));
      int status = 0;
      const int answer = cuda_driver().stream_is_capturing(stream, &status);
      if (answer == kNoContext) return;  // which torch makes in a thread that is new to the driver
      kind = answer != 0 || status != 0 ? kCaptured : kUsual;
    } catch (const std::exception&) {
      kind = kNone;
    }
  }
};

// Events between the parts of a step: how far the GPU has got of what was launched.
class Marks {
 public:
  // Puts an event behind all launched so far, up to the record `head`, and finds out up to which one
  // the GPU has got, if that is news. False if torch is to do it.
  bool add(uint64_t head, uint64_t& completed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Work work;
    if (work.kind == Work::kNone) return false;
    if (work.kind == Work::kCaptured || failed_) return true;
    auto& spare = spare_[work.device];
    if (spare.empty()) {
      CudaDriver::Event made = nullptr;
      if (cuda_driver().event_create(&made, kWithoutTime) != 0) return false;
      spare.push_back(made);
    }
    const CudaDriver::Event event = spare.back();
    if (cuda_driver().event_record(event, work.stream) != 0) return !(failed_ = true);
    spare.pop_back();
    pending_.push_back({head, event, work.device});
    look(completed);
    return true;
  }
  // What comes belongs to another ring.
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Mark& mark : pending_) spare_[mark.device].push_back(mark.event);
    pending_.clear();
    failed_ = false;
  }

 private:
  struct Mark {
    uint64_t head;
    CudaDriver::Event event;
    c10::DeviceIndex device;
  };

  void look(uint64_t& completed) {
    while (!pending_.empty() && !failed_) {
      const Mark& first = pending_.front();
      const int answer = cuda_driver().event_query(first.event);
      if (answer == kNotReady || (answer >= kOfCapture && answer <= kLastOfCapture)) return;
      failed_ = answer != 0;  // the GPU has failed, which the script learns in its own way
      if (failed_) return;
      completed = first.head;
      spare_[first.device].push_back(first.event);
      pending_.pop_front();
    }
  }

  std::mutex mutex_;
  std::deque<Mark> pending_;
  std::map<c10::DeviceIndex, std::vector<CudaDriver::Event>> spare_;
  bool failed_ = false;
};

inline Marks& marks() {
  static auto* all = new Marks();  // never freed: threads may outlive Python
  return *all;
}

// Numbers on their way from a GPU, each to a place that the GPU may write to.
class Numbers {
 public:
  struct Place {
    enum State { kFree, kAwaited, kGivenUp };
    std::atomic<State> state{kFree};
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    c10::DeviceIndex device = -1;  // that the event is of
    CudaDriver::Event event = nullptr;
  };

  // Begins to copy the one element of a tensor. Null if torch is to do it.
  Place* send(const c10::TensorImpl& tensor) {
    const auto dtype = c10::typeMetaToScalarType(tensor.dtype());
    const bool known = dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double ||
                       dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16;
    const auto from = reinterpret_cast<uint64_t>(tensor.unsafe_storage().data());
    if (!known || from == 0) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    const Work work;
    if (work.kind != Work::kUsual || work.device != tensor.device().index()) return nullptr;
    Place* place = free_place(work.device);
    if (place == nullptr) return nullptr;
    const CudaDriver& driver = cuda_driver();
    if (place->event == nullptr && driver.event_create(&place->event, kWithoutTime) != 0) {
      return nullptr;
    }
    const uint64_t at = from + static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize();
    if (driver.copy_to_host(&memory_[index_of(place)], at, tensor.itemsize(), work.stream) != 0) {
      return nullptr;
    }
    place->device = work.device;
    place->dtype = dtype;
    place->state = Place::kAwaited;
    // Without an event nobody knows when the place may be used again: it never is.
    if (driver.event_record(place->event, work.stream) != 0) return nullptr;
    return place;
  }

  // The number, if it has arrived.
  std::optional<double> get(const Place* place) const {  // the owner's, who is the only one to ask
    if (Work().kind != Work::kUsual || cuda_driver().event_query(place->event) != 0) {
      return std::nullopt;
    }
    const uint64_t* at = &memory_[index_of(place)];
    switch (place->dtype) {
      case c10::ScalarType::Float: return read<float>(at);
      case c10::ScalarType::Double: return read<double>(at);
      case c10::ScalarType::Half: return read<c10::Half>(at);
      default: return read<c10::BFloat16>(at);
    }
  }

  // Nobody asks for the number any more, which may still be on its way.
  static void give_up(Place* place) { place->state = Place::kGivenUp; }

 private:
  static constexpr size_t kPlaces = 64;

  size_t index_of(const Place* place) const { return static_cast<size_t>(place - places_.data()); }

  template <class Number>
  static double read(const uint64_t* at) {
    Number number;
    std::memcpy(&number, at, sizeof number);
    return static_cast<double>(number);
  }

  Place* free_place(c10::DeviceIndex device) {
    if (memory_ == nullptr) {
      void* made = nullptr;
      const size_t size = kPlaces * sizeof(uint64_t);
      if (cuda_driver().host_memory(&made, size, kForAllDevices) != 0) return nullptr;
      memory_ = static_cast<uint64_t*>(made);
    }
    for (Place& place : places_) {
      if (place.device >= 0 && place.device != device) continue;
      const bool over = place.state == Place::kGivenUp && cuda_driver().event_query(place.event) == 0;
      if (over) place.state = Place::kFree;
      if (place.state == Place::kFree) return &place;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::array<Place, kPlaces> places_;
  uint64_t* memory_ = nullptr;
};

inline Numbers& numbers() {
  static auto* all = new Numbers();
  return *all;
}

constexpr const char* kArriving = "opscope.arriving_number";

inline Numbers::Place* arriving(PyObject* capsule) {
  return static_cast<Numbers::Place*>(PyCapsule_GetPointer(capsule, kArriving));
}

// The one element of a tensor of a GPU, on its way; None if torch is to copy it.
inline PyObject* send_number(PyObject* object) {
  const c10::TensorImpl* tensor = nullptr;
  {
    const WithoutFunctions past_functions;
    tensor = cuda_tensor(tensor_impl(object));
  }
  Numbers::Place* place = nullptr;
  if (ring.active && tensor != nullptr && tensor->numel() == 1) {
    const WithoutPython meanwhile;
    place = numbers().send(*tensor);
  }
  if (place == nullptr) Py_RETURN_NONE;
  return PyCapsule_New(place, kArriving, [](PyObject* made) { Numbers::give_up(arriving(made)); });
}

// A number that was sent; None as long as it has not arrived.
inline PyObject* arrived(PyObject* capsule) {
  const Numbers::Place* place = arriving(capsule);
  if (place == nullptr) return nullptr;
  const auto number = numbers().get(place);
  if (!number) Py_RETURN_NONE;
  return PyFloat_FromDouble(*number);
}

inline bool mark_device() {
  if (!ring.active) return true;
  const uint64_t head = ring.field(kHeadField);
  uint64_t completed = 0;
  bool done = false;
  {
    const WithoutPython meanwhile;  // in which the ring may be closed
    done = marks().add(head, completed);
  }
  if (completed != 0 && ring.active) ring.field(kCompletedField) = completed;
  return done;
}

// The bytes that tensors have on the current GPU now and have had at most; None if torch is to say.
inline PyObject* device_memory() {
  const Work work;
  if (work.kind == Work::kNone) Py_RETURN_NONE;
  try {
    auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
    if (allocator == nullptr) Py_RETURN_NONE;
    const auto found = allocator->getDeviceStats(work.device).allocated_bytes[0];
    return Py_BuildValue("(LL)", static_cast<long long>(found.current),
                         static_cast<long long>(found.peak));
  } catch (const std::exception&) {
    Py_RETURN_NONE;
  }
}

// The state of the current GPU's generator, unless it belongs to a graph just now. False if torch is
// to say.
inline bool device_random(c10::intrusive_ptr<c10::TensorImpl>& state) {
  const Work work;
  if (work.kind != Work::kUsual) return work.kind == Work::kCaptured;
  try {
    at::Generator generator = at::detail::getCUDAHooks().getDefaultGenerator(work.device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    state = generator.unsafeGetGeneratorImpl()->get_state();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace opscope
