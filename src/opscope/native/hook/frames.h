// The frames of Python code under way in this thread, innermost first.
#pragma once

#include <Python.h>
#include <frameobject.h>

// The interpreter's own frames are read only of Pythons that this was tried on: 3.11 to 3.13. Of any
// other, of one without a lock, and where OPSCOPE_FRAME_OBJECTS is defined, Python's functions tell.
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) && \
    !defined(OPSCOPE_FRAME_OBJECTS) && __has_include(<internal/pycore_frame.h>)
#define OPSCOPE_PLAIN_FRAMES
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

#include "python_objects.h"

namespace opscope {

#ifdef OPSCOPE_PLAIN_FRAMES

#if PY_VERSION_HEX >= 0x030D0000
inline _PyInterpreterFrame* innermost_frame(const PyThreadState* state) {
  return state->current_frame;
}
inline PyCodeObject* code_of(const _PyInterpreterFrame* frame) {
  return reinterpret_cast<PyCodeObject*>(frame->f_executable);
}
#else
inline _PyInterpreterFrame* innermost_frame(const PyThreadState* state) {
  return state->cframe == nullptr ? nullptr : state->cframe->current_frame;
}
inline PyCodeObject* code_of(const _PyInterpreterFrame* frame) { return frame->f_code; }
#endif

inline int lasti_of(const _PyInterpreterFrame* frame) {
  const int at = _PyInterpreterFrame_LASTI(const_cast<_PyInterpreterFrame*>(frame));
  return at < 0 ? -1 : at * static_cast<int>(sizeof(_Py_CODEUNIT));
}

// Whether a frame has not begun to run code, or is a place holder of the interpreter's.
inline bool is_incomplete(const _PyInterpreterFrame* frame) {
  return _PyFrame_IsIncomplete(const_cast<_PyInterpreterFrame*>(frame));
}

// The interpreter's own record of a frame. Python's functions make an object for each frame that
// is asked for, which costs more than all else that is done about an operator here.
class Frame {
 public:
  static Frame current() { return Frame(innermost_frame(PyThreadState_Get())); }
  explicit operator bool() const { return frame_ != nullptr; }
  PyObject* code() const { return reinterpret_cast<PyObject*>(code_of(frame_)); }  // borrowed
  int lasti() const { return lasti_of(frame_); }
  Frame back() const { return Frame(frame_->previous); }

 private:
  explicit Frame(_PyInterpreterFrame* frame) : frame_(frame) {
    while (frame_ != nullptr && is_incomplete(frame_)) frame_ = frame_->previous;
  }
  _PyInterpreterFrame* frame_;
};

#else

class Frame {
 public:
  static Frame current() {
    return Frame(Ref::share(reinterpret_cast<PyObject*>(PyEval_GetFrame())));
  }
  Frame(const Frame& other) : frame_(Ref::share(other.frame_.get())) {}
  Frame(Frame&&) noexcept = default;
  Frame& operator=(Frame&&) noexcept = default;
  ~Frame() = default;
  explicit operator bool() const { return static_cast<bool>(frame_); }
  PyObject* code() const {  // borrowed: the frame keeps it
    PyCodeObject* code = PyFrame_GetCode(get());
    Py_DECREF(code);
    return reinterpret_cast<PyObject*>(code);
  }
  int lasti() const { return PyFrame_GetLasti(get()); }
  Frame back() const {
    return Frame(Ref::take(reinterpret_cast<PyObject*>(PyFrame_GetBack(get()))));
  }

 private:
  explicit Frame(Ref frame) : frame_(std::move(frame)) {}
  PyFrameObject* get() const { return reinterpret_cast<PyFrameObject*>(frame_.get()); }
  Ref frame_;
};

#endif

// As an object, for Python; None where no Python code is under way.
inline PyObject* current_frame_object() {  // borrowed
  PyFrameObject* frame = PyEval_GetFrame();
  return frame == nullptr ? Py_None : reinterpret_cast<PyObject*>(frame);
}

}  // namespace opscope
