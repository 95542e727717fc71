// Capture without Python frames: does for known call sites what capture/watching.py does.
//
// torch tells us of every operator before and after it runs (observer.h). If the operator, its call
// site and its inputs are of the common kind, everything is done natively, on the same Python objects
// as in Python; otherwise Python is told, before anything has been changed. So capture/watching.py
// remains the one description of what capture does.
//
// This is the Python module. The rest is in headers, in one unit with it, because torch's own headers
// take most of the time to compile: observer.h (how operators come), roles.h (which of them count),
// watching.h (before and after one), measuring.h (rows), sites.h (which call site), call.h (one call),
// texts.h (its arguments), state.h (what is known), configure.h (how that begins).
#include <Python.h>

#include <string>

#include "configure.h"
#include "cuda_driver.h"
#include "glance.h"
#include "observer.h"

namespace opscope {
namespace {

// Runs a function of the module: C++ exceptions become Python's.
template <class Function>
PyObject* translated(Function function) {
  try {
    return function();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

// The same, for what needs a hook.
template <class Function>
PyObject* guarded(Function function) {
  return translated([&] {
    if (hook == nullptr) throw std::runtime_error("the hook is not configured");
    return function();
  });
}

PyObject* none() { Py_RETURN_NONE; }

PyObject* py_configure(PyObject*, PyObject* settings) {
  return translated([&] {
    configure(settings);
    return none();
  });
}

PyObject* py_begin(PyObject*, PyObject* arguments) {
  PyObject *order = nullptr, *renewed = nullptr, *passes = nullptr, *further = nullptr;
  long step = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!l", &PyList_Type, &order, &PyList_Type, &renewed,
                        &PyList_Type, &passes, &PyDict_Type, &further, &step)) {
    return nullptr;
  }
  return guarded([&] {
    if (hook->order) hook->base += PyList_GET_SIZE(hook->order.get());
    hook->order = Ref::share(order);
    hook->renewed = Ref::share(renewed);
    hook->passes = Ref::share(passes);
    hook->further = Ref::share(further);
    hook->further_size = 0;
    hook->step = step;
    hook->last_pass = 0;
    hook->repeats = false;
    hook->real_time = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    hook->changes.clear();
    hook->crossings.clear();
    return none();
  });
}

PyObject* py_set_passes(PyObject*, PyObject* arguments) {
  Pass training, evaluation;
  int64_t first = 0, last = 0;
  static_assert(sizeof(long) == sizeof(int64_t));
  if (!PyArg_ParseTuple(arguments, "llllll", &training.serial, &training.number, &evaluation.serial,
                        &evaluation.number, &first, &last)) {
    return nullptr;
  }
  return guarded([&] {
    hook->training = training;
    hook->evaluation = evaluation;
    hook->first_serial = first;
    hook->last_pass = last;
    return none();
  });
}

PyObject* py_set_state(PyObject*, PyObject* arguments) {
  int recording = 0, only_python = 0;
  long revision = 0;
  if (!PyArg_ParseTuple(arguments, "ppl", &recording, &only_python, &revision)) return nullptr;
  return guarded([&] {
    const bool resumes = recording != 0 && !hook->recording;
    if (resumes) hook->resumption = next_number();
    hook->recording = recording != 0;
    if (resumes) enter_thread();
    hook->only_python = only_python != 0;
    hook->revision = revision;
    observe(hook->recording);
    share_with_recorder(hook->recording);
    return none();
  });
}

PyObject* py_link_recorder(PyObject*, PyObject* functions) {
  share_with_recorder(false);
  recorder().functions = static_cast<const RecorderFunctions*>(PyLong_AsVoidPtr(functions));
  return none();
}

PyObject* py_remove(PyObject*, PyObject*) {
  share_with_recorder(false);
  observe(false);
  if (hook != nullptr) {
    hook->recording = false;
    hook->generation = next_number();  // calls under way are nobody's
    hook->rows.lanes.clear();
  }
  Py_RETURN_NONE;
}

PyObject* py_texts(PyObject*, PyObject*) {
  return guarded([] {
    const Call* call = here().call;
    if (call == nullptr) throw std::runtime_error("no call is under way");
    return texts_of(*call->op, here().arguments).release();
  });
}

// A context manager around code of ours. In Python, a signal that comes between two lines of one
// would leave the observer mute for good.
struct QuietObject {
  PyObject_HEAD
  bool below;  // autograd
  std::unique_ptr<NotWatched> not_watched;
};

PyObject* make_quiet(PyTypeObject* type, PyObject* arguments, PyObject*) {
  int below = 0;
  if (!PyArg_ParseTuple(arguments, "p", &below)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* quiet = reinterpret_cast<QuietObject*>(self);
  quiet->below = below != 0;
  new (&quiet->not_watched) std::unique_ptr<NotWatched>();
  return self;
}

void destroy_quiet(PyObject* self) {
  reinterpret_cast<QuietObject*>(self)->not_watched.~unique_ptr();
  Py_TYPE(self)->tp_free(self);
}

PyObject* enter_quiet(PyObject* self, PyObject*) {
  auto* quiet = reinterpret_cast<QuietObject*>(self);
  quiet->not_watched = std::make_unique<NotWatched>(quiet->below ? kAbove : kAboveAutograd);
  Py_RETURN_NONE;
}

PyObject* exit_quiet(PyObject* self, PyObject* const*, Py_ssize_t) {
  reinterpret_cast<QuietObject*>(self)->not_watched.reset();
  Py_RETURN_NONE;
}

PyMethodDef quiet_methods[] = {
    {"__enter__", enter_quiet, METH_NOARGS, "From here on nobody is to see it."},
    {"__exit__", reinterpret_cast<PyCFunction>(exit_quiet), METH_FASTCALL, "Until here."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject make_quiet_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "opscope_hook.Quiet";
  type.tp_basicsize = sizeof(QuietObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_new = make_quiet;
  type.tp_dealloc = destroy_quiet;
  type.tp_methods = quiet_methods;
  return type;
}

PyTypeObject QuietType = make_quiet_type();

PyObject* py_enter_python(PyObject*, PyObject*) {
  return translated([] { return PyLong_FromLong(enter_python()); });
}

PyObject* py_leave_python(PyObject*, PyObject* arguments) {
  int depth = 0, raised = 0;
  if (!PyArg_ParseTuple(arguments, "ip", &depth, &raised)) return nullptr;
  here().depth = depth;
  if (raised != 0 && here().call != nullptr) here().call->interrupted = true;
  Py_RETURN_NONE;
}

// The tensor behind a Python object, which is the caller's; null if it is none.
c10::TensorImpl* tensor_in(PyObject* object) {
  NotWatched not_watched;
  Ref address = Ref::take(PyObject_GetAttrString(object, "_cdata"));
  if (!address) {
    PyErr_Clear();
    return nullptr;
  }
  return static_cast<c10::TensorImpl*>(PyLong_AsVoidPtr(address.get()));
}

PyObject* py_learn_leaves(PyObject*, PyObject* arguments) {
  PyObject *node = nullptr, *leaf = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO", &node, &leaf)) return nullptr;
  return translated([&] {
    learn_leaves(node, tensor_in(leaf));
    return PyBool_FromLong(leaves_are_known());
  });
}

PyObject* py_set_cursor(PyObject*, PyObject* cursor) {
  return guarded([&] {
    hook->rows.cursor = static_cast<int64_t*>(PyLong_AsVoidPtr(cursor));
    return none();
  });
}

PyObject* py_set_marks(PyObject*, PyObject* marks) {
  return guarded([&] {
    hook->marks = static_cast<int64_t*>(PyLong_AsVoidPtr(marks));
    return none();
  });
}

PyObject* py_note_write(PyObject*, PyObject* object) {
  return guarded([&] {
    c10::TensorImpl* impl = tensor_in(object);
    if (impl == nullptr) return none();
    const at::TensorBase written(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl));
    hook->rows.note_write(written);
    if (written.is_cuda()) {
      if (CudaLane* lane = hook->rows.lane_of(written)) lane->before_write(written);
    }
    return none();
  });
}

PyObject* py_hold(PyObject*, PyObject* storage) {
  return guarded([&] {
    hook->held[PyLong_AsVoidPtr(storage)] = true;
    return none();
  });
}

PyObject* py_let_go(PyObject*, PyObject*) {
  return guarded([&] {
    hook->held.clear();
    return none();
  });
}

Ref bytes_of(const std::vector<int64_t>& numbers) {
  return checked(
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(numbers.data()),
                                static_cast<Py_ssize_t>(numbers.size() * sizeof(int64_t))));
}

PyObject* py_end_step(PyObject*, PyObject*) {
  return guarded([&] {
    RowBook& rows = hook->rows;
    Ref moments = bytes_of(rows.moments), copies = bytes_of(rows.copies);
    rows.end_step();
    return PyTuple_Pack(2, moments.get(), copies.get());
  });
}

PyObject* py_glance(PyObject*, PyObject* records) {
  Py_buffer memory;
  if (PyObject_GetBuffer(records, &memory, PyBUF_SIMPLE) != 0) return nullptr;
  PyObject* found = glance(static_cast<const char*>(memory.buf), memory.len / kRecordBytes);
  PyBuffer_Release(&memory);
  return found;
}

PyObject* py_has_bad(PyObject*, PyObject*) {
  return guarded([&] { return PyBool_FromLong(hook->rows.bad); });
}

PyObject* py_take_links(PyObject*, PyObject*) {
  return guarded([&] {
    Ref changes = bytes_of(hook->changes), crossings = bytes_of(hook->crossings);
    hook->changes.clear();
    hook->crossings.clear();
    return PyTuple_Pack(2, changes.get(), crossings.get());
  });
}

// A device that rows are asked of: its index, its DeviceRows, or None if these can be enqueued by
// Python only, and a list of (dtype number, form number, bytes per element, elements per group).
PyObject* py_add_lane(PyObject*, PyObject* arguments) {
  int index = 0;
  PyObject *device = nullptr, *forms = nullptr;
  if (!PyArg_ParseTuple(arguments, "iOO!", &index, &device, &PyList_Type, &forms)) return nullptr;
  return guarded([&] {
    if (!cuda_driver().whole || index < 0 || device == Py_None) {
      hook->rows.python_lanes = true;
      return none();
    }
    std::vector<Form> by_dtype;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(forms); ++i) {
      int dtype = 0, number = 0;
      long long size = 0, group = 0;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(forms, i), "iiLL", &dtype, &number, &size, &group))
        throw PythonError();
      if (by_dtype.size() <= static_cast<size_t>(dtype)) by_dtype.resize(dtype + 1);
      by_dtype[dtype] = Form{number, size, group};
    }
    auto& lanes = hook->rows.lanes;
    if (lanes.size() <= static_cast<size_t>(index)) lanes.resize(index + 1);
    lanes[index] = std::make_unique<CudaLane>(device, index, std::move(by_dtype));
    return none();
  });
}

