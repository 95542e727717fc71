// How operators reach the hook, and go on from it.
#pragma once

#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <cstring>
#include <memory>

#include "watching.h"

c10::impl::PyInterpreter* getPyInterpreter();

namespace opscope {

using c10::impl::TorchDispatchModeTLS;

inline struct {
  const c10::impl::PyInterpreterVTable* original = nullptr;
  void** functions[1];
  void* table[128];
  bool installed = false;
} interpreter;

using DispatchFunction = void (*)(const void*, const c10::OperatorHandle&, Arguments*);
using DetachFunction = c10::intrusive_ptr<c10::TensorImpl> (*)(const void*, const c10::TensorImpl*);
inline DispatchFunction python_dispatch = nullptr;
inline DetachFunction python_detach = nullptr;

// Our place among the dispatch keys: directly above the operators themselves, below autograd and
// below Python's modes. torch has the key for a purpose that it does not serve yet.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;
constexpr bool kBelowModes = static_cast<uint8_t>(kKey) < static_cast<uint8_t>(c10::DispatchKey::Python);
const c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kKey);
const c10::DispatchKeySet kAbove =
    c10::DispatchKeySet(c10::DispatchKeySet::FULL) - kBelow - c10::DispatchKeySet(kKey);

// Takes our mode off the stack while the operator itself runs.
class WithoutMode {
 public:
  WithoutMode() : mode_(TorchDispatchModeTLS::pop_stack()) {}
  ~WithoutMode() { TorchDispatchModeTLS::push_non_infra_mode_onto_stack(mode_); }
  WithoutMode(const WithoutMode&) = delete;
  WithoutMode& operator=(const WithoutMode&) = delete;

 private:
  std::shared_ptr<c10::impl::PyObject_TorchDispatchMode> mode_;
};

inline bool mode_is_on_top() {
  const int64_t length = TorchDispatchModeTLS::stack_len();
  return length > 0 && hook != nullptr &&
         TorchDispatchModeTLS::get_stack_at(length - 1)->ptr(getPyInterpreter()) ==
             hook->mode_pointer;
}

enum class How { kPlain, kPython, kHere };

inline How begin_guarded(Call& call) {
  try {
    return begin(call) ? How::kHere : How::kPython;
  } catch (const std::exception& error) {
    call.release();
    call.jobs.clear();
    report(error.what());
    return How::kPlain;
  }
}

// How operators reach us as a mode of Python's.
struct ByMode {
  const c10::OperatorHandle& handle;
  Arguments* stack;
  void plain() const {
    WithoutMode guard;
    handle.callBoxed(stack);
  }
  void python() const { python_dispatch(interpreter.original, handle, stack); }
};

// How operators reach us by a dispatch key of our own, without any of Python's machinery.
struct ByKey {
  const c10::OperatorHandle& handle;
  Arguments* stack;
  c10::DispatchKeySet keys;
  void plain() const { handle.redispatchBoxed(keys & kBelow, stack); }
  void python() const {
    // As torch does around a mode; with Python itself excluded it would not find the mode.
    c10::impl::ExcludeDispatchKeyGuard above(
        kAbove - c10::DispatchKeySet(c10::DispatchKey::Python));
    TorchDispatchModeTLS::push_non_infra_mode_onto_stack(hook->as_mode);
    try {
      python_dispatch(interpreter.original, handle, stack);
    } catch (...) {
      TorchDispatchModeTLS::pop_stack();
      throw;
    }
    TorchDispatchModeTLS::pop_stack();
  }
};

template <class Road>
inline void watch(const Road& road) {
  const c10::OperatorHandle& handle = road.handle;
  Arguments* stack = road.stack;
  Call call;
  How how = How::kPython;
  {
    Gil gil;
    const std::unique_ptr<Operator>* found = hook->operators.find(&handle.schema());
    if (found != nullptr && !hook->many && !(*found)->only_python) {
      call.op = found->get();
      if (call.op->ignored) {
        how = How::kPlain;
      } else if (collect(call, *stack)) {
        how = begin_guarded(call);
      }
    }
  }
  if (how == How::kPython) {
    ++hook->python_calls;
    return road.python();
  }
  if (how == How::kPlain) return road.plain();
  ++hook->native_calls;
  run(call.jobs, hook->rows.row);
  call.jobs.clear();
  PyObject* node = nullptr;
  try {
    road.plain();
  } catch (...) {
    Gil gil;
    hook->node_raised.set(call.node.get(), Py_True);
    call.release();
    throw;
  }
  {
    Gil gil;
    node = call.node.get();  // which its mode keeps
    try {
      finish(call, handle, *stack);
      call.release();
    } catch (const std::exception& error) {
      hook->rows.together = false;
      call.release();
      report(error.what());
    }
  }
  run(call.jobs, hook->rows.row);
  bool has_nan = false, bad = false;
  for (const char* record : call.records) {
    has_nan = has_nan || count_at(record, kNan) != 0;
    bad = bad || has_nan || (count_at(record, kPosinf) | count_at(record, kNeginf)) != 0;
  }
  if (bad) {
    Gil gil;
    try {
      raise_alarm(call, node, collect_outputs(call, handle, *stack), has_nan);
    } catch (const std::exception& error) {
      report(error.what());
    }
  }
}

