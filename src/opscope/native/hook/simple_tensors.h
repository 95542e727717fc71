// Tensors as most are: what they hold is read where it lies.
#pragma once

#include <Python.h>

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/TensorImpl.h>

#include "python_objects.h"

namespace opscope {

// Attributes of tensors are read past `__torch_function__`.
class WithoutFunctions {
 public:
  WithoutFunctions() : before_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(
        at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~WithoutFunctions() { at::impl::PythonTorchFunctionTLS::set_disabled_state(before_); }
  WithoutFunctions(const WithoutFunctions&) = delete;
  WithoutFunctions& operator=(const WithoutFunctions&) = delete;

 private:
  at::impl::TorchFunctionDisabledState before_;
};

// What torch has of a tensor; null of what is none.
inline const c10::TensorImpl* tensor_impl(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("_cdata");
  Ref address = Ref::take(PyObject_GetAttr(object, name));
  const auto* impl =
      address ? static_cast<const c10::TensorImpl*>(PyLong_AsVoidPtr(address.get())) : nullptr;
  if (impl == nullptr) PyErr_Clear();
  return impl;
}

// Whether a tensor is one of a device alone: nobody's subclass, not wrapped, of a known size.
inline bool is_plain(const c10::TensorImpl& impl, c10::DispatchKeySet keys,
                     c10::BackendComponent backend) {
  const auto others = (impl.key_set() - keys).remove_backend(backend);
  return others.empty() && !impl.has_symbolic_sizes_strides();
}

// A tensor whose values lie one after the other in the memory of the host; null if it is another.
inline const c10::TensorImpl* simple_tensor(const c10::TensorImpl* impl) {
  constexpr c10::DispatchKeySet keys({c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView,
                                      c10::DispatchKey::AutogradCPU,
                                      c10::DispatchKey::AutocastCPU});
  if (impl == nullptr || !is_plain(*impl, keys, c10::BackendComponent::CPUBit)) return nullptr;
  if (!impl->has_storage() || !impl->is_contiguous()) return nullptr;
  // Its memory may have been given back since.
  const auto& storage = impl->unsafe_storage();
  const auto end = static_cast<uint64_t>(impl->storage_offset() + impl->numel()) * impl->itemsize();
  const bool there = storage.data() != nullptr && end <= storage.nbytes();
  return impl->numel() == 0 || there ? impl : nullptr;
}

inline const c10::TensorImpl* simple_tensor(PyObject* object) {
  return simple_tensor(tensor_impl(object));
}

// The same of a GPU, where the values may lie in any way.
inline const c10::TensorImpl* cuda_tensor(const c10::TensorImpl* impl) {
  constexpr c10::DispatchKeySet keys({c10::DispatchKey::CUDA, c10::DispatchKey::ADInplaceOrView,
                                      c10::DispatchKey::AutogradCUDA,
                                      c10::DispatchKey::AutocastCUDA});
  const bool is_one = impl != nullptr && is_plain(*impl, keys, c10::BackendComponent::CUDABit);
  return is_one && impl->has_storage() ? impl : nullptr;
}

// The one element of a tensor; None if Python is to find it.
inline PyObject* only_number(PyObject* object) {
  const WithoutFunctions past_functions;
  const c10::TensorImpl* tensor = simple_tensor(object);
  if (tensor == nullptr || tensor->numel() != 1) Py_RETURN_NONE;
  const auto dtype = c10::typeMetaToScalarType(tensor->dtype());
  if (dtype == c10::ScalarType::Float) {
    return PyFloat_FromDouble(*static_cast<const float*>(tensor->data()));
  }
  if (dtype == c10::ScalarType::Double) {
    return PyFloat_FromDouble(*static_cast<const double*>(tensor->data()));
  }
  Py_RETURN_NONE;
}

}  // namespace opscope
