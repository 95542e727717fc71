// Which line of the user's code an operator comes from.
//
// torch has released the interpreter lock when it tells of an operator, and taking it back would make
// threads wait for each other. The frames of this very thread stay as they are meanwhile, and keep
// their code alive; so they are read without it. Only code that is new is looked at with the lock.
#pragma once

#include <Python.h>

#include <vector>

#include "generated/flat_map.h"
#include "generated/frames.h"
#include "ring.h"

namespace opscope {

#ifdef OPSCOPE_PLAIN_FRAMES

inline PyObject*& user_file() {  // whether a file is the user's own
  static PyObject* function = nullptr;
  return function;
}

struct SiteAt {
  const void* code = nullptr;
  int lasti = 0;
  bool operator==(const SiteAt& other) const { return code == other.code && lasti == other.lasti; }
};

struct SiteAtHash {
  size_t operator()(const SiteAt& key) const {
    return AddressHash()(key.code) ^ (static_cast<size_t>(key.lasti) * 0x9e3779b97f4a7c15u >> 30);
  }
};

class Sites {
 public:
  uint32_t current() {
    PyThreadState* state = PyGILState_GetThisThreadState();
    if (state == nullptr) return 0;
    const _PyInterpreterFrame* frame = innermost_frame(state);
    for (int depth = 0; frame != nullptr && depth < kDeepest; ++depth, frame = frame->previous) {
      if (is_incomplete(frame) || !is_users(code_of(frame))) continue;
      const SiteAt key{code_of(frame), lasti_of(frame)};
      if (const uint32_t* known = sites_.find(key)) return *known;
      return sites_[key] = learn(frame);
    }
    return 0;
  }

 private:
  static constexpr int kDeepest = 48, kLongest = 12;

  bool is_users(PyCodeObject* code) {
    if (const bool* known = users_.find(code)) return *known;
    Gil gil;
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    Py_INCREF(code);  // for good: its address is a key
    Ref answer = Ref::take(PyObject_CallOneArg(user_file(), code->co_filename));
    const bool is_users = answer && PyObject_IsTrue(answer.get()) == 1;
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return users_[code] = is_users;
  }

  // One line "file <tab> line <tab> function" per frame of the user's, innermost first.
  uint32_t learn(const _PyInterpreterFrame* frame) {
    std::string text;
    int count = 0;
    for (; frame != nullptr && count < kLongest; frame = frame->previous) {
      if (is_incomplete(frame) || !is_users(code_of(frame))) continue;
      Gil gil;
      const char* file = PyUnicode_AsUTF8(code_of(frame)->co_filename);
      const char* function = PyUnicode_AsUTF8(code_of(frame)->co_qualname);
      PyErr_Clear();
      const int line = PyCode_Addr2Line(code_of(frame), lasti_of(frame));
      if (count++ != 0) text += '\n';
      text += std::string(file ? file : "?") + '\t' + std::to_string(line) + '\t' +
              (function ? function : "?");
    }
    return names().number_of(kNameSite, text);
  }

  FlatMap<SiteAt, uint32_t, SiteAtHash> sites_;
  FlatMap<const void*, bool, AddressHash> users_;
};

#else

inline PyObject*& user_file() {
  static PyObject* function = nullptr;
  return function;
}

// This Python's frames are read with its lock only, which is too dear for every operator.
class Sites {
 public:
  uint32_t current() { return 0; }
};

#endif

}  // namespace opscope
