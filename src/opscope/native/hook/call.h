// One call of an operator: its tensors, and what is to be done about them.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <cmath>
#include <exception>
#include <vector>

#include "state.h"
#include "tensors.h"

namespace opscope {

using Produced = c10::SmallVector<const at::Tensor*, 8>;

struct Call : at::ObserverContext {
  const Operator* op = nullptr;
  Call* outer = nullptr;
  PyThreadState* python = nullptr;  // of the thread that it is in
  bool hidden = true;    // nothing is to be done about it, nor about what runs inside it
  bool deferred = false;  // Python is told of it when it has run
  bool above = false;     // autograd sees to it: what it runs around the operator is looked at
  bool given_nan = false;    // a number among its arguments is NaN
  bool interrupted = false;  // a hook of the user's raised inside it
  int exceptions = std::uncaught_exceptions();
  uint64_t generation = 0;
  c10::SmallVector<at::Tensor, 6> tensors;  // in the order of its arguments
  c10::SmallVector<uint32_t, 4> written;    // which of them it writes to
  c10::SmallVector<Maker, 6> sources;       // borrowed: valid until the operator runs
  Jobs jobs;
  Bad bad;  // whether outputs are, for the alarm
  std::vector<c10::IValue> arguments;        // of a deferred call
  std::vector<at::Tensor> listed;            // outputs that came in lists
  size_t returned = 0;                       // how many outputs were returned, not written to
  NodeFacts* facts = nullptr;
  Ref node, base_source;
  int64_t base_call = -1;
  Ref delivered;  // what Python calls this call, where it hands values to sinks
  Ref begun;      // what Python knows of this call, where it sees to all of it
  Ref objects;    // its inputs, for Python
  int64_t node_id = 0, index = 0, flags = 0, pass_number = 0;
  bool has_base = false;  // whether the first tensor is what the output is a view or a conversion of

  ~Call() override {
    if (node || base_source || delivered || begun || objects) {
      Gil gil;
      release();
    }
  }
  const at::Tensor& base() const { return tensors[0]; }
  void release() {  // with the interpreter lock held
    node = Ref();
    base_source = Ref();
    delivered = Ref();
    begun = Ref();
    objects = Ref();
  }

