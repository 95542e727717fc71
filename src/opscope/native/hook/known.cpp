#include "known.h"

#include <new>

namespace opscope {

void KnownMap::set(Entry& entry, PyObject* source, Shared* shared) {
  Entry old = entry;
  Py_INCREF(source);
  entry.source = source;
  entry.shared = shared;
  entry.writer = nullptr;
  if (shared != nullptr) {
    ++shared->users;
    Py_XINCREF(shared->writer);
    entry.writer = shared->writer;
  }
  release(old);
}

void KnownMap::release(Entry& entry) {
  Py_XDECREF(entry.source);
  Py_XDECREF(entry.writer);
  if (entry.shared != nullptr && --entry.shared->users == 0) {
    Py_XDECREF(entry.shared->writer);
    delete entry.shared;
  }
  entry = Entry();
}

Entry& KnownMap::place(const void* tensor) {
  const size_t mask = entries_.size() - 1;
  for (size_t at = hash(tensor) & mask;; at = (at + 1) & mask) {
    if (entries_[at].tensor == tensor) return entries_[at];
    if (entries_[at].tensor != nullptr) continue;
    if (2 * (used_ + 1) > entries_.size()) {
      grow();
      return place(tensor);
    }
    ++used_;
    entries_[at].tensor = tensor;
    return entries_[at];
  }
}

void KnownMap::grow() {
  std::vector<Entry> old(2 * entries_.size());
  old.swap(entries_);
  const size_t mask = entries_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.tensor == nullptr) continue;
    size_t at = hash(entry.tensor) & mask;
    while (entries_[at].tensor != nullptr) at = (at + 1) & mask;
    entries_[at] = entry;
  }
}

void KnownMap::drop(const void* tensor) {
  const size_t mask = entries_.size() - 1;
  size_t at = hash(tensor) & mask;
  while (entries_[at].tensor != tensor) {
    if (entries_[at].tensor == nullptr) return;
    at = (at + 1) & mask;
  }
  release(entries_[at]);
  --used_;
  // Close the gap: what follows may have been put here but for it.
  for (size_t next = (at + 1) & mask; entries_[next].tensor != nullptr; next = (next + 1) & mask) {
    const size_t home = hash(entries_[next].tensor) & mask;
    if (((next - home) & mask) < ((next - at) & mask)) continue;
    entries_[at] = entries_[next];
    entries_[next] = Entry();
    at = next;
  }
}

void KnownMap::clear() {
  for (Entry& entry : entries_) {
    if (entry.tensor != nullptr) release(entry);
  }
  used_ = 0;
}

namespace {

KnownMap& map_of(PyObject* self) { return *reinterpret_cast<KnownObject*>(self)->map; }

bool is_count(Py_ssize_t count, Py_ssize_t expected) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", expected, count);
  return false;
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) reinterpret_cast<KnownObject*>(self)->map = new KnownMap();
  return self;
}

void destroy(PyObject* self) {
  delete reinterpret_cast<KnownObject*>(self)->map;
  Py_TYPE(self)->tp_free(self);
}

PyObject* get(PyObject* self, PyObject* key) {
  PyObject* found = map_of(self).get(PyLong_AsVoidPtr(key));
  return Py_NewRef(found == nullptr ? Py_None : found);
}

PyObject* put(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 2)) return nullptr;
  map_of(self).put(PyLong_AsVoidPtr(arguments[0]), arguments[1]);
  Py_RETURN_NONE;
}

PyObject* put_outside(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 2)) return nullptr;
  map_of(self).put_outside(PyLong_AsVoidPtr(arguments[0]), arguments[1]);
  Py_RETURN_NONE;
}

PyObject* put_view(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 4)) return nullptr;
  map_of(self).put_view(PyLong_AsVoidPtr(arguments[0]), PyLong_AsVoidPtr(arguments[1]),
                        arguments[2], arguments[3]);
  Py_RETURN_NONE;
}

PyObject* put_write(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_count(count, 2)) return nullptr;
  map_of(self).put_write(PyLong_AsVoidPtr(arguments[0]), arguments[1]);
  Py_RETURN_NONE;
}

PyObject* drop(PyObject* self, PyObject* key) {
  map_of(self).drop(PyLong_AsVoidPtr(key));
  Py_RETURN_NONE;
}

PyObject* restart(PyObject* self, PyObject* lasting) {
  if (!PyDict_Check(lasting)) {
    PyErr_SetString(PyExc_TypeError, "expected a dict");
    return nullptr;
  }
  KnownMap& map = map_of(self);
  map.clear();
  PyObject *key = nullptr, *source = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(lasting, &position, &key, &source)) {
    map.put_outside(PyLong_AsVoidPtr(key), source);
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"get", get, METH_O, "Where a tensor comes from, or None."},
    {"put", reinterpret_cast<PyCFunction>(put), METH_FASTCALL, "A new tensor."},
    {"put_outside", reinterpret_cast<PyCFunction>(put_outside), METH_FASTCALL,
     "A tensor from outside the step."},
    {"put_view", reinterpret_cast<PyCFunction>(put_view), METH_FASTCALL,
     "A tensor that shares the memory of another."},
    {"put_write", reinterpret_cast<PyCFunction>(put_write), METH_FASTCALL,
     "A tensor that was written to."},
    {"drop", drop, METH_O, "Nothing is known of this tensor."},
    {"restart", restart, METH_O, "Know only what lasts."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject make_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "opscope_hook.Known";
  type.tp_basicsize = sizeof(KnownObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_new = make;
  type.tp_dealloc = destroy;
  type.tp_methods = methods;
  return type;
}

}  // namespace

PyTypeObject KnownType = make_type();

}  // namespace opscope
