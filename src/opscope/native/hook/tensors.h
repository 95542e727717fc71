// Tensors for Python code of ours.
#pragma once

#include <Python.h>

#include <ATen/core/TensorBase.h>

#include "python_objects.h"

PyObject* THPVariable_Wrap(const at::TensorBase& tensor);  // of libtorch_python

namespace opscope {

// The object that the script has for it, or else a tensor that
// shares its memory. To give a tensor an object that the script has not asked for would show:
// `_make_subclass` refuses such tensors, for one.
inline Ref python_of(const at::TensorBase& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->pyobj_slot()->load_pyobj() != nullptr) return checked(THPVariable_Wrap(tensor));
  return checked(THPVariable_Wrap(
      at::TensorBase(impl->shallow_copy_and_detach(impl->version_counter(), false))));
}

}  // namespace opscope
