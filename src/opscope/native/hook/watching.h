// Everything before an operator runs, and everything after it ran.
#pragma once

#include <Python.h>

#include <ATen/SequenceNumber.h>

#include <algorithm>

#include "call.h"
#include "measuring.h"
#include "sites.h"
#include "state.h"

namespace opscope {

constexpr int kSerial = 0, kCalls = 1;  // among the marks of a call site

// The node of this call of a site; null: Python makes it.
inline NodeFacts* node_at(const Found& found) {
  const int64_t* marks = hook->marks + found.at;
  if (marks[kSerial] != found.pass.serial) return found.first;
  if (marks[kCalls] == kMostNodes) return nullptr;  // it is said that from here on the last recurs
  PyObject* more = hook->site_more.get(found.site);
  const int64_t position = std::min<int64_t>(marks[kCalls], kMostNodes - 1);
  if (more == Py_None || position > PyList_GET_SIZE(more)) return nullptr;
  return &facts_of(PyList_GET_ITEM(more, position - 1));
}

// From here on calls belong to this pass; see `Calls.passes`.
inline void note_pass(int64_t index, int64_t number) {
  if (number == hook->last_pass) return;
  hook->last_pass = number;
  Ref first = checked(PyLong_FromLongLong(index)), pass = checked(PyLong_FromLongLong(number));
  if (PyList_Append(hook->passes.get(), first.get()) < 0 ||
      PyList_Append(hook->passes.get(), pass.get()) < 0) {
    throw PythonError();
  }
}

// Notes which inputs come from another call than the latest one of their node.
inline void note_crossings(const Call& call) {
  auto& latest = hook->latest;
  // Before any node has been called twice there is only one call that an input can come from. With
  // several threads calls do not come by in the order of their indices: all is noted.
  const bool many = hook->only_python;
  for (size_t slot = 0; (many || hook->repeats) && slot < call.sources.size(); ++slot) {
    const Maker& maker = call.sources[slot];
    if (maker.call < 0 || !is_output(maker.source)) continue;
    const auto node =
        static_cast<size_t>(hook->node_id.number(hook->output_node.get(maker.source)));
    if (!many && node < latest.size() && latest[node] == hook->base + maker.call) continue;
    hook->crossings.insert(hook->crossings.end(),
                           {call.index, static_cast<int64_t>(slot), maker.call});
  }
  const auto node = static_cast<size_t>(call.node_id);
  if (node >= latest.size()) latest.resize(std::max(node + 1, 2 * latest.size()), -1);
  hook->repeats = hook->repeats || latest[node] >= hook->base;
  latest[node] = hook->base + call.index;
}

inline int64_t flags_of(NodeFacts& facts) {
  if (facts.revision == hook->revision) return facts.flags;
  PyObject* plan = hook->node_plan.get(facts.node);
  if (plan == Py_None || hook->plan_revision.number(plan) != hook->revision) {
    checked(PyObject_CallOneArg(hook->plan_for.get(), facts.node));
    plan = hook->node_plan.get(facts.node);
  }
  facts.revision = hook->plan_revision.number(plan);
  return facts.flags = hook->plan_flags.number(plan);
}

inline void restart_numbers(PyObject* state, int64_t now) {
  Ref numbers = checked(PyList_New(0));
  hook->node_of_number.set(state, numbers.get());
  hook->number_base.set_number(state, now);
  hook->last_number.set_number(state, now);
}

// The autograd nodes that this thread has made since it was last asked belong to `node`.
inline void number_nodes(PyObject* state, PyObject* node) {
  const auto now = static_cast<int64_t>(at::sequence_number::peek());
  const int64_t last = hook->last_number.number(state);
  if (now == last) return;
  if (now < last || now - last > kKeptNumbers) return restart_numbers(state, now);
  PyObject* numbers = hook->node_of_number.get(state);
  for (int64_t made = now - last; made > 0; --made) {
    if (PyList_Append(numbers, node) < 0) throw PythonError();
  }
  hook->last_number.set_number(state, now);
}

// Steps that were not recorded have made autograd nodes that belong to nobody.
inline void resume_numbers(PyObject* state) {
  uint64_t& resumption = here().resumption;
  if (resumption == hook->resumption) return;
  resumption = hook->resumption;
  restart_numbers(state, static_cast<int64_t>(at::sequence_number::peek()));
}

inline bool same_sources(PyObject* const* sources, size_t count, const Call& call) {
  if (count != call.sources.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    if (sources[i] != call.sources[i].source) return false;
  }
  return true;
}

inline Ref list_of_sources(const Call& call) {
  Ref list = checked(PyList_New(static_cast<Py_ssize_t>(call.sources.size())));
  for (size_t i = 0; i < call.sources.size(); ++i) {
    Py_INCREF(call.sources[i].source);
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), call.sources[i].source);
  }
  return list;
}

