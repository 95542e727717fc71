// Everything before an operator runs, and everything after it ran.
#pragma once

#include <Python.h>

#include <ATen/SequenceNumber.h>
#include <torch/csrc/Exceptions.h>

#include "call.h"
#include "measuring.h"
#include "sites.h"
#include "state.h"

namespace opscope {

constexpr int64_t kKeptNumbers = int64_t{1} << 16;

inline PyObject* node_at(PyObject* site) {  // borrowed; null if Python must make it
  if (hook->site_step.number(site) != hook->step) return hook->site_first.get(site);
  PyObject* more = hook->site_more.get(site);
  const long position = hook->site_calls.number(site);
  if (more == Py_None || position > PyList_GET_SIZE(more)) return nullptr;
  return PyList_GET_ITEM(more, position - 1);
}

inline int64_t flags_of(PyObject* node) {
  PyObject* plan = hook->node_plan.get(node);
  if (plan == Py_None || hook->plan_revision.number(plan) != hook->revision) {
    checked(PyObject_CallOneArg(hook->plan_for.get(), node));
    plan = hook->node_plan.get(node);
  }
  return hook->plan_flags.number(plan);
}

inline void number_nodes(PyObject* state, PyObject* node, int64_t made, int64_t now) {
  PyObject* numbers = hook->node_of_number.get(state);
  if (hook->pending_view.truth(state)) {
    // CopySlices gets its number only after the operator that wrote to the view.
    if (PyList_Append(numbers, hook->previous.get(state)) < 0) throw PythonError();
    --made;
  }
  for (; made > 0; --made) {
    if (PyList_Append(numbers, node) < 0) throw PythonError();
  }
  hook->last_number.set_number(state, now);
}

inline bool same_sources(PyObject* list, const Call& call) {
  const auto count = static_cast<Py_ssize_t>(call.sources.size());
  if (PyList_GET_SIZE(list) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyList_GET_ITEM(list, i) != call.sources[i]) return false;
  }
  return true;
}

inline void set_sources(Call& call, PyObject* node) {
  Ref list = checked(PyList_New(static_cast<Py_ssize_t>(call.sources.size())));
  for (size_t i = 0; i < call.sources.size(); ++i) {
    Py_INCREF(call.sources[i]);
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), call.sources[i]);
  }
  const bool equal = PyObject_RichCompareBool(list.get(), hook->node_sources.get(node), Py_EQ) == 1;
  hook->node_sources.set(node, list.get());
  if (!equal && PyList_Append(hook->changed.get(), node) < 0) throw PythonError();
}

inline void note_write(Call& call, PyObject* state, PyObject* node, int phase) {
  const bool pending = phase != kOptimizer && !call.tensors.empty() &&
                       c10::GradMode::is_enabled() && call.tensors[0]->is_view();
  hook->pending_view.set(state, pending ? Py_True : Py_False);
  hook->previous.set(state, node);
}

// Everything before the operator runs; false, with nothing changed, if Python must do it.
inline bool begin(Call& call) {
  if (PyDict_GET_SIZE(hook->late.get()) != 0) return false;
  PyObject* state = thread_state();
  if (!hook->admitted.truth(state) || hook->phase.number(state) == kSetup) return false;
  const auto now = static_cast<int64_t>(at::sequence_number::peek());
  const int64_t last = hook->last_number.number(state);
  const int64_t made = now - last;
  if (last == hook->reserved || made < 0 || made > kKeptNumbers) return false;
  for (const at::Tensor* tensor : call.tensors) call.sources.push_back(source_of(*tensor));
  Found found;
  if (!find_site(state, call, found)) return false;
  PyObject* node = node_at(found.site);
  if (node == nullptr) return false;
  if (call.op->kind != kNothing && PyList_GET_SIZE(hook->node_outputs.get(node)) == 0) return false;
  const int64_t flags = flags_of(node);
  if (flags & kArguments) return false;

  call.node = Ref::share(node);
  call.node_id = hook->node_id.number(node);
  call.flags = flags;
  if (found.leaves_eval) hook->phase.set_number(state, kForward);
  if (hook->site_step.number(found.site) != hook->step) {
    hook->site_step.set_number(found.site, hook->step);
    hook->site_calls.set_number(found.site, 1);
  } else {
    hook->site_calls.set_number(found.site, hook->site_calls.number(found.site) + 1);
  }
  call.index = PyList_GET_SIZE(hook->order.get());
  if (PyList_Append(hook->order.get(), node) < 0) throw PythonError();
  if (made != 0) number_nodes(state, node, made, now);
  if (call.op->writes) {
    note_write(call, state, node, found.key.phase);
  } else if (hook->pending_view.truth(state)) {
    hook->pending_view.set(state, Py_False);
  }
  if (!same_sources(hook->node_sources.get(node), call)) set_sources(call, node);
  if (flags & kValues) {
    begin_in_python(call, node);
  } else if (flags != 0) {
    note_moment(call);
    if (hook->alarmed) {
      for (const at::Tensor* tensor : call.tensors) call.inputs.push_back(*tensor);
    }
    if (flags & (kInputStats | kOutsideStats)) measure_inputs(call);
  }
  if (call.op->writes) announce_write(call);
  if (!call.tensors.empty() &&
      (call.op->view || (call.op->converts && call.tensors[0]->is_cuda()))) {
    call.base = *call.tensors[0];
    call.base_source = Ref::share(call.sources[0]);
  }
  return true;
}

// Everything after the operator ran.
inline void finish(Call& call, const c10::OperatorHandle& handle, const Arguments& stack) {
  PyObject* node = call.node.get();
  if (hook->node_raised.truth(node)) hook->node_raised.set(node, Py_False);
  if (call.op->kind == kNothing && !call.delivered) return;
  const Produced produced = collect_outputs(call, handle, stack);
  PyObject* outputs = hook->node_outputs.get(node);
  if (PyList_GET_SIZE(outputs) < static_cast<Py_ssize_t>(produced.size())) {
    Quiet quiet;
    Ref list = list_of(produced);
    Ref inputs = call.op->nested ? list_of(call.tensors) : checked(PyList_New(0));
    checked(PyObject_CallFunctionObjArgs(hook->add_outputs.get(), call.op->object.get(), node,
                                         list.get(), inputs.get(), nullptr));
    outputs = hook->node_outputs.get(node);
  }
  for (size_t slot = 0; slot < produced.size(); ++slot) {
    const at::Tensor* tensor = produced[slot];
    if (tensor == nullptr) continue;
    const c10::TensorImpl* impl = tensor->unsafeGetTensorImpl();
    PyObject* output = PyList_GET_ITEM(outputs, static_cast<Py_ssize_t>(slot));
    if (call.op->writes && was_written(call, *tensor)) {
      known().put_write(impl, output);
    } else if (call.op->view && call.base.defined()) {
      known().put_view(impl, call.base.unsafeGetTensorImpl(), call.base_source.get(), output);
    } else {
      known().put(impl, output);
    }
  }
  if (call.delivered) {
    end_in_python(call, node, produced);
  } else if (call.flags & kOutputStats) {
    measure_outputs(call, produced, outputs);
  }
}

// Says what went wrong, once; an interrupt or an exit, raised in a callback, goes on to the script.
inline void report(const char* what) {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
    python_error raised;
    raised.persist();
    throw raised;
  }
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref done = Ref::take(PyObject_CallFunction(hook->report.get(), "sO", what,
                                             value == nullptr ? Py_None : value));
  if (!done) PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

}  // namespace opscope
