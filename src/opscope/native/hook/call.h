// One call of an operator: its tensors, and what is to be done about them.
#pragma once

#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <deque>
#include <vector>

#include "state.h"

namespace opscope {

struct Call {
  const Operator* op = nullptr;
  std::deque<at::Tensor> held;  // tensors out of lists, and those written to
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<PyObject*, 8> sources;
  c10::SmallVector<const at::Tensor*, 4> written;
  std::vector<Job> jobs;
  c10::SmallVector<at::Tensor, 8> inputs;  // kept for the alarm
  c10::SmallVector<const char*, 4> records;  // of outputs, for the alarm
  Ref node, base_source;
  Ref delivered;  // what Python calls this call, where it hands values to sinks
  int64_t node_id = 0, index = 0, flags = 0;
  at::Tensor base;

  void release() {  // with the interpreter lock held
    node = Ref();
    base_source = Ref();
    delivered = Ref();
  }
};

constexpr c10::DispatchKeySet kSubclass({c10::DispatchKey::Python});

// Collects the tensors of a call in the order of its arguments; false if one is a subclass.
inline bool collect(Call& call, const Arguments& stack) {
  const Operator& op = *call.op;
  const size_t count = op.shapes.size();
  const c10::IValue* arguments = stack.data() + (stack.size() - count);
  for (size_t i = 0; i < count; ++i) {
    if (op.shapes[i] == 0) continue;
    const c10::IValue& argument = arguments[i];
    const size_t first = call.tensors.size();
    if (argument.isTensor()) {
      const at::Tensor& tensor = argument.toTensor();
      if (!tensor.defined()) continue;
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) continue;  // a plain number in Python
      if (op.mutated[i] || op.nested) {  // wanted after the call, which takes the arguments off the stack
        call.held.push_back(tensor);
        call.tensors.push_back(&call.held.back());
      } else {
        call.tensors.push_back(&tensor);
      }
    } else if (argument.isList()) {
      for (const c10::IValue& item : argument.toListRef()) {
        if (!item.isTensor() || !item.toTensor().defined()) continue;
        call.held.push_back(item.toTensor());
        call.tensors.push_back(&call.held.back());
      }
    }
    if (op.mutated[i]) {
      for (size_t at = first; at < call.tensors.size(); ++at) {
        call.written.push_back(call.tensors[at]);
      }
    }
  }
  for (const at::Tensor* tensor : call.tensors) {
    if (tensor->key_set().has_any(kSubclass)) return false;
  }
  return true;
}

using Produced = c10::SmallVector<const at::Tensor*, 8>;

// The outputs by slot: what was returned, null where nothing was, then what else was written to.
inline Produced collect_outputs(Call& call, const c10::OperatorHandle& handle, const Arguments& stack) {
  Produced produced;
  const size_t count = handle.schema().returns().size();
  const c10::IValue* results = stack.data() + (stack.size() - count);
  for (size_t i = 0; i < count; ++i) {
    if (results[i].isTensor()) {
      const bool defined = results[i].toTensor().defined();
      if (defined || call.op->kind == kSeveral) {
        produced.push_back(defined ? &results[i].toTensor() : nullptr);
      }
    } else if (results[i].isList()) {
      for (const c10::IValue& item : results[i].toListRef()) {
        if (!item.isTensor() || !item.toTensor().defined()) continue;
        call.held.push_back(item.toTensor());
        produced.push_back(&call.held.back());
      }
    }
  }
  const size_t returned = produced.size();
  for (const at::Tensor* tensor : call.written) {
    bool again = false;
    for (size_t i = 0; i < returned; ++i) {
      again = again || (produced[i] != nullptr && produced[i]->is_same(*tensor));
    }
    if (!again) produced.push_back(tensor);
  }
  return produced;
}

inline bool was_written(const Call& call, const at::Tensor& tensor) {
  for (const at::Tensor* written : call.written) {
    if (written->is_same(tensor)) return true;
  }
  return false;
}

inline Ref list_of(const c10::SmallVectorImpl<const at::Tensor*>& tensors) {
  Ref list = checked(PyList_New(0));
  for (const at::Tensor* tensor : tensors) {
    Ref object = tensor == nullptr ? Ref::share(Py_None) : checked(THPVariable_Wrap(*tensor));
    if (PyList_Append(list.get(), object.get()) < 0) throw PythonError();
  }
  return list;
}

}  // namespace opscope