// Keeps the sources of a call apart; see `Calls.further`.
inline void note_further(const Call& call, PyObject* sources) {
  hook->further_size += PyList_GET_SIZE(sources);
  if (hook->further_size > kMostFurther) return;
  Ref index = checked(PyLong_FromLongLong(call.index));
  if (PyDict_SetItem(hook->further.get(), index.get(), sources) < 0) throw PythonError();
}

// Which variant of a node's sources those of a call are, a new one if need be; -1 if there are too
// many. Sources from outside may be equal without being the same objects.
inline Py_ssize_t variant_of(const Call& call, PyObject* node) {
  PyObject* variants = hook->node_variants.get(node);
  const Py_ssize_t count = PyList_GET_SIZE(variants);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* variant = PyList_GET_ITEM(variants, i);
    const auto size = static_cast<size_t>(PyList_GET_SIZE(variant));
    if (same_sources(PySequence_Fast_ITEMS(variant), size, call)) return i;
  }
  Ref list = list_of_sources(call);
  if (count >= kMostVariants) {
    hook->node_sources.set(node, list.get());
    note_further(call, list.get());
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyObject_RichCompareBool(list.get(), PyList_GET_ITEM(variants, i), Py_EQ) == 1) return i;
  }
  if (PyList_Append(variants, list.get()) < 0) throw PythonError();
  if (PyList_Append(hook->renewed.get(), node) < 0) throw PythonError();
  return count;
}

inline void set_sources(Call& call, PyObject* node) {
  call.facts->current = false;
  const int64_t before = hook->node_variant.number(node);
  const int64_t after = variant_of(call, node);
  if (after >= 0) {
    hook->node_sources.set(node, PyList_GET_ITEM(hook->node_variants.get(node), after));
  }
  if (after == before && after >= 0) return;
  hook->node_variant.set_number(node, after);
  hook->changes.insert(hook->changes.end(), {call.index, call.node_id, before, after});
}

// Everything before the operator runs; false, with nothing changed, if Python must do it.
inline bool begin(Call& call, PyObject* state, const Frame& frame) {
  if (hook->only_python || call.op->only_python) return false;
  if (PyDict_GET_SIZE(hook->late.get()) != 0) return false;
  const auto phase = hook->phase.number(state);
  if (phase == kSetup || phase == kEarlyData || phase == kAwaitingForward) return false;
  if (!hook->admitted.truth(state)) return false;
  for (const at::Tensor& tensor : call.tensors) call.sources.push_back(source_of(tensor));
  Found found;
  if (!find_site(state, call, frame, found)) return false;
  NodeFacts* facts = node_at(found);
  if (facts == nullptr) return false;
  if (!facts->current) read_anew(*facts);
  if (call.op->kind != kNothing && facts->outputs.empty()) return false;
  const int64_t flags = flags_of(*facts);
  if (flags & kArguments) return false;

  __builtin_prefetch(facts->output_rows.data());
  PyObject* node = facts->node;
  call.facts = facts;
  call.node = Ref::share(node);
  call.node_id = facts->id;
  call.flags = flags;
  if (found.leaves_eval) hook->phase.set_number(state, kForward);
  int64_t* marks = hook->marks + found.at;
  if (marks[kSerial] != found.pass.serial) {
    marks[kSerial] = found.pass.serial;
    marks[kCalls] = 0;
  }
  ++marks[kCalls];
  call.index = PyList_GET_SIZE(hook->order.get());
  if (PyList_Append(hook->order.get(), node) < 0) throw PythonError();
  call.pass_number = found.pass.number;
  note_pass(call.index, call.pass_number);
  note_crossings(call);
  if (facts->varied || !same_sources(facts->sources.data(), facts->sources.size(), call)) {
    set_sources(call, node);
  }
  if (flags & kValues) {
    begin_in_python(call, node);
  } else if (flags != 0) {
    note_moment(call);
    if (flags & (kInputStats | kOutsideStats)) measure_inputs(call);
  }
  if (call.op->writes) announce_write(call);
  if (!call.tensors.empty() &&
      (call.op->view || (call.op->converts && call.tensors[0].is_cuda()))) {
    call.has_base = true;
    call.base_source = Ref::share(call.sources[0].source);
    call.base_call = call.sources[0].call;
  }
  return true;
}

// Where the outputs come from is known from here on.
inline void note_outputs(const Call& call, const Produced& produced) {
  const auto& outputs = call.facts->outputs;
  const size_t count = std::min(produced.size(), outputs.size());
  for (size_t slot = 0; slot < count; ++slot) {
    const at::Tensor* tensor = produced[slot];
    if (tensor == nullptr) continue;
    const c10::TensorImpl* impl = tensor->unsafeGetTensorImpl();
    PyObject* output = outputs[slot];
    if (call.op->asynchronous || (call.op->writes && was_written(call, slot, *tensor))) {
      known().put_write(impl, {output, call.index});
    } else if (call.op->view && call.has_base) {
      known().put_view(impl, call.base().unsafeGetTensorImpl(),
                       {call.base_source.get(), call.base_call}, {output, call.index});
    } else {
      known().put(impl, {output, call.index});
    }
  }
}

