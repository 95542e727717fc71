// What the hook is told in the beginning: by whom, and what the Python objects are that it works on.
#pragma once

#include <Python.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "known.h"
#include "state.h"

namespace opscope {

inline Ref take(PyObject* settings, const char* name) {
  PyObject* found = PyDict_GetItemString(settings, name);
  if (found == nullptr) throw std::runtime_error(std::string("missing: ") + name);
  return Ref::share(found);
}

// Takes what Python gives it: settings, and the objects and classes that the two share.
inline void configure(PyObject* settings) {
  auto made = std::make_unique<Hook>();
  Hook& h = *made;
  h.generation = next_number();
  h.local = take(settings, "local");
  h.sites = take(settings, "sites");
  h.late = take(settings, "late");
  h.by_id = take(settings, "by_id");
  h.known_object = take(settings, "known");
  if (!Py_IS_TYPE(h.known_object.get(), &KnownType)) throw std::runtime_error("not a Known");
  h.known = reinterpret_cast<KnownObject*>(h.known_object.get())->map;
  h.engine_code = take(settings, "engine_code");
  h.user_file = take(settings, "user_file");
  h.compiled_file = take(settings, "compiled_file");
  h.begin = take(settings, "begin");
  h.finish = take(settings, "finish");
  h.forward_begins = take(settings, "forward_begins");
  h.new_operator = take(settings, "new_operator");
  h.note_arguments = take(settings, "note_arguments");
  h.hand_over = take(settings, "hand_over");
  h.only_python = take(settings, "only_python").get() == Py_True;
  h.outside = take(settings, "outside");
  h.unknown = take(settings, "unknown");
  h.backward_phase = take(settings, "backward_phase");
  h.optimizer_phase = take(settings, "optimizer_phase");
  h.plan_for = take(settings, "plan_for");
  h.add_outputs = take(settings, "add_outputs");
  h.begin_call = take(settings, "begin_call");
  h.end_call = take(settings, "end_call");
  h.before_write = take(settings, "before_write");
  h.report = take(settings, "report");
  h.alarm = take(settings, "alarm");
  h.alarmed = h.alarm.get() != Py_None;
  Ref state = take(settings, "ThreadState"), site = take(settings, "Site"),
      node = take(settings, "Node"), output = take(settings, "Output"),
      plan = take(settings, "Plan"), begun = take(settings, "Begun");
  h.begun_node = Slot(begun.get(), "node");
  h.begun_index = Slot(begun.get(), "index");
  h.admitted = Slot(state.get(), "admitted");
  h.home = Slot(state.get(), "home");
  h.scope = Slot(state.get(), "scope");
  h.phase = Slot(state.get(), "phase");
  h.depth = Slot(state.get(), "depth");
  h.backward_depth = Slot(state.get(), "backward_depth");
  h.last_number = Slot(state.get(), "last_number");
  h.number_base = Slot(state.get(), "number_base");
  h.node_of_number = Slot(state.get(), "node_of_number");
  h.pass_starts = Slot(state.get(), "pass_starts");
  h.site_at = Slot(site.get(), "at");
  h.site_first = Slot(site.get(), "first");
  h.site_more = Slot(site.get(), "more");
  h.node_id = Slot(node.get(), "id");
  h.node_outputs = Slot(node.get(), "outputs");
  h.node_sources = Slot(node.get(), "sources");
  h.node_variants = Slot(node.get(), "variants");
  h.node_variant = Slot(node.get(), "variant");
  h.node_raised = Slot(node.get(), "raised");
  h.node_phase = Slot(node.get(), "phase");
  h.node_plan = Slot(node.get(), "plan");
  h.output_node = Slot(output.get(), "node");
  h.output_slot = Slot(output.get(), "slot");
  h.output_subject = Slot(output.get(), "subject");
  h.output_uninitialised = Slot(output.get(), "uninitialised");
  h.plan_flags = Slot(plan.get(), "flags");
  h.plan_revision = Slot(plan.get(), "revision");
  h.output_type = reinterpret_cast<PyTypeObject*>(output.get());
  h.rows.measure_slowly = take(settings, "measure_slowly");
  h.rows.kind_number = take(settings, "kind_number");
  h.rows.advance = take(settings, "advance");
  h.rows.submit = take(settings, "submit");
  h.rows.row = reinterpret_cast<RowFunction>(PyLong_AsVoidPtr(take(settings, "row").get()));
  Ref names = take(settings, "dtypes");
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(names.get(), &position, &name, &value)) {
    const auto at = static_cast<size_t>(PyLong_AsLong(value));
    if (h.rows.dtype_names.size() <= at) h.rows.dtype_names.resize(at + 1);
    h.rows.dtype_names[at] = PyUnicode_AsUTF8(name);
  }
  if (PyErr_Occurred()) throw PythonError();
  delete hook;
  hook = made.release();
}

}  // namespace opscope
