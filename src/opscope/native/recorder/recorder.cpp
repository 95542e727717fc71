// The recorder's Python module: what torch tells of operators goes into a ring (observer.h), and so
// does what is known of the end of the process (death.h).
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "death.h"
#include "device.h"
#include "facts.h"
#include "generated/recorder_link.h"
#include "observer.h"

namespace opscope {
namespace {

PyObject* none() { Py_RETURN_NONE; }

PyObject* py_open(PyObject*, PyObject* arguments) {
  unsigned long long address = 0;
  PyObject *is_users = nullptr, *memory = nullptr;
  if (!PyArg_ParseTuple(arguments, "KOO", &address, &memory, &is_users)) return nullptr;
  Py_INCREF(memory);  // for good: threads and handlers of signals may look at it until the very end
  names().forget();
  marks().forget();
  epoch.begin_ring();
  Py_XSETREF(user_file(), Py_NewRef(is_users));
  ring.open(reinterpret_cast<char*>(address));
  return none();
}

PyObject* py_close(PyObject*, PyObject*) {
  observe(false);
  ring.active = false;
  marks().forget();
  forget_death();
  ring.base = nullptr;
  return none();
}

PyObject* py_observe(PyObject*, PyObject* on) {
  observe(PyObject_IsTrue(on) == 1);
  return none();
}

PyObject* py_name(PyObject*, PyObject* arguments) {
  unsigned int kind = 0;
  const char* text = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(arguments, "Is#", &kind, &text, &size)) return nullptr;
  return PyLong_FromUnsignedLong(
      names().number_of(kind, std::string_view(text, static_cast<size_t>(size))));
}

PyObject* py_put_name(PyObject*, PyObject* arguments) {
  unsigned int kind = 0, number = 0;
  const char* text = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(arguments, "IIs#", &kind, &number, &text, &size)) return nullptr;
  return PyBool_FromLong(
      names().put(kind, number, std::string_view(text, static_cast<size_t>(size))));
}

// The scope of this thread; returns the one before.
PyObject* py_enter(PyObject*, PyObject* scope) {
  Watcher& watcher = here();
  const uint32_t before = watcher.scope;
  watcher.scope = static_cast<uint32_t>(PyLong_AsUnsignedLong(scope));
  return PyLong_FromUnsignedLong(before);
}

PyObject* py_phase(PyObject*, PyObject* phase) {
  Watcher& watcher = here();
  const uint8_t before = watcher.phase;
  watcher.phase = static_cast<uint8_t>(PyLong_AsLong(phase));
  return PyLong_FromLong(before);
}

PyObject* py_mute(PyObject*, PyObject* by) {
  here().muted += static_cast<int>(PyLong_AsLong(by));
  return none();
}

PyObject* py_describe(PyObject*, PyObject* list) { return describe_tensors(list); }

PyObject* py_number(PyObject*, PyObject* tensor) { return only_number(tensor); }

PyObject* py_note_call(PyObject*, PyObject* arguments) {
  long long step = 0;
  unsigned long long number = 0;
  PyObject *args = nullptr, *kwargs = nullptr, *batch = nullptr, *facts = nullptr;
  int uses_device = 0;
  if (!PyArg_ParseTuple(arguments, "LKO!O!O!O!p", &step, &number, &PyTuple_Type, &args,
                        &PyDict_Type, &kwargs, &PyList_Type, &batch, &PyDict_Type, &facts,
                        &uses_device)) {
    return nullptr;
  }
  return note_call(step, number, args, kwargs, batch, facts, uses_device != 0);
}

PyObject* py_put_batch(PyObject*, PyObject* arguments) {
  long long step = 0;
  PyObject* tensors = nullptr;
  if (!PyArg_ParseTuple(arguments, "LO!", &step, &PyList_Type, &tensors)) return nullptr;
  return PyBool_FromLong(put_batch(step, tensors));
}