// Views are of memory that was never written to, or are not any more, call by call.
inline void renew_views(const Call& call) {
  PyObject* base = call.base_source.get();
  const bool unwritten = is_output(base) && hook->output_uninitialised.truth(base);
  for (PyObject* output : call.facts->outputs) {
    if (hook->output_uninitialised.truth(output) == unwritten) continue;
    hook->output_uninitialised.set(output, unwritten ? Py_True : Py_False);
    if (PyList_Append(hook->renewed.get(), call.node.get()) < 0) throw PythonError();
  }
}

// Everything after the operator ran.
inline void finish(Call& call, Arguments results) {
  PyObject* node = call.node.get();
  NodeFacts& facts = *call.facts;
  if (!facts.current) read_anew(facts);
  if (facts.raised) {
    hook->node_raised.set(node, Py_False);
    facts.raised = false;
  }
  if (call.op->kind == kNothing && !call.delivered) return;
  const Produced produced = collect_outputs(call, results);
  if (facts.outputs.size() < produced.size()) {
    NotWatched not_watched;
    Ref inputs = inputs_of(call);
    Ref list = outputs_of(call, produced, inputs);
    checked(PyObject_CallFunctionObjArgs(hook->add_outputs.get(), call.op->object.get(), node,
                                         list.get(), inputs.get(), nullptr));
    read_anew(facts);
  }
  if (call.op->view && call.has_base) renew_views(call);
  note_outputs(call, produced);
  if (call.delivered) {
    end_in_python(call, node, produced);
  } else if (call.flags & kOutputStats) {
    measure_outputs(call, produced);
  }
}

// Has Python see to a call, before it runs or, if it was deferred, after it.
inline void begin_in_python(Call& call) {
  NotWatched not_watched;
  ++hook->python_calls;
  if (call.op->fresh && !call.tensors.empty()) known().drop(call.base().unsafeGetTensorImpl());
  Ref sources = checked(PyList_New(0));
  call.sources.clear();
  for (const at::Tensor& tensor : call.tensors) {
    call.sources.push_back(source_of(tensor));
    append(sources, Ref::share(call.sources.back().source));
  }
  call.objects = inputs_of(call);
  Ref written = written_by(call, call.objects);
  call.begun = checked(PyObject_CallFunctionObjArgs(hook->begin.get(), call.op->object.get(),
                                                    call.objects.get(), sources.get(),
                                                    written.get(), current_frame_object(), nullptr));
  call.node = Ref::share(hook->begun_node.get(call.begun.get()));
  call.facts = &facts_of(call.node.get());
  call.facts->current = false;
  call.node_id = call.facts->id;
  call.index = hook->begun_index.number(call.begun.get());
  note_crossings(call);
  PyObject* passes = hook->passes.get();
  const Py_ssize_t noted = PyList_GET_SIZE(passes);
  hook->last_pass = noted == 0 ? 0 : PyLong_AsLongLong(PyList_GET_ITEM(passes, noted - 1));
  if (!call.tensors.empty()) {
    call.has_base = true;
    call.base_source = Ref::share(call.sources[0].source);
    call.base_call = call.sources[0].call;
  }
}

inline void finish_in_python(Call& call, Arguments results) {
  NotWatched not_watched;
  const Produced produced = collect_outputs(call, results);
  Ref objects = outputs_of(call, produced, call.objects);
  checked(PyObject_CallFunctionObjArgs(hook->finish.get(), call.begun.get(), objects.get(),
                                       nullptr));
  read_anew(*call.facts);
  note_outputs(call, produced);
}

// Has the main thread raise an exception that is meant for the script, when it is back there. It may
// be in code of ours again by then, which keeps it until it is done.
inline void pass_on(PyObject* error) {
  const auto raise = [](void* object) {
    Ref held = Ref::take(static_cast<PyObject*>(object));
    if (hook == nullptr) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(held.get())), held.get());
      return -1;
    }
    return Ref::take(PyObject_CallOneArg(hook->hand_over.get(), held.get())) ? 0 : -1;
  };
  Py_INCREF(error);
  if (Py_AddPendingCall(raise, error) != 0) Py_DECREF(error);
}

// Says what went wrong, once. An interrupt, or what a handler of a signal raised while code of ours
// ran, goes on to the script: torch would swallow it here.
inline void report(const char* what) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value != nullptr && trace != nullptr) PyException_SetTraceback(value, trace);
  NotWatched not_watched;
  Ref ours = Ref::take(PyObject_CallFunction(hook->report.get(), "sO", what,
                                             value == nullptr ? Py_None : value));
  if (!ours) PyErr_Clear();
  if (value != nullptr && ours.get() == Py_False) pass_on(value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

}  // namespace opscope