PyObject* py_launch_all(PyObject*, PyObject*) {
  return guarded([&] {
    for (const auto& lane : hook->rows.lanes) {
      if (lane) lane->end_step();
    }
    return none();
  });
}

PyObject* py_number(PyObject*, PyObject* object) { return only_number(object); }

PyObject* py_mute_thread(PyObject*, PyObject*) {
  ++here().muted;
  Py_RETURN_NONE;
}

PyObject* py_key(PyObject*, PyObject* object) {
  const c10::TensorImpl* impl = tensor_in(object);
  return PyLong_FromVoidPtr(impl == nullptr ? static_cast<void*>(object)
                                            : const_cast<c10::TensorImpl*>(impl));
}

// The autograd node under way: its number, its name and, if it adds to a gradient, the tensor whose.
PyObject* py_current_grad_node(PyObject*, PyObject*) {
  return translated([] {
    const GradNode node = current_grad_node(true);
    if (!node.there) return none();
    Ref leaf = Ref::share(Py_None);
    if (node.leaf != nullptr) {
      auto* impl = const_cast<c10::TensorImpl*>(node.leaf);
      leaf = python_of(at::TensorBase(
          c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl)));
    }
    return Py_BuildValue("KsO", static_cast<unsigned long long>(node.sequence), node.name.c_str(),
                         leaf.get());
  });
}

