// Access to Python objects of known classes, without looking attributes up by name.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace opscope {

// Holds the interpreter lock, which torch releases before it dispatches.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// The same for a thread whose state is known, which need not be looked for twice.
class GilOf {
 public:
  explicit GilOf(PyThreadState* state) : held_(_PyThreadState_UncheckedGet() == state) {
    if (!held_) PyEval_RestoreThread(state);
  }
  ~GilOf() {
    if (!held_) PyEval_SaveThread();
  }
  GilOf(const GilOf&) = delete;
  GilOf& operator=(const GilOf&) = delete;

 private:
  bool held_;
};

// A reference that is counted.
class Ref {
 public:
  Ref() = default;
  static Ref take(PyObject* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  static Ref share(PyObject* object) {
    Py_XINCREF(object);
    return take(object);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Raised where Python raised: what went wrong is Python's current exception.
struct PythonError : std::runtime_error {
  PythonError() : std::runtime_error("a Python exception is set") {}
};

inline Ref checked(PyObject* made) {
  if (made == nullptr) throw PythonError();
  return Ref::take(made);
}

// The value of a Python integer, most of which are small.
inline long small_number(PyObject* object) {
#if PY_VERSION_HEX >= 0x030C0000
  const auto* number = reinterpret_cast<const PyLongObject*>(object);
  if (PyUnstable_Long_IsCompact(number)) return PyUnstable_Long_CompactValue(number);
#else
  const Py_ssize_t size = Py_SIZE(object);
  if (size == 0) return 0;
  if (size == 1) return reinterpret_cast<const PyLongObject*>(object)->ob_digit[0];
#endif
  return PyLong_AsLong(object);
}

// A name in the __slots__ of a class: where it is in its objects.
class Slot {
 public:
  Slot() = default;
  Slot(PyObject* cls, const char* name) {
    Ref member = checked(PyObject_GetAttrString(cls, name));
    if (!Py_IS_TYPE(member.get(), &PyMemberDescr_Type)) {
      throw std::runtime_error(std::string(name) + " is not a slot");
    }
    offset_ = reinterpret_cast<PyMemberDescrObject*>(member.get())->d_member->offset;
  }
  PyObject* get(PyObject* object) const { return place(object); }  // borrowed
  void set(PyObject* object, PyObject* value) const {
    Py_INCREF(value);
    PyObject* old = std::exchange(place(object), value);
    Py_XDECREF(old);
  }
  void set_new(PyObject* object, PyObject* value) const {  // takes the reference over
    PyObject* old = std::exchange(place(object), value);
    Py_XDECREF(old);
  }
  long number(PyObject* object) const { return small_number(place(object)); }
  void set_number(PyObject* object, long value) const {
    set_new(object, PyLong_FromLong(value));
  }
  bool truth(PyObject* object) const { return place(object) == Py_True; }

 private:
  PyObject*& place(PyObject* object) const {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset_);
  }
  Py_ssize_t offset_ = 0;
};

}  // namespace opscope
