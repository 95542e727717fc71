// Rows of a call's inputs and outputs, or the values themselves where sinks want these.
#pragma once

#include <Python.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <ctime>

#include "call.h"
#include "sites.h"
#include "state.h"

namespace opscope {

constexpr int64_t kMoment = 8;   // in calls

inline int64_t clock_ns(clockid_t which) {
  timespec now;
  clock_gettime(which, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

// When the operator under way began; the recorder has asked the clock just before.
inline int64_t moment_us() {
  const uint64_t began = here().began;
  return (began != 0 ? static_cast<int64_t>(began) + hook->real_time : clock_ns(CLOCK_REALTIME)) /
         1000;
}

inline bool is_held(const at::Tensor& tensor) {
  return hook->held.size() != 0 && tensor.has_storage() &&
         hook->held.find(tensor.storage().data()) != nullptr;
}

// The rows of before are void; what waits to be read is read now.
inline void announce_write(Call& call) {
  Produced waiting;  // that Python waits to read or to copy
  for (const uint32_t at : call.written) {
    const at::Tensor& tensor = call.tensors[at];
    hook->rows.note_write(tensor);
    bool is_awaited = is_held(tensor);
    if (tensor.is_cuda()) {
      CudaLane* lane = hook->rows.lane_of(tensor);
      if (lane != nullptr) lane->before_write(tensor);
      is_awaited |= lane != nullptr ? lane->python_waits(tensor) : hook->rows.python_lanes;
    }
    if (is_awaited) waiting.push_back(&tensor);
  }
  if (!waiting.empty()) {
    NotWatched not_watched;
    Ref list = list_of(waiting);
    checked(PyObject_CallOneArg(hook->before_write.get(), list.get()));
  }
}

inline void note_moment(const Call& call) {
  int64_t stream = 0;
  if (!call.tensors.empty() && call.tensors[0].is_cuda()) {
    const auto device = call.tensors[0].device();
    stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device).id();
  }
  auto& moments = hook->rows.moments;
  moments.push_back(call.index);
  moments.push_back(stream);
  moments.push_back(moment_us());
}

// Whether an output on a GPU has the numbers of the first input, in a wider type. (On a CPU it is
// read: that is cheap, and NumPy may have written to the input without our notice.)
inline bool only_widens(const Call& call, const at::Tensor& output) {
  if (!call.op->converts || !call.has_base || !output.is_cuda()) return false;
  const auto before = call.base().scalar_type();
  return output.device() == call.base().device() && output.numel() == call.base().numel() &&
         output.scalar_type() == c10::ScalarType::Float &&
         (before == c10::ScalarType::Half || before == c10::ScalarType::BFloat16);
}

// The row of what came from there, if it is of these very elements; null otherwise.
inline const Seen* seen_of(const Maker& maker, const at::Tensor& tensor) {
  PyObject* source = maker.source;
  RowBook& rows = hook->rows;
  const Seen* seen = nullptr;
  if (is_output(source)) {
    const auto& outputs = facts_of(hook->output_node.get(source)).output_rows;
    const auto slot = static_cast<size_t>(hook->output_slot.number(source));
    if (slot < outputs.size() && outputs[slot].made_in == maker.call) seen = &outputs[slot];
  } else if (lasts(source)) {
    seen = &rows.outside(source);
  }
  return seen != nullptr && rows.is_row_of(*seen, tensor) ? seen : nullptr;
}

inline void measure_inputs(Call& call) {
  RowBook& rows = hook->rows;
  auto& seen = call.facts->input_rows;
  if (seen.size() < call.tensors.size()) seen.resize(call.tensors.size());
  const Place place{hook->step, call.node_id, call.index, kInput};
  for (size_t slot = 0; slot < call.tensors.size(); ++slot) {
    PyObject* source = call.sources[slot].source;
    const bool from_operator = is_output(source);
    if (from_operator && (!(call.flags & kInputStats) || hook->output_uninitialised.truth(source)))
      continue;
    if (!from_operator && !(call.flags & kInputStats) && kind_of(source)[0] == 's') continue;
    const at::Tensor& tensor = call.tensors[slot];
    const Seen* known = seen_of(call.sources[slot], tensor);
    rows.measure(place, static_cast<int64_t>(slot), tensor, source, known, seen[slot], call.jobs);
    if (!from_operator && known == nullptr && lasts(source)) rows.outside(source) = seen[slot];
  }
}

inline void measure_outputs(Call& call, const Produced& produced) {
  RowBook& rows = hook->rows;
  auto& seen = call.facts->output_rows;
  if (seen.size() < produced.size()) seen.resize(produced.size());
  const Place place{hook->step, call.node_id, call.index, kOutput};
  rows.together = produced.size() >= kMany;
  for (size_t slot = 0; slot < produced.size(); ++slot) {
    const at::Tensor* tensor = produced[slot];
    PyObject* output = call.facts->outputs[slot];
    if (tensor == nullptr || hook->output_uninitialised.truth(output)) continue;
    const Seen* known = nullptr;
    if (call.op->same_elements && call.has_base && call.base().numel() == tensor->numel() &&
        call.base().scalar_type() == tensor->scalar_type()) {
      known = seen_of({call.base_source.get(), call.base_call}, call.base());
    } else if (only_widens(call, *tensor)) {
      // A kernel that is no operator may have written to it meanwhile: not likely, if it was read a
      // moment ago and is not memory that was made for such a kernel.
      known = seen_of({call.base_source.get(), call.base_call}, call.base());
      if (known != nullptr && (known->blank || call.index - known->call > kMoment)) known = nullptr;
    }
    const bool blank = call.op->fills || (known != nullptr && known->blank);
    const int64_t read_at = known != nullptr ? known->call : call.index;
    Bad* alarm = hook->alarmed && tensor->is_cpu() ? &call.bad : nullptr;
    rows.measure(place, static_cast<int64_t>(slot), *tensor, output, known, seen[slot], call.jobs, alarm);
    seen[slot].blank = blank;
    seen[slot].call = read_at;
    seen[slot].made_in = call.index;
  }
  if (rows.together) rows.launch_together();
}

// Tells of a call that made NaN or Inf, while its tensors are at hand.
inline void raise_alarm(Call& call, PyObject* node, const Produced& produced, bool has_nan) {
  NotWatched not_watched;
  Ref index = number(call.index), read = inputs_of(call), made = list_of(produced);
  checked(PyObject_CallFunctionObjArgs(hook->alarm.get(), node, index.get(),
                                       has_nan ? Py_True : Py_False, read.get(), made.get(),
                                       nullptr));
}

// Sinks want the tensors themselves.
inline void begin_in_python(Call& call, PyObject* node) {
  NotWatched not_watched;
  call.objects = inputs_of(call);
  Ref index = number(call.index), pass = number(call.pass_number);
  call.delivered = checked(PyObject_CallFunctionObjArgs(hook->begin_call.get(),
                                                        hook->node_plan.get(node), node,
                                                        index.get(), call.objects.get(),
                                                        pass.get(), nullptr));
}

inline void end_in_python(Call& call, PyObject* node,
                          const Produced& produced) {
  NotWatched not_watched;
  Ref outputs = list_of(produced), sources = checked(PyList_New(0));
  if (call.has_base && PyList_Append(sources.get(), call.base_source.get()) < 0) {
    throw PythonError();
  }
  checked(PyObject_CallFunctionObjArgs(hook->end_call.get(), hook->node_plan.get(node),
                                       call.delivered.get(), call.op->object.get(), outputs.get(),
                                       call.objects.get(), sources.get(), nullptr));
}

}  // namespace opscope
