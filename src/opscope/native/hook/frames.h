// The frames of Python code under way in this thread, innermost first.
#pragma once

#include <Python.h>
#include <frameobject.h>

#if PY_VERSION_HEX < 0x030D0000 && __has_include(<internal/pycore_frame.h>)
#define OPSCOPE_PLAIN_FRAMES
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

#include "python_objects.h"

namespace opscope {

#ifdef OPSCOPE_PLAIN_FRAMES

// The interpreter's own record of a frame. Python's functions make an object for each frame that
// is asked for, which costs more than all else that is done about an operator here.
class Frame {
 public:
  static Frame current() { return Frame(PyThreadState_Get()->cframe->current_frame); }
  explicit operator bool() const { return frame_ != nullptr; }
  PyObject* code() const { return reinterpret_cast<PyObject*>(frame_->f_code); }  // borrowed
  int lasti() const {
    const int at = _PyInterpreterFrame_LASTI(frame_);
    return at < 0 ? -1 : at * static_cast<int>(sizeof(_Py_CODEUNIT));
  }
  Frame back() const { return Frame(frame_->previous); }

 private:
  explicit Frame(_PyInterpreterFrame* frame) : frame_(frame) {
    while (frame_ != nullptr && _PyFrame_IsIncomplete(frame_)) frame_ = frame_->previous;
  }
  _PyInterpreterFrame* frame_;
};

#else

class Frame {
 public:
  static Frame current() {
    return Frame(Ref::share(reinterpret_cast<PyObject*>(PyEval_GetFrame())));
  }
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