  // There is one for every operator: their memory is used again.
  static void* operator new(size_t size) {
    Thread& thread = here();
    if (thread.spare_count == 0) return ::operator new(size);
    return thread.spare[--thread.spare_count];
  }
  static void operator delete(void* memory) {
    Thread& thread = here();
    if (thread.keeping == Thread::Keeping::kNotYet) {
      static thread_local SpareMemory until_the_end;
      (void)until_the_end;
      thread.keeping = Thread::Keeping::kNow;
    }
    if (thread.keeping == Thread::Keeping::kNow && thread.spare_count < std::size(thread.spare)) {
      thread.spare[thread.spare_count++] = memory;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  // Gives it back when the thread ends.
  struct SpareMemory {
    ~SpareMemory() {
      Thread& thread = here();
      while (thread.spare_count != 0) ::operator delete(thread.spare[--thread.spare_count]);
      thread.keeping = Thread::Keeping::kNoLonger;
    }
  };
};

inline Arguments all(const std::vector<c10::IValue>& values) {
  return Arguments(values.data(), values.size());
}

// The arguments of a call: those of a boxed one may lie above others on torch's stack.
inline Arguments last(Arguments values, size_t count) {
  return values.size() > count ? values.slice(values.size() - count) : values;
}

// Calls `function` for each tensor in a list, or in lists of lists.
template <class Function>
void each_tensor(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) function(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) each_tensor(item, function);
  }
}

// Collects the tensors of a call in the order of its arguments.
inline bool is_nan_number(const at::Tensor& number) {
  const void* data = number.unsafeGetTensorImpl()->data();
  return number.scalar_type() == c10::ScalarType::Double && data != nullptr &&
         std::isnan(*static_cast<const double*>(data));
}

inline void collect(Call& call, Arguments arguments) {
  const Operator& op = *call.op;
  for (size_t i = 0; i < arguments.size() && i < op.shapes.size(); ++i) {
    const c10::IValue& argument = arguments[i];
    if (op.shapes[i] == 0) {
      call.given_nan |= argument.isDouble() && std::isnan(argument.toDouble());
      continue;
    }
    const size_t first = call.tensors.size();
    if (argument.isTensor()) {
      const at::Tensor& tensor = argument.toTensor();
      if (!tensor.defined()) continue;
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {  // a number in Python
        call.given_nan |= is_nan_number(tensor);
        continue;
      }
      call.tensors.push_back(tensor);
    } else {
      each_tensor(argument, [&call](const at::Tensor& item) { call.tensors.push_back(item); });
    }
    if (op.mutated[i]) {
      for (size_t at = first; at < call.tensors.size(); ++at) {
        call.written.push_back(static_cast<uint32_t>(at));
      }
    }
  }
}

// The outputs by slot: what was returned, null where nothing was, then what else was written to.
inline Produced collect_outputs(Call& call, Arguments results) {
  Produced produced;
  size_t listed = 0;
  for (const c10::IValue& result : results) {
    if (result.isList()) each_tensor(result, [&listed](const at::Tensor&) { ++listed; });
  }
  call.listed.reserve(listed);
  for (const c10::IValue& result : results) {
    if (result.isTensor()) {
      const bool defined = result.toTensor().defined();
      if (defined || call.op->kind == kSeveral) {
        produced.push_back(defined ? &result.toTensor() : nullptr);
      }
    } else {
      each_tensor(result, [&](const at::Tensor& item) {
        call.listed.push_back(item);
        produced.push_back(&call.listed.back());
      });
    }
  }
  call.returned = produced.size();
  for (const uint32_t at : call.written) {
    const at::Tensor& tensor = call.tensors[at];
    bool again = false;
    for (size_t i = 0; i < call.returned && !again; ++i) {
      again = produced[i] != nullptr && produced[i]->is_same(tensor);
    }
    if (!again) produced.push_back(&tensor);
  }
  return produced;
}

inline bool was_written(const Call& call, size_t slot, const at::Tensor& tensor) {
  if (slot >= call.returned) return true;
  for (const uint32_t at : call.written) {
    if (call.tensors[at].is_same(tensor)) return true;
  }
  return false;
}

inline void append(const Ref& list, const Ref& object) {
  if (PyList_Append(list.get(), object.get()) < 0) throw PythonError();
}

inline Ref inputs_of(const Call& call) {
  Ref list = checked(PyList_New(0));
  for (const at::Tensor& tensor : call.tensors) append(list, python_of(tensor));
  return list;
}

inline Ref written_by(const Call& call, const Ref& inputs) {
  Ref list = checked(PyList_New(0));
  for (const uint32_t at : call.written) {
    append(list, Ref::share(PyList_GET_ITEM(inputs.get(), static_cast<Py_ssize_t>(at))));
  }
  return list;
}

inline Ref list_of(const Produced& tensors) {
  Ref list = checked(PyList_New(0));
  for (const at::Tensor* tensor : tensors) {
    append(list, tensor == nullptr ? Ref::share(Py_None) : python_of(*tensor));
  }
  return list;
}

// Whether a Python object that was made for a tensor before it was written to still describes it.
inline bool describes(PyObject* object, const at::Tensor& tensor) {
  const auto* impl = static_cast<const c10::TensorImpl*>(PyLong_AsVoidPtr(
      checked(PyObject_GetAttrString(object, "_cdata")).get()));
  if (impl == tensor.unsafeGetTensorImpl()) return true;
  return impl->has_storage() && tensor.has_storage() &&
         impl->storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl() &&
         impl->storage_offset() == tensor.storage_offset() && impl->sizes() == tensor.sizes() &&
         impl->strides() == tensor.strides() && impl->dtype() == tensor.dtype();
}

// The outputs for Python, where those that are inputs are the objects in `inputs`.
inline Ref outputs_of(const Call& call, const Produced& produced, const Ref& inputs) {
  Ref list = checked(PyList_New(0));
  size_t next = 0;
  for (size_t slot = 0; slot < produced.size(); ++slot) {
    const at::Tensor* tensor = produced[slot];
    if (tensor == nullptr) {
      append(list, Ref::share(Py_None));
      continue;
    }
    PyObject* same = nullptr;
    // What was written to comes in the order of the inputs, after what was returned.
    if (slot < call.returned || next >= call.written.size()) next = 0;
    for (size_t i = next; i < call.written.size() && same == nullptr; ++i) {
      if (call.tensors[call.written[i]].is_same(*tensor)) {
        same = PyList_GET_ITEM(inputs.get(), static_cast<Py_ssize_t>(call.written[i]));
        next = i + 1;
      }
    }
    const bool holds = same != nullptr && describes(same, *tensor);
    append(list, holds ? Ref::share(same) : python_of(*tensor));
  }
  return list;
}

}  // namespace opscope