PyObject* py_put_random(PyObject*, PyObject* arguments) {
  long long step = 0;
  int uses_device = 0;
  if (!PyArg_ParseTuple(arguments, "Lp", &step, &uses_device)) return nullptr;
  return PyBool_FromLong(put_random(step, uses_device != 0));
}

PyObject* py_mark_device(PyObject*, PyObject*) { return PyBool_FromLong(mark_device()); }

PyObject* py_device_memory(PyObject*, PyObject*) { return device_memory(); }

PyObject* py_send_number(PyObject*, PyObject* tensor) { return send_number(tensor); }

PyObject* py_arrived(PyObject*, PyObject* capsule) { return arrived(capsule); }

PyObject* py_put_step(PyObject*, PyObject* arguments) {
  unsigned long long number = 0;
  PyObject *facts = nullptr, *statistics = nullptr;
  if (!PyArg_ParseTuple(arguments, "KO!O", &number, &PyDict_Type, &facts, &statistics)) {
    return nullptr;
  }
  return PyBool_FromLong(put_step(number, facts, statistics));
}

// A composite operator runs its next part: that has a record of its own.
Record& next_part(Watcher& watcher) {
  Record& before = *watcher.record;
  const uint64_t sequence = ring.field(kHeadField).fetch_add(1, std::memory_order_relaxed) + 1;
  Record& record = ring.records[(sequence - 1) & ring.mask];
  record.sequence.store(0, std::memory_order_relaxed);
  const size_t head = sizeof record.sequence;
  std::memcpy(reinterpret_cast<char*>(&record) + head, reinterpret_cast<char*>(&before) + head,
              sizeof record - head);
  finish(watcher, &before, watcher.sequence);
  record.start = watcher.clock.now();
  record.sequence.store(sequence, std::memory_order_release);
  watcher.record = &record;
  watcher.sequence = sequence;
  return record;
}

// The capture says which node the operator under way is.
void note_node(int64_t node) {
  Watcher& watcher = here();
  Record* record = watcher.record;
  if (record == nullptr || record->sequence != watcher.sequence) return;
  if (record->node != 0 && !(record->flags & kCollective)) record = &next_part(watcher);
  if (watcher.depth > 1 && record->inner != 0) record->op = std::exchange(record->inner, 0);
  record->node = static_cast<uint32_t>(node + 1);
}

const RecorderFunctions functions = {
    &share,
    [](const at::RecordFunction& fn) {
      Watcher& watcher = here();
      started(watcher, fn);
      const bool is_outermost = watcher.depth == 1 && watcher.record != nullptr;
      return is_outermost ? watcher.record->start : 0;
    },
    [](const at::RecordFunction& fn) { ended(here(), fn); },
    &note_node,
    [] { note_line(here()); },
    [](int by) { here().muted += by; },
};

PyObject* py_link(PyObject*, PyObject*) {
  return PyLong_FromVoidPtr(const_cast<RecorderFunctions*>(&functions));
}

// Texts that outlive everything, ending with null.
char** kept_texts(PyObject* list) {
  const Py_ssize_t count = PyList_Size(list);
  char** texts = static_cast<char**>(std::calloc(static_cast<size_t>(count) + 1, sizeof(char*)));
  for (Py_ssize_t i = 0; texts != nullptr && i < count; ++i) {
    const char* text = PyBytes_AsString(PyList_GET_ITEM(list, i));
    texts[i] = strdup(text != nullptr ? text : "");
  }
  return texts;
}

PyObject* py_prepare_witness(PyObject*, PyObject* arguments) {
  PyObject *words = nullptr, *environment = nullptr;
  int stack_signal = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!i", &PyList_Type, &words, &PyList_Type, &environment,
                        &stack_signal)) {
    return nullptr;
  }
  char **kept_words = kept_texts(words), **kept_environment = kept_texts(environment);
  if (PyErr_Occurred()) return nullptr;
  prepare_witness(kept_words, kept_environment, stack_signal);
  return none();
}