PyObject* py_counts(PyObject*, PyObject*) {
  return guarded(
      [&] { return Py_BuildValue("LLL", hook->native_calls, hook->python_calls, here().told); });
}

PyMethodDef methods[] = {
    {"configure", py_configure, METH_O, "Begin a capture: its classes and callbacks."},
    {"begin", py_begin, METH_VARARGS, "Nodes, renewed ones, passes and further sources of a step, and its number."},
    {"set_passes", py_set_passes, METH_VARARGS, "The passes that are under way, and that of the call before."},
    {"take_links", py_take_links, METH_NOARGS, "Changes and crossings of the step so far."},
    {"set_state", py_set_state, METH_VARARGS, "Recording, only by Python, revision of plans."},
    {"set_cursor", py_set_cursor, METH_O, "The address of the row memory's cursor."},
    {"set_marks", py_set_marks, METH_O, "The address of the marks of call sites."},
    {"glance", py_glance, METH_O, "Rows at a glance, as stats/glance.py finds it."},
    {"has_bad", py_has_bad, METH_NOARGS, "Whether a value read in this step holds NaN or Inf."},
    {"end_step", py_end_step, METH_NOARGS, "Moments, and records that copy others, as bytes."},
    {"add_lane", py_add_lane, METH_VARARGS, "A device that rows are asked of."},
    {"launch_all", py_launch_all, METH_NOARGS, "Enqueue every row that waits for company."},
    {"note_write", py_note_write, METH_O, "A tensor is about to be written to."},
    {"hold", py_hold, METH_O, "Announce writes to the memory at this address."},
    {"let_go", py_let_go, METH_NOARGS, "Announce no more of them."},
    {"number", py_number, METH_O, "The one element of a tensor; None if Python is to find it."},
    {"key", py_key, METH_O, "What a tensor is known by."},
    {"mute_thread", py_mute_thread, METH_NOARGS, "Look away from this thread until it ends."},
    {"texts", py_texts, METH_NOARGS, "The arguments of the call under way that are no tensors."},
    {"enter_python", py_enter_python, METH_NOARGS, "Watch what runs inside the call under way."},
    {"leave_python", py_leave_python, METH_VARARGS,
     "The opposite, with what that returned and whether the code inside raised."},
    {"current_grad_node", py_current_grad_node, METH_NOARGS, "Its number, name and leaf, or None."},
    {"learn_leaves", py_learn_leaves, METH_VARARGS,
     "A node that adds to the gradient of a tensor, and the tensor: see how nodes have theirs."},
    {"counts", py_counts, METH_NOARGS, "Calls handled here, calls left to Python, and all that torch told this thread of."},
    {"link_recorder", py_link_recorder, METH_O, "Tell the recorder at this address of operators."},
    {"remove", py_remove, METH_NOARGS, "Observe no operators any more."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "opscope_hook", nullptr, -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace opscope

PyMODINIT_FUNC PyInit_opscope_hook() {
  PyObject* module = PyModule_Create(&opscope::module);
  if (module == nullptr || PyModule_AddType(module, &opscope::KnownType) < 0 ||
      PyModule_AddType(module, &opscope::QuietType) < 0) {
    return nullptr;
  }
  return module;
}