inline void dispatch(const void*, const c10::OperatorHandle& handle, Arguments* stack) {
  if (!mode_is_on_top()) return python_dispatch(interpreter.original, handle, stack);
  const ByMode road{handle, stack};
  if (!hook->recording) return road.plain();
  watch(road);
}

inline bool has_subclass(const c10::OperatorHandle& handle, const Arguments& stack) {
  const size_t count = handle.schema().arguments().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor() && stack[i].toTensor().defined() &&
        stack[i].toTensor().key_set().has_any(kSubclass))
      return true;
  }
  return false;
}

// Where Python's modes come after us, we let them have their turn and come after them, as a mode.
inline void become_mode(const c10::OperatorHandle& handle, Arguments* stack) {
  {
    Gil gil;
    Quiet quiet;
    Ref done = Ref::take(PyObject_CallNoArgs(hook->become_mode.get()));
    if (!done) report("becoming a mode failed");
  }
  const c10::DispatchKeySet snapshot(c10::DispatchKey::PythonTLSSnapshot);
  c10::impl::ExcludeDispatchKeyGuard above(
      kAbove - snapshot - c10::DispatchKeySet(c10::DispatchKey::Python));
  handle.callBoxed(stack);
}

inline void by_key(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Arguments* stack) {
  const ByKey road{handle, stack, keys};
  c10::impl::ExcludeDispatchKeyGuard guard(kKey);  // what an operator does inside is its own affair
  const bool quiet = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python);
  if (hook == nullptr || !hook->recording || quiet) return road.plain();
  if constexpr (!kBelowModes) {
    if (TorchDispatchModeTLS::stack_len() > 0 || has_subclass(handle, *stack)) {
      return become_mode(handle, stack);
    }
  }
  watch(road);
}

// Autograd saves a tensor: a view of it, made without an operator.
inline c10::intrusive_ptr<c10::TensorImpl> detach(const void*, const c10::TensorImpl* self) {
  if (!mode_is_on_top() || hook->many || self->key_set().has_any(kSubclass)) {
    return python_detach(interpreter.original, self);
  }
  c10::intrusive_ptr<c10::TensorImpl> copy;
  {
    WithoutMode guard;
    copy = self->shallow_copy_and_detach(c10::VariableVersion(0), false);
  }
  if (!hook->recording) return copy;
  Gil gil;
  if (PyObject* source = known().get(self)) {
    known().put_view(copy.get(), self, source, source);
  } else {
    known().drop(copy.get());
  }
  return copy;
}


template <class Function>
inline size_t slot_of(Function function) {  // of a virtual function, in the Itanium C++ ABI
  ptrdiff_t raw;
  static_assert(sizeof function >= sizeof raw);
  std::memcpy(&raw, &function, sizeof raw);
  return static_cast<size_t>(raw - 1) / sizeof(void*);
}

inline PyObject* install(PyObject*, PyObject*) {
  if (!interpreter.installed) {
    c10::impl::PyInterpreter* torch = getPyInterpreter();
    interpreter.original = torch->vtable_;
    void** functions = *reinterpret_cast<void***>(
        const_cast<c10::impl::PyInterpreterVTable*>(interpreter.original));
    std::memcpy(interpreter.table, functions - 2, sizeof interpreter.table);
    const size_t at_dispatch = slot_of(&c10::impl::PyInterpreterVTable::dispatch);
    const size_t at_detach = slot_of(&c10::impl::PyInterpreterVTable::detach);
    python_dispatch = reinterpret_cast<DispatchFunction>(functions[at_dispatch]);
    python_detach = reinterpret_cast<DetachFunction>(functions[at_detach]);
    interpreter.table[2 + at_dispatch] = reinterpret_cast<void*>(dispatch);
    interpreter.table[2 + at_detach] = reinterpret_cast<void*>(detach);
    interpreter.functions[0] = interpreter.table + 2;
    torch->vtable_ = reinterpret_cast<const c10::impl::PyInterpreterVTable*>(interpreter.functions);
    interpreter.installed = true;
  }
  Py_RETURN_NONE;
}

inline PyObject* remove(PyObject*, PyObject*) {
  if (interpreter.installed) {
    getPyInterpreter()->vtable_ = interpreter.original;
    interpreter.installed = false;
  }
  if (hook != nullptr) {
    hook->recording = false;
    hook->mode_pointer = nullptr;
    hook->rows.lanes.clear();
  }
  Py_RETURN_NONE;
}

// Registers our function for our key, once; false if somebody else has the key.
inline bool claim_key() {
  static std::unique_ptr<torch::Library> library;
  if (library) return true;
  try {
    auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&by_key>());
    library = std::move(made);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace opscope