PyObject* py_remove_after_good_end(PyObject*, PyObject* list) {
  if (!PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "a list of paths is needed");
    return nullptr;
  }
  char** paths = kept_texts(list);
  if (PyErr_Occurred()) return nullptr;
  remove_after_good_end(paths);
  return none();
}

PyObject* py_call_witness(PyObject*, PyObject*) {
  call_witness();
  return none();
}

PyObject* py_watch_signal(PyObject*, PyObject* number) {
  return PyBool_FromLong(watch_signal(static_cast<int>(PyLong_AsLong(number))));
}

PyObject* py_watch_for_hang(PyObject*, PyObject* seconds) {
  watch_for_hang(PyLong_AsUnsignedLongLong(seconds));
  return none();
}

PyObject* py_watch_exit(PyObject*, PyObject*) {
  watch_exit();
  return none();
}

PyObject* py_mark(PyObject*, PyObject* arguments) {
  unsigned int kind = 0;
  int number = 0;
  const char* text = "";
  if (!PyArg_ParseTuple(arguments, "Ii|s", &kind, &number, &text)) return nullptr;
  mark(kind, number, 0, text);
  return none();
}

PyMethodDef methods[] = {
    {"open", py_open, METH_VARARGS, "Write to the ring at an address."},
    {"close", py_close, METH_NOARGS, "Write no more; the memory may go."},
    {"observe", py_observe, METH_O, "Begin or end to be told of operators."},
    {"name", py_name, METH_VARARGS, "The number of a name of some kind."},
    {"put_name", py_put_name, METH_VARARGS, "Give a name a number."},
    {"enter", py_enter, METH_O, "Set this thread's scope; returns the one before."},
    {"phase", py_phase, METH_O, "Set this thread's phase; returns the one before."},
    {"mute", py_mute, METH_O, "Add to the count of our own code under way in this thread."},
    {"describe", py_describe, METH_O, "Names and tensors as JSON; None if Python is to say."},
    {"number", py_number, METH_O, "The one element of a tensor; None if Python is to find it."},
    {"note_call", py_note_call, METH_VARARGS,
     "Write a batch, the random state and the step; returns both lists, or None if Python is to."},
    {"put_batch", py_put_batch, METH_VARARGS, "Write tensors of a step; False if it cannot."},
    {"put_random", py_put_random, METH_VARARGS, "Write random states; False if it cannot."},
    {"put_step", py_put_step, METH_VARARGS, "Write the facts of a step; False if it cannot."},
    {"mark_device", py_mark_device, METH_NOARGS,
     "Note how far the GPU has got; False if torch is to say."},
    {"device_memory", py_device_memory, METH_NOARGS,
     "Bytes on the GPU now and at most; None if torch is to say."},
    {"send_number", py_send_number, METH_O,
     "Copy the one element of a tensor of a GPU; None if torch is to."},
    {"arrived", py_arrived, METH_O, "A number that was sent; None as long as it is on its way."},
    {"link", py_link, METH_NOARGS, "The address of what the capture tells of operators."},
    {"prepare_witness", py_prepare_witness, METH_VARARGS, "Say what to start at the end."},
    {"remove_after_good_end", py_remove_after_good_end, METH_O, "Leave nothing of a good end."},
    {"call_witness", py_call_witness, METH_NOARGS, "Start it."},
    {"watch_signal", py_watch_signal, METH_O, "Have a signal noted."},
    {"watch_for_hang", py_watch_for_hang, METH_O, "Note when no operator runs for so long."},
    {"watch_exit", py_watch_exit, METH_NOARGS, "Have the exit code noted."},
    {"mark", py_mark, METH_VARARGS, "Note how the process ends."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "opscope_recorder", "What the recorder does natively.", -1, methods,
    nullptr, nullptr, nullptr, nullptr};

void leave_to_parent() {
  ring.active = false;
  forget_thread();
}

}  // namespace
}  // namespace opscope

PyMODINIT_FUNC PyInit_opscope_recorder() {
  pthread_atfork(nullptr, nullptr, &opscope::leave_to_parent);
  return PyModule_Create(&opscope::definition);
}
